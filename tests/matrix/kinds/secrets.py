"""The cases of `secrets`. The credential `matrix_kept` is for playbooks that are others."""

from __future__ import annotations

from tests.matrix.cases import Case

leaves_out = {
    "timeout": "it reads one value, and the client of the store has a timeout of its own",
    "large result": "a store takes credentials of 64 KB at most",
    "rights": "who may read a credential is said by the credential: `paths`",
}
CREDENTIALS = {"matrix_kept": {"type": "basic", "data": {"user": "ada"}, "paths": ["others/*"]}}
CASES = [
    Case("fields", {"secret": "matrix"}, gives={"{{ _prev.token }}": "***", "{{ _prev | list }}": ["token"]}),
    Case("field", {"secret": "matrix", "field": "token"}, gives={"{{ _prev }}": "***"}),
    Case("no_credential", {"secret": "no_such_credential"}, "errors", fails="not_found", retryable=False),
    Case("no_field", {"secret": "matrix", "field": "user"}, "errors", fails="not_found", retryable=False, says="it has token"),
    Case("kept", {"secret": "matrix_kept"}, "errors", fails="auth", retryable=False, says="others/*"),
    Case("wrong", {"secret": "{{ '' }}"}, "errors", fails="schema", retryable=False),
    Case("secret", {"key": "matrix", "field": "token"}, "secret", gives={"{{ 'Bearer ' ~ _prev }}": "***"}),
]
