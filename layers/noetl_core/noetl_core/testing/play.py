"""Runs one test: a playbook in this process, in memory and in virtual time, with scripted tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from noetl_core.adapters.local.database import MEMORY
from noetl_core.control.admit import StartRequest, register, strict_by_default
from noetl_core.control.catalog.versions import Playbooks
from noetl_core.control.core import Control
from noetl_core.dsl.model import Playbook
from noetl_core.dsl.parse import parse_playbook
from noetl_core.engine.ids import execution_id_at
from noetl_core.engine.state import trigger_seen
from noetl_core.expr import Scope, render
from noetl_core.playbooks.called_files import called
from noetl_core.ports import Forbidden, NotFound
from noetl_core.runtime.embedded import Execution, read_playbook, register_called, text_of
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.operations.base import Operations, cursor_key
from noetl_core.testing.acts import Act, Acts
from noetl_core.testing.clock import START, TestIsOver, VirtualClock
from noetl_core.testing.registry import Call, Script, ScriptedRegistry, Unanswered
from noetl_core.testing.runner import Arrivals, NothingLeft, VirtualQueue, VirtualRunner
from noetl_core.testing.shapes import normalised
from noetl_core.tools.grants import Grant, Token
from noetl_core.values.instants import SECOND
from noetl_core.views.executions.executions import status_of, summary

if TYPE_CHECKING:
    from noetl_core.events.shapes import Triggered

FOREVER_S: Final = 100 * 365 * 86_400.0
"""The longest time of a test, in seconds of virtual time."""


KEY: Final = b"test" * 8
"""The key of callback tokens: a test makes the same ones each time."""


class PlayedSecrets:
    """`Secrets` of a test."""

    def __init__(self, secrets: Mapping[str, Any]) -> None:
        self._secrets = secrets

    def get(self, name: str) -> Mapping[str, Any]:
        if name not in self._secrets:
            raise NotFound(
                f"the test has no credential {name!r}: add it under secrets, for example secrets: {{{name}: {{token: x}}}}"
            )
        found: Mapping[str, Any] = self._secrets[name]
        return found

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        raise Forbidden("a test stores no credentials")

    def delete(self, name: str) -> None:
        raise Forbidden("a test stores no credentials")

    def names(self) -> Iterable[str]:
        return sorted(self._secrets)


class PlayedTokens:
    """Access tokens of a test: nothing is requested."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def wait(self, grant: Grant, owner: str) -> Token:
        now = self._clock.now()
        return Token({"access_token": "access-token", "token_type": "Bearer"}, now, now + 3600 * SECOND)

    async def token(self, grant: Grant, owner: str, refused: Token | None = None) -> Token:
        return self.wait(grant, owner)

    def close(self) -> None:
        """Close nothing."""


@dataclass
class Scene:
    """The inputs of a test. `playbook` is a file, or the text of a playbook; `text` replaces the text of the file.
    `until` is the status at which the test ends although its execution could go on."""

    playbook: str | Path | Playbook
    payload: Mapping[str, Any] = field(default_factory=dict)
    ctx: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Any] = field(default_factory=dict)
    acts: Sequence[Act] = ()
    until: str = ""
    now: int = START
    strict: bool = False
    trigger: Mapping[str, Any] | None = None
    """The trigger that starts it; its payload is below `payload`."""
    others: Sequence[Path] = ()
    """Files of further playbooks that it calls."""
    text: str | None = None
    dies_after: int = 0
    """The call of a tool, counted from 1, after whose answer the worker is killed; 0: none."""
    seed: int | None = None
    """The order in which deliveries of one instant arrive; None: as they were sent."""
    arrives_twice: bool = False
    """True if each message and each stream record arrives twice."""
    calls_twice: bool = False
    """True if each tool is called twice."""
    limit: int | None = None
    """The most work that it may do, in calls and turns of the runner; None: as much as the language allows."""


class Played(Execution):
    """A played execution: `status`, `result`, `ctx`, `error`, `events()`, and the inputs of its tasks."""

    def __init__(self, wiring: LocalWiring, execution_id: str, registry: ScriptedRegistry, acts: Acts) -> None:
        super().__init__(wiring, execution_id)
        assert isinstance(wiring.runner, VirtualRunner)
        if not self._state.finished:
            self.status = status_of(self._state)
        self.calls: list[Call] = registry.calls
        """The calls of tools, in order."""
        self.unanswered: list[Unanswered] = registry.unanswered
        """Calls that fail the test, because nothing answers them."""
        self.scripts = registry.scripts
        """The scripted tasks, with the entries that answered."""
        self.acts = acts
        self.seconds: float = (wiring.runner.now() - self._state.started_at) / SECOND
        """The virtual time that it took."""
        self.work = wiring.runner.turns + len(registry.calls)
        """The work that it did: calls of tools, and turns of the runner."""
        self.executions = wiring.runner.executions
        """The ids of the execution and of its children."""

    @property
    def control(self) -> Control:
        """The control plane, which functions of `noetl_core.views` read it from."""
        return self._wiring.control

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary, as `noetl show --output json` prints it."""
        return summary(self.control, self.id)

    @cached_property
    def path(self) -> list[str]:
        """The steps in the order in which they were scheduled."""
        return [event["step"] for event in self.events() if event["name"] == "StepScheduled"]

    @property
    def warnings(self) -> Sequence[Mapping[str, Any]]:
        """The warnings, by groups."""
        found: Sequence[Mapping[str, Any]] = self.summary.get("warnings", {}).get("groups", ())
        return found

    def calls_of(self, task: str) -> list[Mapping[str, Any]]:
        """Return the inputs of each call of a task, which is named as in `tools`."""
        return [call.inputs for call in self.calls if task in (call.task, call.task.partition(".")[0])]

    def unused(self) -> Iterator[tuple[str, int, Any]]:
        """Yield the scripted outcomes that answered no call, unless they are optional: the name of the task, the index, the
        entry."""
        for name, script in self.scripts.items():
            for index, entry in enumerate(() if callable(script.entries) else script.entries):
                if index not in script.used and not entry.get("optional") and not entry.get("repeated"):
                    yield name, index, entry

    def playbook_of(self, execution_id: str) -> Playbook:
        """Return the playbook of the execution or of a child."""
        return _playbook_of(self.control)(execution_id)

    def history_of(self, execution_id: str) -> list[dict[str, Any]]:
        """Return the events of the execution or of a child."""
        return self.events() if execution_id == self.id else Execution(self._wiring, execution_id).events()

    def close(self) -> None:
        """Forget it: nothing of it can be read any more."""
        self._wiring.close()


def play(scene: Scene) -> Played:
    """Run a scene to its end, or until nothing can happen any more. Raises as `noetl_core.run`."""
    source, file, model = read_playbook(scene.playbook)
    clock = VirtualClock(scene.now)
    scripts = [Script(name, _entries(entries)) for name, entries in scene.tools.items()]
    registry = ScriptedRegistry(scripts, clock, scene.secrets.values())
    secrets = PlayedSecrets(scene.secrets)
    wiring = LocalWiring(MEMORY, secrets=secrets, tools=registry, clock=clock, runner=VirtualRunner, queue=VirtualQueue)
    try:
        return _play(scene, source if scene.text is None else scene.text, file, model, wiring, registry, clock)
    except BaseException:
        wiring.close()
        raise


def _play(
    scene: Scene,
    source: str,
    file: Path | None,
    model: Playbook | None,
    wiring: LocalWiring,
    registry: ScriptedRegistry,
    clock: VirtualClock,
) -> Played:
    runner = wiring.runner
    assert isinstance(runner, VirtualRunner)
    wiring.worker.heartbeat = None  # it renews leases in real time
    wiring.worker.tokens = lambda: PlayedTokens(clock)  # type: ignore[assignment, method-assign, return-value]  # as `Tokens`
    wiring.control.callback_key = wiring.worker.callback_key = lambda: KEY
    registry.playbook = _playbook_of(wiring.control)
    registry.dies_after, registry.twice = scene.dies_after, scene.calls_twice
    if scene.seed is not None or scene.arrives_twice:
        runner.arrange(Arrivals(scene.seed, twice=scene.arrives_twice))
    if scene.dies_after:
        wiring.worker.gone = lambda worker: True  # the next worker takes over at once: a kill changes no times
    for other in scene.others:
        register(wiring.control, text_of(other), str(other))
    if file is not None and model is not None and set(called(model)):
        register_called(wiring, model, file)
    wiring.observe(registry.see)
    root = execution_id_at(scene.now, 1)  # constant, because jitter is derived from it
    start = StartRequest(playbook=source, payload=scene.payload, ctx=scene.ctx, strict=scene.strict, execution_id=root)
    if scene.trigger is not None:
        start = _triggered(start, dict(scene.trigger), wiring.control, parse_playbook(source, lenient=True))
    wiring.start(start)
    operations = Operations(lambda: wiring.control, cursor_key(lambda: wiring.control))
    runner.outside = acts = Acts(scene.acts, operations, runner, root)
    runner.rests = lambda: bool(scene.until) and not acts.left and status_of(runner.state(root)) == scene.until
    if scene.limit is not None:
        runner.limit = registry.limit = scene.limit
    with suppress(NothingLeft, TestIsOver):
        wiring.run(root, timeout_s=FOREVER_S)
    wiring.stop()
    return Played(wiring, root, registry, acts)


def trigger_of(fields: Mapping[str, Any], playbook: Playbook) -> dict[str, Any]:
    """Return a trigger with its kind and name. Raises `LookupError` with the names of all triggers if it has none of them."""
    name = fields.get("name")
    known = {trigger.name: trigger for trigger in playbook.executor.triggers}
    if name is None and "kind" not in fields and len(known) == 1:
        (name,) = known
    if name in known:
        return {"kind": known[name].kind, "name": name, "id": "test", **fields}
    if "kind" in fields:  # a failure, a backfill, or a trigger of another version
        return {"name": None, "id": "test", **fields}
    problem = "name or kind is missing" if name is None else f'"{name}" is not a trigger of the playbook'
    raise LookupError(f"trigger: {problem}" if name is None else problem, known)


def _triggered(start: StartRequest, fields: Mapping[str, Any], playbooks: Playbooks, playbook: Playbook) -> StartRequest:
    """Return the start of a trigger, with the payload that the playbook's trigger makes of it."""
    trigger = cast("Triggered", trigger_of(fields, playbook))
    own = next((each for each in playbook.executor.triggers if each.name == trigger["name"]), None)
    strict = start.strict or strict_by_default(playbooks, playbook)
    payload = {} if own is None else render(own.payload, Scope({"trigger": trigger_seen(trigger)}, strict=strict))
    return replace(start, trigger=trigger, payload={**payload, **start.payload})


def _entries(entries: Any) -> Any:
    return entries if callable(entries) else [normalised(each) for each in (entries if isinstance(entries, list) else [entries])]


def _playbook_of(control: Control) -> Callable[[str], Playbook]:
    known: dict[str, Playbook] = {}

    def playbook(execution_id: str) -> Playbook:
        if execution_id not in known:
            known[execution_id] = control.playbook(control.load(execution_id).digest)
        return known[execution_id]

    return playbook
