"""Secrets of a run: `keychain`, `credentials` (which playbooks may read them), `sealing` (secrets of a suspended run),
`secret_results`, and
`callback_tokens`. No credential is stored here: the port `Secrets` reads them."""
