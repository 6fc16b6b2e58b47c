"""Scenarios to record: one small playbook for each feature, the answers of its tools, and the operations on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from noetl_core.control.admit import StartRequest
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.loops import SpreadRule
from noetl_core.engine.outcome import Outcome
from noetl_core.engine.records import StreamId
from noetl_core.runtime.local import LocalWiring
from noetl_core.tools.base import ToolCall
from tests.golden.drives import (
    Drive,
    answer,
    by_token,
    cancel,
    cancel_and_undo,
    cancel_at_work,
    early,
    echo,
    marked_and_stuck,
    mended,
    pause_and_resume,
    stuck_and_mended,
    to_the_end,
)
from tests.sim.outside_service import Crane, CraneTool
from tests.sim.ports import Faults
from tests.sim.world import World


def playbook(name: str, body: str, head: str = "") -> str:
    """A playbook's text; `body` is its workflow."""
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{ name: {name}, path: golden/{name} }}\n{head}workflow:\n{body}"


@dataclass(frozen=True)
class Scenario:
    about: str
    workflow: str
    head: str = ""
    tool: Callable[[ToolCall], Outcome] = echo
    drive: Drive = to_the_end
    others: Mapping[str, str] = field(default_factory=dict)
    payload: Mapping[str, object] = field(default_factory=dict)
    spread: SpreadRule | None = None
    asks: bool = False
    local: bool = False
    """True if the local runner carries it out."""

    def play(self, name: str, key: str = "key", seed: int = 0) -> tuple[World, str, dict[str, str]]:
        """The world after it happened, the execution, and the playbooks that took part. `key` is what the execution's id is
        made from, `seed` what the order of deliveries is."""
        world = World(Faults(seed=seed), tool=self.tool, spread=self.spread, asks=self.asks)
        world.tools = {"crane": CraneTool(Crane(world.faults, world.clock))}
        sources = {f"golden/{name}": playbook(name, self.workflow, self.head)}
        if self.local:
            return world, self._play_here(world, sources[f"golden/{name}"], f"golden/{name}", key), sources
        for other, text in self.others.items():
            sources[f"golden/{other}"] = playbook(other, text)
            digest = parse_playbook(sources[f"golden/{other}"]).digest
            world.catalog.register(f"golden/{other}", digest, sources[f"golden/{other}"], world.clock.time)
        started = world.start(sources[f"golden/{name}"], self.payload, idempotency_key=key)
        self.drive(world, started.execution_id)
        world.drain()
        return world, started.execution_id, sources

    def _play_here(self, world: World, source: str, path: str, key: str) -> str:
        """Have the local runner carry out the playbook, and put its log into `world`."""
        local = LocalWiring()
        local.worker.name = "local"
        local.runner.own = replace(local.runner.own, name="local")
        try:
            execution_id = local.start(StartRequest(playbook=source, payload=self.payload, idempotency_key=key)).execution_id
            local.run(execution_id)
            control = local.store.read(StreamId(execution_id))
            begun = [event.data["run"] for commit in control for event in commit.events if event.name == "StepScheduled"]
            for stream in (StreamId(execution_id), *(StreamId(execution_id, run) for run in begun)):
                world.store.streams[stream] = list(local.store.read(stream))
            world.catalog.register(path, parse_playbook(source).digest, source, world.clock.time)
        finally:
            local.close()
        return execution_id


def flaky(call: ToolCall) -> Outcome:
    """Works at its third attempt."""
    return Outcome.ok("fine") if call.attempt >= 3 else Outcome.failed("server_error", f"attempt {call.attempt}", retryable=True)


def pages(call: ToolCall) -> Outcome:
    """Three pages, one after the other."""
    if call.task != "fetch":
        return echo(call)
    page = int(call.inputs["params"]["page"])
    return Outcome.ok({"page": page, "rows": [page * 10, page * 10 + 1], "more": page < 3})


def claimed(call: ToolCall) -> Outcome:
    """A table of five rows, which are claimed two at a time; a row called `fail` fails."""
    if call.task != "cursor.claim":
        return fails(call)
    frame = int(call.task_run_id.rpartition("/")[2])
    names = ["a", "fail", "c", "d", "e"][2 * frame : 2 * frame + 2]
    rows = [{"id": name.upper(), "name": name, "noetl_key": name.upper(), "noetl_key_type": "text"} for name in names]
    return Outcome.ok({"rows": rows, "columns": [], "row_count": len(rows)})


def fails(call: ToolCall) -> Outcome:
    """Tasks called `bad` fail; of iterations, the third."""
    bad = call.task == "bad" or call.inputs.get("result") == "fail"
    return Outcome.failed("client_error", "no such thing", retryable=False, code="404") if bad else echo(call)


CHAIN = """\
  - { step: start, tool: { kind: noop, result: 1 }, next: { arcs: [{ step: second, args: { n: "{{ event.result }}" } }] } }
  - step: second
    tool: { kind: noop, result: "{{ args.n + 1 }}" }
    set_ctx: { sum: "{{ args.n + event.result }}" }
    next: { arcs: [{ step: third }] }
  - { step: third, tool: { kind: noop, result: "{{ steps.second.result + ctx.sum }}" } }
"""
RETRY = """\
  - step: start
    tool:
      kind: http
      url: http://x
      spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: retry, attempts: 5, delay: 60, backoff: exponential } }] } }
"""
JUMP = """\
  - step: start
    tool:
      - { name: init, kind: noop, set_iter: { page: 1, rows: 0 } }
      - name: fetch
        kind: http
        url: http://x
        params: { page: "{{ iter.page }}" }
        spec:
          policy:
            rules:
              - when: "{{ outcome.result.more }}"
                then: { do: jump, to: fetch, set_iter: { page: "{{ iter.page + 1 }}", rows: "{{ iter.rows + 2 }}" } }
              - else: { then: { do: break, set_iter: { rows: "{{ iter.rows + 2 }}" }, set_ctx: { rows: "{{ iter.rows + 2 }}" } } }
"""
INCLUSIVE = """\
  - step: start
    tool: { kind: noop, result: 5 }
    next:
      spec: { mode: inclusive }
      arcs: [{ step: a, when: "{{ event.result > 3 }}" }, { step: b, when: "{{ event.result > 4 }}" }, { step: c, when: "{{ event.result > 5 }}" }]
  - { step: a, tool: { kind: noop, result: a } }
  - { step: b, tool: { kind: noop, result: b } }
  - { step: c, tool: { kind: noop, result: c } }
"""
JOIN = """\
  - step: start
    tool: {{ kind: noop }}
    next: {{ spec: {{ mode: inclusive }}, arcs: [{{ step: a }}, {{ step: b }}, {{ step: c }}] }}
  - {{ step: a, tool: {{ kind: noop, result: 1 }}, next: {{ arcs: [{{ step: meet, args: {{ a: 1 }} }}] }} }}
  - {{ step: b, tool: {{ kind: wait, duration: 30 }}, next: {{ arcs: [{{ step: meet, args: {{ b: 2 }} }}] }} }}
  - {{ step: c, tool: {{ kind: wait, duration: 60 }}, next: {{ arcs: [{{ step: meet, args: {{ c: 3 }} }}] }} }}
  - {{ step: meet, spec: {{ join: {mode} }}, tool: {{ kind: noop, result: "{{{{ args }}}}" }} }}
"""
NESTED = """\
  - step: start
    loop:
      in: [1, 2, 3]
      iterator: outer
      spec: { mode: parallel, max_in_flight: 2 }
      loop: { in: "{{ range(iter.outer) | list }}", iterator: inner }
    tool: { kind: noop, result: "{{ iter.parent.outer * 10 + iter.inner }}" }
"""
DISTRIBUTED = """\
  - step: start
    loop:
      in: "{{ range(7) | list }}"
      iterator: i
      spec:
        mode: parallel
        max_in_flight: 2
        chunk_size: 2
        policy: { exec: distributed, reducers: { sum: sum } }
    tool:
      - { name: work, kind: noop, result: "{{ iter.i * iter.i }}", set_ctx: { sum: "{{ iter.i }}" } }
"""
HANDLED = """\
  - step: start
    tool: [{ name: bad, kind: http, url: http://x }]
    next:
      arcs:
        - { step: mend, when: "{{ event.name == 'step.failed' }}", args: { kind: "{{ event.error.kind }}" } }
        - { step: never }
  - { step: mend, tool: { kind: noop, result: "{{ args.kind }}" } }
  - { step: never, tool: { kind: noop } }
"""

UNDONE = """\
  - step: start
    tool: { kind: noop, result: 1 }
    compensate: [{ name: undo, kind: noop, result: "{{ steps.start.result }}" }]
    next: { arcs: [{ step: second }] }
  - step: second
    tool: { kind: noop, result: 2 }
    compensate: [{ name: undo, kind: noop }]
    next: { arcs: [{ step: third }] }
  - { step: third, tool: [{ name: bad, kind: http, url: http://x }] }
"""
UNMENDED = """\
  - { step: start, tool: { kind: noop, result: 1 }, set_ctx: { first: true }, next: { arcs: [{ step: second }] } }
  - step: second
    tool: [{ name: before, kind: noop, result: 2 }, { name: bad, kind: noop, result: "{{ before + 1 }}" }]
    next: { arcs: [{ step: third }] }
  - { step: third, tool: { kind: noop, result: "{{ [ctx.first, ctx.mended] }}" } }
"""

SCENARIOS: Mapping[str, Scenario] = {
    "chain": Scenario("steps one after the other: args, ctx of a step, results of finished steps", CHAIN),
    "claimed_here": Scenario("steps one after the other, which the deciding process claims at once", CHAIN, local=True),
    "asked": Scenario("steps one after the other, whose worker asks for the next one", CHAIN, asks=True),
    "retry": Scenario("a task that works at its third attempt, with delays that suspend the run", RETRY, tool=flaky),
    "jump_loop": Scenario("a pipeline that jumps back for the next page, with iter as its scratch", JUMP, tool=pages),
    "exclusive_arcs": Scenario("of several arcs the first that fits", INCLUSIVE.replace("inclusive", "exclusive")),
    "inclusive_arcs": Scenario("all arcs that fit", INCLUSIVE),
    "join_all": Scenario("a step that waits for every token that may come", JOIN.format(mode="all")),
    "join_any": Scenario("a step that runs on the first token and drops the rest", JOIN.format(mode="any")),
    "join_count": Scenario("a step that runs on the second token", JOIN.format(mode="{ count: 2 }")),
    "limits": Scenario(
        "an execution that needs a place in a limit, and of two runs of steps the one that finds none is skipped",
        "  - step: start\n"
        "    next: { spec: { mode: inclusive }, arcs: [{ step: one }, { step: two }] }\n"
        "  - step: one\n"
        "    spec: { policy: { concurrency: { key: shop, max: 1 } } }\n"
        "    tool: { kind: noop, result: 1 }\n"
        "  - step: two\n"
        "    spec: { policy: { concurrency: { key: shop, max: 1, on_limit: skip } } }\n"
        "    tool: { kind: noop, result: 2 }\n",
        "executor: { spec: { policy: { concurrency: { key: orders, max: 2 }, priority: 3 } } }\n",
    ),
    "parallel_loop": Scenario(
        "a loop in one worker, three iterations at once, one of which fails and is tolerated",
        "  - step: start\n"
        "    loop: { in: [a, b, fail, d], iterator: i, spec: { mode: parallel, max_in_flight: 3, policy: { failure: { mode: best_effort } } } }\n"
        '    tool: { kind: noop, result: "{{ iter.i }}" }\n'
        '    next: { arcs: [{ step: end, args: { failed: "{{ event.loop.failed }}" } }] }\n'
        '  - { step: end, tool: { kind: noop, result: "{{ args.failed }}" } }\n',
        tool=fails,
    ),
    "distributed_loop": Scenario("a loop in chunks over the queue, with a reducer", DISTRIBUTED),
    "spread_loop": Scenario(
        "a loop that one worker begins and hands over, with a reducer",
        DISTRIBUTED.replace("exec: distributed", "exec: auto"),
        spread=SpreadRule(measured_s=0, left_s=0, busy=0),
    ),
    "cursor_loop": Scenario(
        "a loop that claims its rows in frames; one of them fails",
        "  - step: start\n"
        "    loop:\n"
        "      cursor: { kind: postgres, auth: pg, table: items, where: open, done: { open: false } }\n"
        "      iterator: row\n"
        "      spec: { mode: cursor, max_in_flight: 2, frame: 2, policy: { failure: { mode: best_effort } } }\n"
        '    tool: { kind: noop, result: "{{ iter.row.name }}" }\n',
        tool=claimed,
    ),
    "nested_loop": Scenario("a loop in a loop, with iter.parent", NESTED),
    "loop_fails": Scenario(
        "a loop that stops at its first failure",
        '  - step: start\n    loop: { in: [a, fail, c], iterator: i }\n    tool: { kind: noop, result: "{{ iter.i }}" }\n',
        tool=fails,
    ),
    "parked_admission": Scenario(
        "a token that is parked until ctx lets it in",
        "  - step: start\n    tool: { kind: noop }\n"
        "    next: { spec: { mode: inclusive }, arcs: [{ step: gated }, { step: opens }] }\n"
        "  - step: gated\n"
        '    spec: { policy: { admit: { rules: [{ when: "{{ ctx.open }}", then: { allow: true } }, { else: { then: { allow: false } } }] } } }\n'
        "    tool: { kind: noop, result: in }\n"
        "  - step: opens\n    tool: [{ name: later, kind: wait, duration: 30 }, { name: open, kind: noop, set_ctx: { open: true } }]\n",
    ),
    "denied_admission": Scenario(
        "tokens that are denied: one skipped, one failed and handled, one parked for ever",
        "  - step: start\n    tool: { kind: noop }\n"
        "    next: { spec: { mode: inclusive }, arcs: [{ step: skips }, { step: fails }, { step: parks }] }\n"
        "  - step: skips\n    spec: { policy: { admit: { on_deny: skip, rules: [{ else: { then: { allow: false } } }] } } }\n    tool: { kind: noop }\n"
        "  - step: fails\n    spec: { policy: { admit: { on_deny: fail, rules: [{ else: { then: { allow: false } } }] } } }\n    tool: { kind: noop }\n"
        "    next: { arcs: [{ step: mend, when: \"{{ event.name == 'step.failed' }}\" }] }\n"
        "  - step: parks\n    spec: { policy: { admit: { rules: [{ else: { then: { allow: false } } }] } } }\n    tool: { kind: noop }\n"
        "  - { step: mend, tool: { kind: noop } }\n",
    ),
    "wait": Scenario(
        "a pipeline that waits an hour and goes on",
        "  - step: start\n    tool: [{ name: rest, kind: wait, duration: 3600 }, { name: then, kind: noop, result: awake }]\n",
    ),
    "signal": Scenario(
        "a pipeline that waits for a signal; the second of two comes too late",
        '  - step: start\n    tool: { kind: callback, signal: approve }\n    next: { arcs: [{ step: end, args: { by: "{{ event.result.by }}" } }] }\n'
        '  - { step: end, tool: { kind: noop, result: "{{ args.by }}" } }\n',
        drive=answer,
    ),
    "early_signal": Scenario(
        "a signal that comes before anybody waits for it",
        "  - { step: first, tool: { kind: wait, duration: 60 }, next: { arcs: [{ step: ask }] } }\n"
        "  - { step: ask, tool: { kind: callback, signal: approve } }\n",
        drive=early,
    ),
    "child": Scenario(
        "a sub-playbook, whose result the parent goes on with",
        "  - step: start\n    tool:\n      - { name: call, kind: playbook, path: golden/child_of, args: { n: 20 } }\n"
        '      - { name: plus, kind: noop, result: "{{ call + 1 }}" }\n',
        others={"child_of": '  - { step: start, tool: { kind: noop, result: "{{ workload.n * 2 }}" } }\n'},
    ),
    "failed_child": Scenario(
        "a sub-playbook that fails, and an arc that handles it",
        "  - step: start\n    tool: { kind: playbook, path: golden/failing_child }\n"
        "    next: { arcs: [{ step: mend, when: \"{{ event.name == 'step.failed' }}\" }] }\n"
        "  - { step: mend, tool: { kind: noop, result: mended } }\n",
        others={"failing_child": "  - { step: start, tool: [{ name: bad, kind: http, url: http://x }] }\n"},
        tool=fails,
    ),
    "cancel": Scenario(
        "an execution that is cancelled while one step waits and a loop has iterations that wait",
        "  - step: start\n    tool: { kind: noop }\n    next: { spec: { mode: inclusive }, arcs: [{ step: one }, { step: many }] }\n"
        "  - { step: one, tool: { kind: wait, duration: 3600 } }\n"
        "  - { step: many, loop: { in: [1, 2], iterator: i, spec: { mode: parallel, max_in_flight: 2 } }, tool: { kind: wait, duration: 3600 } }\n",
        drive=cancel,
    ),
    "pause_resume": Scenario(
        "an execution that is paused and resumed",
        "  - { step: first, tool: { kind: noop }, next: { arcs: [{ step: second }] } }\n"
        "  - { step: second, tool: { kind: wait, duration: 120 }, next: { arcs: [{ step: third }] } }\n"
        "  - { step: third, tool: { kind: noop, result: done } }\n",
        drive=pause_and_resume,
    ),
    "step_fails": Scenario(
        "a step that fails and nobody handles it",
        "  - { step: start, tool: [{ name: bad, kind: http, url: http://x }], next: { arcs: [{ step: never }] } }\n"
        "  - { step: never, tool: { kind: noop } }\n",
        tool=fails,
    ),
    "error_arc": Scenario("a step that fails and an arc that handles it", HANDLED, tool=fails),
    "visits_limit": Scenario(
        "steps that go round until the limit of visits",
        "  - { step: start, tool: { kind: noop }, next: { arcs: [{ step: back }] } }\n"
        "  - { step: back, tool: { kind: noop }, next: { arcs: [{ step: start }] } }\n",
        head="executor: { spec: { policy: { limits: { max_step_visits: 3 } } } }\n",
    ),
    "step_timeout": Scenario(
        "a step that takes longer than it may",
        "  - step: start\n    spec: { policy: { lifecycle: { timeout_s: 120 } } }\n    tool: { kind: wait, duration: 3600 }\n"
        "    next: { arcs: [{ step: late, when: \"{{ event.error.kind == 'timeout' }}\" }] }\n"
        "  - { step: late, tool: { kind: noop, result: late } }\n",
    ),
    "execution_timeout": Scenario(
        "an execution that takes longer than it may",
        "  - { step: start, tool: { kind: wait, duration: 3600 } }\n",
        head="executor: { spec: { policy: { lifecycle: { timeout_s: 300 } } } }\n",
    ),
    "stuck": Scenario(
        "an execution that is marked stuck, and goes on when it is resumed",
        "  - { step: start, tool: { kind: wait, duration: 600 }, next: { arcs: [{ step: end }] } }\n"
        "  - { step: end, tool: { kind: noop, result: done } }\n",
        drive=stuck_and_mended,
    ),
    "evaluation_marked": Scenario(
        "evaluations that end their processes, until the execution is stuck; resumed, one goes well",
        "  - { step: start, tool: { kind: wait, duration: 600 }, next: { arcs: [{ step: end }] } }\n"
        "  - { step: end, tool: { kind: noop, result: done } }\n",
        drive=marked_and_stuck,
    ),
    "template_error": Scenario(
        "a guard that cannot be evaluated",
        '  - { step: start, tool: { kind: noop, result: 0 }, next: { arcs: [{ step: end, when: "{{ 1 / event.result }}" }] } }\n'
        "  - { step: end, tool: { kind: noop } }\n",
    ),
    "references": Scenario(
        "results too large for the log: a guard reads into one, another is handed on",
        '  - step: start\n    tool: { kind: noop, result: "{{ range(2000) | list }}" }\n'
        '    next: { arcs: [{ step: end, when: "{{ event.result[1999] == 1999 }}", args: { all: "{{ event.result }}" } }] }\n'
        '  - { step: end, tool: { kind: noop, result: "{{ args.all | length }}" } }\n',
    ),
    "callback": Scenario(
        "a pipeline that waits for an answer by token, with a heartbeat on the way",
        "  - { step: start, tool: { kind: callback, heartbeat: 600 }, next: { arcs: [{ step: end }] } }\n"
        '  - { step: end, tool: { kind: noop, result: "{{ steps.start.result.ok }}" } }\n',
        drive=by_token,
    ),
    "compensation": Scenario("finished steps are undone in reverse order when a later one fails", UNDONE, tool=fails),
    "cancel_compensate": Scenario(
        "an execution that is cancelled with its finished steps undone",
        UNDONE.replace("[{ name: bad, kind: http, url: http://x }]", "{ kind: wait, duration: 3600 }"),
        drive=cancel_and_undo,
    ),
    "outside": Scenario(
        "a task whose work is done outside: recorded, begun, looked at until it has ended",
        "  - { step: start, tool: { name: lift, kind: crane, seconds: 100, load: 5 }, next: { arcs: [{ step: end }] } }\n"
        '  - { step: end, tool: { kind: noop, result: "{{ steps.start.result.up }}" } }\n',
        head="executor: { spec: { extensions: true } }\n",
    ),
    "outside_stopped": Scenario(
        "an execution is cancelled while its work goes on outside, which is stopped before it ends",
        "  - { step: start, tool: { name: lift, kind: crane, seconds: 100000 } }\n",
        head="executor: { spec: { extensions: true } }\n",
        drive=cancel_at_work,
    ),
    "redrive": Scenario(
        "a failed step is redriven with an edited ctx; what finished before is kept", UNMENDED, tool=fails, drive=mended(None)
    ),
    "redrive_iteration": Scenario(
        "one failed iteration of a loop is redriven, and what follows the loop",
        "  - step: start\n"
        "    loop: { in: [a, fail, c], iterator: i, spec: { mode: parallel, policy: { failure: { mode: best_effort } } } }\n"
        '    tool: { kind: noop, result: "{{ iter.i }}" }\n'
        "    next: { arcs: [{ step: end }] }\n"
        '  - { step: end, tool: { kind: noop, result: "{{ steps.start.result }}" } }\n',
        tool=fails,
        drive=mended("start@1"),
    ),
    "redrive_page": Scenario(
        "a page that failed is redriven, and the pages after it; the one before it is kept",
        "  - step: start\n"
        "    tool:\n"
        "      - { name: init, kind: noop, set_iter: { n: 0, found: [] } }\n"
        "      - name: page\n"
        "        kind: noop\n"
        "        result: \"{{ ['a', 'b', 'c'][iter.n] }}\"\n"
        '        set_iter: { n: "{{ iter.n + 1 }}", found: "{{ iter.found + [outcome.result] }}" }\n'
        "      - { name: check, kind: noop, result: \"{{ 'fail' if page == 'b' else page }}\" }\n"
        "      - name: more\n"
        "        kind: noop\n"
        '        result: "{{ iter.found }}"\n'
        '        spec: { policy: { rules: [{ when: "{{ iter.n < 3 }}", then: { do: jump, to: page } }] } }\n',
        tool=fails,
        drive=mended("start/page@2"),
    ),
    "failure_handled": Scenario(
        "an execution that is found by its attributes fails, and a playbook is told",
        "  - { step: start, set_ctx: { seen: 1 }, tool: { kind: noop }, next: { arcs: [{ step: bad }] } }\n"
        "  - { step: bad, tool: { kind: noop, result: fail } }\n",
        head='executor: { spec: { on_failure: { playbook: golden/alert }, search: { n: 1, seen: "{{ ctx.seen }}" } } }\n',
        tool=fails,
        others={"alert": '  - { step: tell, tool: { kind: noop, result: "{{ workload.failure.path }}" } }\n'},
    ),
    "routing_only": Scenario(
        "a step without a tool that only routes",
        "  - { step: start, tool: { kind: noop, result: 2 }, next: { arcs: [{ step: choose }] } }\n"
        '  - step: choose\n    next: { arcs: [{ step: even, when: "{{ steps.start.result % 2 == 0 }}" }, { step: odd }] }\n'
        "  - { step: even, tool: { kind: noop, result: even } }\n"
        "  - { step: odd, tool: { kind: noop } }\n",
    ),
}
