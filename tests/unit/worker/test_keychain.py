"""`keychain.NAME.field`: what a credential holds, in each form it is stored in, and what is said of names that are not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from noetl_core.views.executions import executions
from tests.credentials import Held
from tests.running import events_of, run_text

WRAPPED = {"type": "postgres", "description": "for reports", "data": {"user": "reader", "password": "s3cret-word"}}
"""As `noetl credentials put` stores it."""
FLAT = {"type": "postgres", "user": "reader", "password": "s3cret-word"}


def run(result: str, fields: Mapping[str, Any] = WRAPPED, **task: Any) -> dict[str, Any]:
    """The summary of a run whose one task has `result` for its input, and the log's text as `log`."""
    source = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: k, path: t/k}}
keychain: [{{name: pg, kind: postgres_credential}}]
workflow:
  - step: start
    tool: {{kind: noop, result: {result!r}{"".join(f", {k}: {v}" for k, v in task.items())}}}
"""
    local, state = run_text(source, secrets=Held({"pg": fields}))
    try:
        out = executions.summary(local.control, state.execution_id)
        out["log"] = str(events_of(local.control, state.execution_id)[0])
        return out
    finally:
        local.close()


@pytest.mark.parametrize("stored", [WRAPPED, FLAT], ids=["as put stores it", "flat"])
@pytest.mark.parametrize(
    "template",
    [
        "{{ 'yes' if keychain.pg.password == 's3cret-word' else 'no' }}",
        "{{ 'yes' if keychain['pg']['password'] | length == 11 else 'no' }}",
        "{{ 'yes' if keychain.pg.type == 'postgres' else 'no' }}",
        "{{ 'yes' if keychain.pg.get('user') == 'reader' else 'no' }}",
    ],
)
def test_a_field_is_read_however_the_credential_is_stored(stored: Mapping[str, Any], template: str) -> None:
    # a value decided by a secret is secret itself: `assert` in a rule would reveal it
    out = run(
        template,
        stored,
        spec="{policy: {rules: [{when: \"{{ outcome.result == 'yes' }}\", then: {do: continue}}, {else: {then: {do: fail}}}]}}",
    )
    assert (out["status"], out["error"]) == ("completed", None)
    assert "s3cret-word" not in out["log"]


def test_text_rendered_from_a_credential_field_is_masked() -> None:
    out = run("{{ 'postgres://reader:' ~ keychain.pg.password }}")
    assert out["result"] == "***"
    assert "s3cret-word" not in out["log"]


@pytest.mark.parametrize(
    "template",
    [
        "{{ keychain.pg.passwrd }}",
        "{{ keychain.pg.passwrd | upper }}",
        "{{ keychain.pg.passwrd | trim | b64encode }}",
        "pw={{ keychain.pg.passwrd }}",
        "{{ {'pw': keychain.pg.passwrd} }}",
        "{{ keychain.pg['passwrd'] ~ '' }}",
        "{{ keychain.pg.passwrd == 'x' }}",
        "{{ keychain.pg.passwrd.inner }}",
        "{% for c in keychain.pg.passwrd %}{{ c }}{% endfor %}",
    ],
)
def test_a_field_that_is_not_there_fails_the_task_and_names_the_nearest(template: str) -> None:
    out = run(template)
    assert (out["status"], out["error"]["kind"]) == ("failed", "template")
    assert 'keychain.pg has no "passwrd" (did you mean "password"?)' in out["error"]["message"]
    assert "s3cret-word" not in str(out)


def test_an_unknown_field_without_a_near_name_lists_all_fields() -> None:
    assert "it has password, type, user" in run("{{ keychain.pg.host }}")["error"]["message"]


def test_a_field_of_a_field_that_is_not_there_fails_the_task_too() -> None:
    fields = {"data": {"oauth": {"client": "c", "token": "t0ken-of-theirs"}}}
    out = run("{{ keychain.pg.oauth.tokn | upper }}", fields)
    assert 'keychain.pg.oauth has no "tokn" (did you mean "token"?)' in out["error"]["message"]
    assert "t0ken-of-theirs" not in str(out)


@pytest.mark.parametrize("key", ["spec", "set_ctx"])
def test_a_field_that_is_not_there_is_no_null_in_options_and_writes_either(key: str) -> None:
    value = {"spec": "{timeout: '{{ keychain.pg.seconds }}'}", "set_ctx": "{x: '{{ keychain.pg.seconds }}'}"}[key]
    options: dict[str, Any] = {key: value}
    out = run("1", **options)
    assert (out["status"], out["error"]["kind"]) == ("failed", "template")
    assert 'keychain.pg has no "seconds"' in out["error"]["message"]


def test_a_credential_that_the_keychain_does_not_declare_is_an_error_where_its_name_is_computed() -> None:
    out = run("{{ keychain['p' ~ 'x'].password | upper }}")
    assert (out["status"], out["error"]["kind"]) == ("failed", "template")
    assert 'the keychain has no "px"' in out["error"]["message"]


@pytest.mark.parametrize(
    "template", ["{{ keychain.pg.port | default(5432) }}", "{{ keychain.pg.port is defined }}", "{{ keychain.pg.port or 1 }}"]
)
def test_a_template_that_allows_for_a_missing_field_is_rendered(template: str) -> None:
    assert run(template)["status"] == "completed"


def test_the_stored_name_of_a_credential_may_be_a_template() -> None:
    text = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: k, path: t/k}
workload: {c: reports}
keychain: [{name: pg, kind: postgres_credential, credential: "{{ workload.c }}"}]
workflow:
  - step: start
    tool: {kind: noop, result: "{{ 'yes' if keychain.pg.user == 'reader' else 'no' }}", set_ctx: {ok: "{{ keychain.pg is defined }}"}}
"""
    local, state = run_text(text, secrets=Held({"reports": WRAPPED}))
    try:
        assert executions.summary(local.control, state.execution_id)["status"] == "completed"
    finally:
        local.close()
