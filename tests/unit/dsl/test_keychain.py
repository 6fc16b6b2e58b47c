"""Entries of the keychain: the fields of each kind, their other spellings, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from noetl_core.dsl.dump import dump
from noetl_core.dsl.parse import check, parse_playbook
from noetl_core.dsl.reading.load import load
from noetl_core.dsl.schema import playbook_schema
from noetl_core.views.executions import executions
from tests.credentials import Held
from tests.running import run_text
from tests.unit.dsl.broken_playbooks import HEAD

SCHEMA = Draft202012Validator(playbook_schema())


def playbook(*entries: str, result: str = "1") -> str:
    listed = "".join(f"  - {entry}\n" for entry in entries)
    return f"{HEAD}keychain:\n{listed}workflow:\n  - step: a\n    tool: {{kind: noop, result: {result!r}}}\n"


def options(entry: str) -> Mapping[str, Any]:
    text = playbook(entry)
    root = load(text).root
    assert root is not None
    SCHEMA.validate(root.plain())
    parsed = parse_playbook(text)
    assert parse_playbook(dump(parsed)) == parsed
    return parsed.keychain[0].options


def errors(*entries: str) -> list[str]:
    return [f"{d.code} {d.message}" for d in check(playbook(*entries))[1] if d.severity == "error"]


def notes(entry: str) -> list[str]:
    return [f"{d.code} {d.message}" for d in check(playbook(entry))[1] if d.severity == "note"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{name: k, kind: static, data: {a: 1, b: x}}", {"data": {"a": 1, "b": "x"}}),
        ("{name: k, kind: static, value: x}", {"data": {"value": "x"}}),
        (
            "{name: k, kind: static, token: '{{ workload.t }}', header: X-Key, scope: global}",
            {"scope": "global", "data": {"token": "{{ workload.t }}", "header": "X-Key"}},
        ),
        ("{name: k, kind: static, values: {a: 1}, b: 2}", {"data": {"a": 1, "b": 2}}),
        ("{name: k, kind: static, data: '{{ workload.all }}'}", {"data": "{{ workload.all }}"}),
        ("{name: k, kind: credential_ref, ref: pg}", {"credential": "pg"}),
        ("{name: k, kind: credential_ref, key: pg, type: postgres}", {"credential": "pg", "type": "postgres"}),
        ("{name: k, kind: credential_ref}", {}),
        ("{name: k, kind: secret_manager, secret: a/b, field: api_key}", {"credential": "a/b", "field": "api_key"}),
        (
            "{name: k, kind: secret_manager, provider: gcp, auth: sa, map: {api_key: '{{ workload.path }}'}, scope: global}",
            {"provider": "gcp", "auth": "sa", "map": {"api_key": "{{ workload.path }}"}, "scope": "global"},
        ),
        ("{name: k, kind: bearer, token: '{{ workload.t }}'}", {"token": "{{ workload.t }}"}),
        ("{name: k, kind: bearer}", {}),
        (
            "{name: k, kind: oauth2, credential: partner, scopes: [a, b], ttl: 30m, auto_renew: false}",
            {"credential": "partner", "scopes": ["a", "b"], "ttl": "30m", "auto_renew": False},
        ),
        (
            "{name: k, kind: oauth2, endpoint: https://x/t, method: POST, headers: {A: b}, data: {grant_type: client_credentials}}",
            {"token_url": "https://x/t", "method": "POST", "headers": {"A": "b"}, "data": {"grant_type": "client_credentials"}},
        ),
        (
            "{name: k, kind: oauth2, url: https://x/t, payload: {a: 1}, scope: shared}",
            {"token_url": "https://x/t", "json": {"a": 1}, "scope": "shared"},
        ),
        (
            "{name: k, kind: oauth2, token_url: https://x/t, client_id: i, client_secret: s, scope: orders.read orders.write}",
            {"token_url": "https://x/t", "client_id": "i", "client_secret": "s", "scopes": "orders.read orders.write"},
        ),
        (
            "{name: k, kind: oauth2, token_url: https://x/t, username: u, password: p, grant_type: password, client_auth: basic}",
            {"token_url": "https://x/t", "username": "u", "password": "p", "grant_type": "password", "client_auth": "basic"},
        ),
        ("{name: k, kind: postgres_credential, credential: pg}", {"credential": "pg"}),
    ],
)
def test_an_entry_is_kept_by_the_canonical_names_of_its_kind(entry: str, expected: Mapping[str, Any]) -> None:
    assert options(entry) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{name: k, kind: oauth2, tokn_url: x}", ['E110 unknown key "tokn_url" in keychain entry 0']),
        ("{name: k, kind: oauth2, client_id: x}", ['E111 keychain entry "k" has no token_url']),
        ("{name: k, kind: oauth2, token_url: x, endpoint: y}", ['E114 keychain entry "k" has token_url and endpoint']),
        ("{name: k, kind: oauth2, token_url: x, data: {a: 1}, json: {a: 1}}", ['E114 keychain entry "k" has data and json']),
        ("{name: k, kind: oauth2, token_url: x, scope: read, scopes: write}", ['E114 keychain entry "k" has scope and scopes']),
        (
            "{name: k, kind: oauth2, token_url: x, grant_type: implicit}",
            ['E113 grant_type of keychain entry 0 cannot be "implicit"'],
        ),
        ("{name: k, kind: bearer, token: x, token_url: y}", ['E114 keychain entry "k" has token and token_url']),
        ("{name: k, kind: bearer, scope: everywhere}", ['E113 scope of keychain entry 0 cannot be "everywhere"']),
        ("{name: k, kind: bearer, auto_renew: maybe}", ["E112 auto_renew of keychain entry 0 must be true or false, not text"]),
        (
            "{name: k, kind: secret_manager, map: {a: b}, secret: c}",
            ['E114 keychain entry "k" has map and the name of one secret'],
        ),
        ("{name: k, kind: secret_manager, map: [a]}", ['E112 map of keychain entry "k" must be a mapping, not a list']),
        ("{name: k, kind: static, data: '{{ workload.d }}', b: 2}", ['E114 keychain entry "k" has data and b']),
        ("{name: k, kind: static, a: '{{ ctx.x }}'}", ["E208 ctx in the keychain: credentials are resolved before tasks run"]),
    ],
)
def test_invalid_keychain_entries_are_refused(entry: str, expected: list[str]) -> None:
    assert errors(entry) == expected


def test_an_invalid_ttl_is_refused() -> None:
    assert errors("{name: k, kind: bearer, ttl: soon}")[0].startswith('E124 ttl of keychain entry "k" must be a number')


def test_an_entry_reads_the_ones_above_it_only() -> None:
    above, below = "{name: a, kind: static, id: x}", "{name: b, kind: bearer, token: '{{ keychain.a.id }}'}"
    assert errors(above, below) == []
    assert errors(below, above) == ["E208 keychain.a is declared below: entries are resolved in order"]
    assert [e.split(" ")[0] for e in errors("{name: b, kind: bearer, token: '{{ keychain.none.id }}'}")] == ["E206"]


def test_fields_of_another_store_are_reported_to_have_no_effect() -> None:
    assert notes("{name: k, kind: secret_manager, provider: gcp, project_id: p}") == [
        'W403 "provider" of keychain entry 0 is accepted but has no effect',
        'W403 "project_id" of keychain entry 0 is accepted but has no effect',
    ]


def test_a_key_that_the_kind_does_not_have_is_refused() -> None:
    entry = "{name: k, kind: oauth2, token_url: x, tenant: t, expires_in: 60, token_path: data.token, description: d, scops: a}"
    assert errors(entry) == ['E110 unknown key "tenant" in keychain entry 0', 'E110 unknown key "scops" in keychain entry 0']
    assert errors("{name: k, kind: postgres_credential, whatever: 5}") == ['E110 unknown key "whatever" in keychain entry 0']
    entry = entry.replace(", scops: a", "").replace(" tenant: t,", "")
    assert options(entry) == {"token_url": "x", "ttl": 60, "token_field": "data.token", "desc": "d"}


@pytest.mark.parametrize(
    "entry", ["{name: k, kind: credential_ref, ref: pg_reports}", "{name: k, kind: secret_manager, path: pg_reports}"]
)
def test_a_stored_credential_is_read_by_each_name_for_it(entry: str) -> None:
    local, state = run_text(
        playbook(entry, result="{{ keychain.k.user == 'reader' }}"),
        secrets=Held({"pg_reports": {"type": "postgres", "data": {"user": "reader"}}}),
    )
    try:
        assert executions.summary(local.control, state.execution_id)["status"] == "completed"
    finally:
        local.close()
