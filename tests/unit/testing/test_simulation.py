"""`noetl simulate`: which calls a killed worker makes twice, and what differs at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl_core.testing.files import read
from noetl_core.testing.registry import Call
from noetl_core.testing.simulation import Faults, remedy_for, simulate

TEMPLATES = Path(__file__).parents[3] / "cli/noetl_cli/templates"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: s, path: tests/s }\n"
PLAYBOOK = (
    HEAD
    + """
workflow:
  - step: pay
    loop: { in: [1, 2], iterator: n }
    tool:
      - { name: ask, kind: http, url: "http://x/{{ iter.n }}" }
      - { name: charge, kind: http, method: POST, url: http://x, json: { amount: "{{ ask.data.amount }}" } }
    next: { arcs: [{ step: count }] }
  - step: count
    tool: { kind: noop, result: "{{ steps.pay.result | length }}" }
"""
)
TESTS = """
test: two are paid
tools:
  pay.ask: { ok: { data: { amount: 5 } } }
  pay.charge: { ok: { data: {} } }
expect: { result: 2 }
"""


FEW = Faults(orders=2)


def simulated(tmp_path: Path, playbook: str, tests: str, faults: Faults = FEW) -> Any:
    (tmp_path / "playbook.yaml").write_text(playbook)
    (tmp_path / "playbook.test.yaml").write_text(tests)
    (case,) = read(tmp_path / "playbook.test.yaml")
    return simulate(case, faults)


def test_each_call_may_be_made_twice_with_its_key(tmp_path: Path) -> None:
    found = simulated(tmp_path, PLAYBOOK, TESTS)
    assert found.kills == 5, "two calls in each iteration, and the noop"
    assert [(repeat.task, repeat.calls, bool(repeat.remedy)) for repeat in found.repeats] == [
        ("pay.ask", 2, False),
        ("pay.charge", 2, True),
    ]
    assert found.differs == [] and found.broken == ""


def test_an_end_that_differs_without_faults_is_named(tmp_path: Path) -> None:
    playbook = (
        HEAD
        + """
workflow:
  - step: roll
    tool: { kind: python, code: "import secrets\\nresult = secrets.token_hex(8)" }
"""
    )
    found = simulated(tmp_path, playbook, "test: a dice\nexpect: { result: '*' }\n")
    assert found.kills == 0 and found.differs[0].startswith("without any fault: result is ")


def test_a_call_without_a_scripted_answer_is_reported(tmp_path: Path) -> None:
    found = simulated(tmp_path, PLAYBOOK, "test: nothing is scripted\ntools: { pay.charge: { ok: {} } }\nexpect: { result: 2 }\n")
    assert "task pay.ask" in found.broken and found.kills == 0


@pytest.mark.parametrize(
    ("kind", "inputs", "word"),
    [
        ("http", {"url": "u"}, ""),
        ("http", {"url": "u", "method": "put"}, ""),
        ("http", {"url": "u", "json": {}}, "POST sends the same Idempotency-Key"),
        ("postgres", {"command": "SELECT 1"}, ""),
        ("postgres", {"command": "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING"}, ""),
        ("postgres", {"command": "INSERT INTO t VALUES (1)"}, "inserted twice"),
        ("postgres", {"commands": ["SELECT 1", {"command": "UPDATE t SET n = n + 1"}]}, "runs twice"),
        ("postgres", {"copy": {"from": [], "into": "t"}}, "appended twice"),
        ("postgres", {"copy": {"from": [], "into": "t", "mode": "upsert"}}, ""),
        ("sqs", {"queue": "orders"}, "sent twice"),
        ("sqs", {"queue": "orders.fifo"}, ""),
        ("transfer", {}, ""),
        ("llm", {}, "billed"),
        ("mcp", {}, "called twice"),
    ],
)
def test_the_remedy_fits_the_call(kind: str, inputs: dict[str, Any], word: str) -> None:
    remedy = remedy_for(Call("a.b", kind, inputs))
    assert word in remedy and bool(remedy) == bool(word)


RACE = (
    HEAD
    + """
workflow:
  - step: start
    tool: { kind: noop }
    next: { spec: { mode: inclusive }, arcs: [{ step: fast }, { step: slow }] }
  - step: fast
    tool: { kind: http, url: http://x/fast, set: { winner: "{{ outcome.result.data }}" } }
    next: { arcs: [{ step: both }] }
  - step: slow
    tool: { kind: http, url: http://x/slow, set: { winner: "{{ outcome.result.data }}" } }
    next: { arcs: [{ step: both }] }
  - step: both
    spec: { join: all }
    tool: { kind: noop, result: "{{ ctx.winner }}" }
"""
)
RACERS = "test: two write\ntools: { fast: { ok: { data: fast } }, slow: { ok: { data: slow } } }\nexpect: { result: slow }\n"


def test_branches_that_write_the_same_key_are_a_race(tmp_path: Path) -> None:
    found = simulated(tmp_path, RACE, RACERS, Faults(orders=8))
    (race,) = found.races
    assert 0 < len(race.seeds) < 8 and 'result is "fast", expected "slow"' in race.differs
    assert race.cause == "steps fast, slow write ctx.winner, and the last one wins" and "join" in race.remedy
    assert found.differs == [] and not found.ends_alike, "a kill changes no order, and is not to blame"
    again = simulated(tmp_path, RACE, RACERS, Faults(kills=0, twice=False, orders=1, seed=race.seeds[0]))
    assert again.races[0].differs == race.differs, "the seed repeats it"


def test_branches_that_write_different_keys_are_no_race(tmp_path: Path) -> None:
    apart = RACE.replace("set: { winner", "set: { slow", 1).replace('"{{ ctx.winner }}"', '"{{ ctx.slow ~ ctx.winner }}"')
    assert simulated(tmp_path, apart, RACERS.replace("result: slow", "result: fastslow"), Faults(kills=0, orders=8)).ends_alike


def test_a_step_that_counts_on_another_is_named(tmp_path: Path) -> None:
    reads = RACE.replace("http://x/slow, set: { winner:", "http://x/slow, json: '{{ ctx.winner | default(0) }}', set: { own:")
    reads = reads.replace("{ step: slow }]", "{ step: first }]") + (
        "  - step: first\n    tool: { kind: noop }\n    next: { arcs: [{ step: slow }] }\n"
    )
    found = simulated(tmp_path, reads, RACERS.replace("slow }", "'*' }"), Faults(kills=0, twice=False, orders=12))
    (race,) = found.races
    assert race.differs == ('inputs of slow.slow_task.json is 0, expected "fast"',)
    assert race.cause == "it depends on which comes first: the end of fast or the start of slow"


def test_a_repeated_call_may_have_an_answer_of_its_own(tmp_path: Path) -> None:
    conflict = "{ repeated: true, error: { kind: client_error, code: 409, message: it exists } }"
    tests = TESTS.replace("{ ok: { data: {} } }", f"[{conflict}, {{ ok: {{ data: {{}} }} }}]")
    found = simulated(tmp_path, PLAYBOOK, tests, Faults(orders=0))
    assert [text.partition(":")[0] for text in found.differs if "status" in text] == [
        "everything twice",
        "killed after pay.charge@0",
        "killed after pay.ask@1",  # the charge before it is not committed yet
        "killed after pay.charge@1",
    ]
    kept = PLAYBOOK.replace(
        '"{{ ask.data.amount }}" } }',
        '"{{ ask.data.amount }}" }, spec: { policy: { rules: ['
        "{ when: \"{{ outcome.status == 'error' and outcome.error.code == 409 }}\", then: { do: continue } },"
        " { when: \"{{ outcome.status == 'error' }}\", then: { do: fail } }] } } }",
    )
    assert simulated(tmp_path, kept, tests, Faults(orders=0)).ends_alike


def test_a_signal_may_come_before_other_branches_end(tmp_path: Path) -> None:
    waits = RACE.replace("{ kind: http, url: http://x/slow, set: { winner:", "{ kind: callback, set: { winner:")
    tests = RACERS.replace(", slow: { ok: { data: slow } }", "") + "acts: [{ callback: slow, data: { data: slow } }]\n"
    found = simulated(tmp_path, waits.replace("outcome.result.data }}", "outcome.result }}"), tests, Faults(kills=0, orders=12))
    assert found.races and found.races[0].cause.startswith("steps fast, slow write ctx.winner")


def test_simulations_left_out_for_lack_of_time_are_counted(tmp_path: Path) -> None:
    found = simulated(tmp_path, RACE, RACERS, Faults(kills=2, orders=3, until=0.0))
    assert (found.kills, found.orders, found.left) == (0, 0, 6)


@pytest.mark.nightly  # 45 s; the tests above have one case each
@pytest.mark.parametrize("template", sorted(each.name for each in TEMPLATES.iterdir() if each.is_dir()))
def test_each_template_ends_the_same_under_all_faults(template: str) -> None:
    for tests in sorted((TEMPLATES / template).glob("*.test.yaml")):
        for case in read(tests):
            found = simulate(case, Faults(kills=12, orders=4))
            assert found.ends_alike, (case.name, found)
            assert found.kills + found.orders > 0
