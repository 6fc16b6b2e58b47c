"""Whatever is made from a secret is a secret (docs/access.md)."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from typing import Any

import pytest

from noetl_core.expr import MASK, Pointer, Scope, Secret, TemplateError, contains_secret, mask, render, reveal, truthy

WORD = "hunter2-hunter2"
SCOPE = Scope(
    {
        "keychain": {
            "pg": Secret({"user": "u", "password": WORD}),
            "token": Secret(WORD),
            "n": Secret(5),
            "list": Secret([WORD, "x"]),
        },
        "ctx": {"plain": "p", "mixed": ["a", Secret(WORD)], "nested": {"deep": {"auth": Secret(WORD)}}},
        "steps": {"login": {"status": "ok", "result": Pointer("login")}},
        "ref": {"kind": "result_ref", "store": "s3", "key": "k"},
    },
    resolve=lambda wanted: {"token": Secret(WORD)},
)

DERIVED = [
    "{{ keychain.token }}", "Bearer {{ keychain.token }}", "{{ keychain.pg.password }}", "{{ keychain.pg['password'] }}",
    "{{ keychain.pg }}", "{{ keychain.token ~ '' }}", "{{ '%s' % keychain.token }}", "{{ '{}'.format(keychain.token) }}",
    "{{ '{0.password}'.format(keychain.pg) }}", "{{ keychain.token | upper | lower }}", "{{ keychain.token[:4] ~ keychain.token[4:] }}",
    "{{ keychain.token | list | join }}", "{{ keychain.token | reverse | reverse }}", "{{ keychain.pg | tojson }}",
    "{{ [keychain.token] | tojson }}", "{{ keychain.token | b64encode }}", "{{ keychain.token | replace('h', 'H') }}",
    "{{ [1, keychain.token] | join('-') }}", "{{ {'a': keychain.token} }}", "{{ [keychain.token, 'x'] | first }}",
    "{{ keychain.list | map('upper') | list }}", "{{ keychain.list[0] }}", "{{ ctx.mixed | join(',') }}", "{{ ctx.mixed[1] }}",
    "{{ ctx.mixed | last }}", "{{ ctx.mixed | tojson }}", "{{ ctx.mixed ~ '' }}", "{{ ctx.mixed | sort }}", "{{ ctx.mixed | map('length') }}",
    "{{ ctx.nested | tojson }}", "a{{ ctx.nested }}", "{{ ctx.nested.deep.auth }}", "{% for x in ctx.mixed %}{{ x }}{% endfor %}",
    "{% set t = keychain.token %}{{ t }}", "{% macro m(t) %}{{ t }}{% endmacro %}{{ m(keychain.token) }}",
    "{{ keychain.values() | list | tojson }}", "{{ keychain.items() | tojson }}", "{{ dict(keychain).token }}",
    "{{ keychain.get('token') }}", "{{ keychain.token | length }}", "{{ keychain.token | regex_replace('h', 'x') }}",
    "{{ 'yes' if keychain.token else 'no' }}", "{{ keychain.token == 'x' }}", "{{ 'hunter' in keychain.token }}",
    "{{ 'hunter2-hunter2' in ctx.mixed }}", "{{ keychain.n + 1 }}", "{{ keychain.n | string }}", "{{ login.token }}",
    "{{ steps.login.result.token }}", "{{ ref.token }}", "{{ keychain.token | default('x') }}", "{{ ctx.plain ~ keychain.token }}",
    "{{ ctx.mixed | sum(start='') }}", "{{ ctx.mixed | max }}", "{{ zip(ctx.mixed, [1, 2]) }}", "{{ ctx.mixed | select('string') }}",
    "{{ ctx.mixed | unique }}", "{{ [ctx.nested] | map(attribute='deep.auth') }}", "{{ keychain.pg | urlencode }}",
    "{{ ctx.mixed.index('hunter2-hunter2') }}", "{{ '%(password)s' | format(**keychain.pg) }}", "{{ ctx.mixed == ['a', 'b'] }}",
]  # fmt: skip


@pytest.mark.parametrize("template", DERIVED)
def test_every_value_made_from_a_secret_is_a_secret(template: str) -> None:
    result = render(template, SCOPE)
    assert contains_secret(result)
    shown = f"{mask(result)} {result} {result!r} {mask([result])}"
    assert WORD not in shown and WORD.upper() not in shown and base64.b64encode(WORD.encode()).decode() not in shown
    assert WORD in json.dumps(reveal(result)) or not isinstance(result, Secret) or type(reveal(result)) is not dict


@pytest.mark.parametrize(
    "template",
    ["{{ ctx.plain }}", "{{ ctx.mixed[0] }}", "{{ ctx.mixed | length }}", "{{ keychain | list }}", "{{ steps.login.status }}"],
)
def test_a_template_that_reads_no_secret_gives_a_plain_value(template: str) -> None:
    assert not contains_secret(render(template, SCOPE))


def test_secrets_that_are_only_passed_on_stay_where_they_are() -> None:
    passed = render("{{ ctx.nested }}", SCOPE)
    assert passed == {"deep": {"auth": Secret(WORD)}}
    assert mask(passed) == {"deep": {"auth": MASK}}
    assert reveal(passed) == {"deep": {"auth": WORD}}


def test_only_the_fields_that_read_a_secret_are_tainted() -> None:
    inputs = render({"url": "https://x/{{ ctx.plain }}", "headers": {"Authorization": "Bearer {{ keychain.token }}"}}, SCOPE)
    assert mask(inputs) == {"url": "https://x/p", "headers": {"Authorization": MASK}}
    assert reveal(inputs) == {"url": "https://x/p", "headers": {"Authorization": f"Bearer {WORD}"}}


@pytest.mark.parametrize(
    "template",
    [
        "{{ keychain.token + 1 }}", "{{ keychain.token | fromjson }}", "{{ keychain.token | b64decode }}", "{{ int(keychain.token) }}",
        "{{ keychain.pg[keychain.token] }}", "{{ keychain.pg[keychain.token].x + 1 }}", "{{ ctx.plain[keychain.token] }}",
        "{{ '%d' % keychain.token }}", "{{ 'x' | regex_search('(' ~ keychain.token) }}", "{{ [1] | map(keychain.token) | list }}",
        "{{ ctx.mixed.index(keychain.token ~ 'x') }}", "{{ keychain.token.nothing() }}", "{{ range(keychain.token) }}",
        "{{ keychain.token | parse_datetime('%Y') }}", "{{ keychain.token[ctx] }}",
    ],
)  # fmt: skip
def test_errors_do_not_reveal_a_secret(template: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(template, SCOPE)
    error = caught.value
    assert "withheld" in str(error)
    assert WORD not in str(error)
    assert error.__cause__ is None and error.__context__ is None


def test_conditions_may_read_secrets_and_are_plain() -> None:
    assert truthy("{{ keychain.token == 'hunter2-hunter2' }}", SCOPE) is True


def test_a_secret_is_opaque() -> None:
    secret = Secret({"a": WORD})
    assert f"{secret} {secret!r} {secret:>20} {[secret]} {{'x': {secret}}}".count(MASK) == 5
    assert WORD not in f"{secret} {vars(type(secret))}"
    for leak in (pickle.dumps, json.dumps, copy.deepcopy, copy.copy, hash):
        with pytest.raises(TypeError):
            leak(secret)
    assert Secret(Secret(1)) == Secret(1)
    assert Secret(1) != 1
    assert bool(Secret("")) is False


def test_reveal_and_mask_leave_the_rest_alone() -> None:
    value: dict[str, Any] = {"a": [1, Secret("x"), (Secret("y"), None)], "b": "text"}
    assert reveal(value) == {"a": [1, "x", ["y", None]], "b": "text"}
    assert mask(value) == {"a": [1, MASK, [MASK, None]], "b": "text"}
    assert contains_secret(value) and not contains_secret(mask(value))
