"""Provides `callback.token` and `callback.url` in templates: a task sends them to the system or person that is to answer the next
callback (docs/callbacks.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl_core.dsl.model import Step
from noetl_core.engine import ids
from noetl_core.engine.callbacks import CallbackTarget, callback_tasks, token_of
from noetl_core.engine.pipelines.pipeline import Pipeline
from noetl_core.expr import Secret, TemplateError

LOCAL_URL = "noetl-callback:{token}"
"""The URL if there is no API: `noetl callback` accepts it like the token itself."""
KEYS = ("token", "url")


class CallbackTokens:
    """Creates the tokens of one run, each only when a template reads it. `url` contains `{token}`."""

    def __init__(
        self,
        step: Step,
        execution_id: str,
        run_id: str,
        key: Callable[[], bytes] | None,
        url: str = LOCAL_URL,
    ) -> None:
        self._step, self._execution_id, self._run_id, self._key, self._url = step, execution_id, run_id, key, url
        self._places = callback_tasks(step)

    def layer(self, pipe: Pipeline) -> Mapping[str, Any] | None:
        """Return the name `callback` for the task at `pipe.pc`; None in steps without a callback by token."""
        if not self._places:
            return None
        return {"callback": _Next(self, pipe)}

    def read(self, pipe: Pipeline, what: str) -> Secret:
        """Return the token or the URL of the next callback: the one at or after the task that asks, otherwise the first. The
        value is a secret, so the log masks it."""
        if self._key is None:
            raise TemplateError("callback tokens are not available here: this pool has no key for them")
        place = next((n for n in self._places if n >= pipe.pc), self._places[0])
        task = self._step.tasks[place]
        task_run = ids.task_run_id(pipe.run, pipe.path, task.name, pipe.visit(task))
        token = token_of(CallbackTarget(self._execution_id, self._run_id, task_run, place), self._key())
        return Secret(token if what == "token" else self._url.format(token=token))


class _Next(Mapping[str, Any]):
    """The name `callback` in templates; it is evaluated when a template reads it."""

    __slots__ = ("_pipe", "_tokens")

    def __init__(self, tokens: CallbackTokens, pipe: Pipeline) -> None:
        self._tokens, self._pipe = tokens, pipe

    def __getitem__(self, name: str) -> Any:
        if name not in KEYS:
            raise KeyError(name)
        return self._tokens.read(self._pipe, name)

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)
