"""Secrets of a run: `keychain`, `credentials` (who may read which), `sealing` (secrets of a suspended run), `secret_results`, and
`callback_tokens`. No credential is stored here: the port `Secrets` reads them."""
