"""The cases of `noop`."""

from __future__ import annotations

from tests.matrix.cases import Case

leaves_out = {
    "timeout": "it answers at once",
    "rights": "it reaches nothing",
}
CASES = [
    Case("result", {"result": {"n": "{{ 1 + 1 }}"}, "data": 1, "args": {"n": 3}}, gives={"{{ _prev }}": {"n": 2}}),
    Case("data", {"data": [1, 2], "args": {"n": 3}}, gives={"{{ _prev }}": [1, 2]}),
    Case("arguments", {"args": {"n": 3}}, gives={"{{ _prev.n }}": 3}),
    Case("nothing", {"message": "on the way"}, gives={"{{ _prev is none }}": True}),
    Case("undefined", {"result": "{{ nowhere.n }}"}, "errors", fails="template", retryable=False, says="nowhere"),
    Case("large", {"result": "{{ 'x' * 200000 }}"}, "large result", gives={"{{ _prev | length }}": 200_000}),
    Case("secret", {"result": "Bearer {{ keychain.matrix.token }}"}, "secret", gives={"{{ _prev }}": "***"}),
]
