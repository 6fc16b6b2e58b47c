"""Playbooks whose steps displace each other, and the checks after their end."""

from __future__ import annotations

from tests.sim.world import World

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: newest, path: sim/newest}\nworkload: {n: 0}\n"

LIMIT = "spec: {policy: {concurrency: {key: shop, max: 1, on_limit: cancel_oldest}}}"

ROUTED = (
    HEAD
    + f"""workflow:
  - step: start
    {LIMIT}
    tool: {{name: work, kind: http, url: "http://x"}}
    next:
      arcs:
        - {{step: given-up, when: "{{{{ event.name == 'step.failed' and event.error.code == 'displaced' }}}}", args: {{why: "{{{{ event.error.message }}}}"}}}}
        - {{step: charged, when: "{{{{ event.name == 'step.done' }}}}"}}
  - step: given-up
    tool: {{name: note, kind: noop, result: "{{{{ args.why }}}}"}}
  - step: charged
    tool: {{name: note, kind: noop}}
"""
)

PLAIN = ROUTED.split("    next:\n")[0]

CALLBACK = ROUTED.replace('kind: http, url: "http://x"', "kind: callback, signal: never")


def under_way(world: World, execution_id: str) -> None:
    """Run the world until a worker has begun the execution."""
    world.run(
        execution_id, until=lambda: any("StepStarted" in world.names(execution_id, r) for r in world.state(execution_id).runs)
    )
