"""Loading of task inputs: a task gets values of any size in place of references (resolution 22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from noetl_core.dsl.kinds import KINDS
from noetl_core.engine.outcome import Outcome
from noetl_core.expr import contains_secret, is_reference, path_text
from noetl_core.expr.values import SCALARS
from noetl_core.log.load_budgets import LoadBudget, LoadLimitExceeded
from noetl_core.log.stored_values import claimed
from noetl_core.ports import NotFound, TooLarge
from noetl_core.tools.base import BadInput
from noetl_core.worker.values.execution_view import Resolver


class CannotBegin(Exception):
    """A task cannot begin, for example because its inputs cannot be loaded. It ends with `outcome`."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error.message if outcome.error else "")
        self.outcome = outcome


def load_inputs(
    kind: str, name: str, inputs: Mapping[str, Any], resolve: Resolver, limit: int, *, texts: bool = False
) -> dict[str, Any]:
    """Return the rendered inputs of task `name` with references replaced by their values, at most `limit` bytes in all.

    Inputs in which the kind takes references keep them. If such an input is itself a reference to a mapping, that mapping is
    loaded, because its keys are needed. With `texts`, large values may stay `JsonText`. Raises `CannotBegin`.
    """
    if all(type(value) in SCALARS for value in inputs.values()):
        return dict(inputs)
    spec = KINDS.get(kind)
    taken: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for key, value in inputs.items():
        canonical = spec.aliases.get(key, key) if spec is not None else key
        (taken if spec is not None and canonical in spec.references else values)[key] = value
    budget = LoadBudget(limit)
    try:
        whole = dict(resolve.whole(values, budget, texts=texts and not contains_secret(values)))  # the tool masks all of a secret
        for key, value in taken.items():
            whole[key] = _mapping(key, value, resolve, budget) if spec is not None and key in spec.maps else value
    except LoadLimitExceeded as full:
        raise CannotBegin(Outcome.failed("limit", _too_large(name, full), retryable=False)) from None
    except NotFound as error:
        raise CannotBegin(Outcome.failed("not_found", f"inputs of task {name}: {error}", retryable=False)) from None
    except ValueError as error:
        hint = "a task of kind duckdb reads it as one of its sources"
        raise CannotBegin(Outcome.failed("schema", f"inputs of task {name}: {error}; {hint}", retryable=False)) from None
    return {key: whole[key] for key in inputs}


class TaskReferences:
    """`tools.base.References` of one task."""

    def __init__(self, name: str, resolve: Resolver, limit: int) -> None:
        self._name, self._resolve, self._limit = name, resolve, limit

    def owns(self, value: Any) -> bool:
        return is_reference(value) and self._resolve.family.owns(value)

    def opened(self, reference: Any, name: str) -> Any:
        def ask(budget: LoadBudget) -> Any:
            budget.take(claimed(reference), (name,))
            return self._resolve.opened(reference, budget)

        return self._within(self._limit, ask)

    def load(self, value: Any, name: str, limit: int | None = None, *, texts: bool = False) -> Any:
        return self._within(
            self._limit if limit is None else limit,
            lambda budget: self._resolve.whole_uncached(value, budget, (name,), texts=texts),
        )

    def _within(self, limit: int, ask: Callable[[LoadBudget], Any]) -> Any:
        try:
            return ask(LoadBudget(limit))
        except LoadLimitExceeded as full:
            raise TooLarge(_too_large(self._name, full)) from None
        except ValueError as error:
            raise BadInput(str(error)) from None


def _mapping(key: str, value: Any, resolve: Resolver, budget: LoadBudget) -> Any:
    """Return the mapping that `value` is, or refers to. The mapping may contain references."""
    if not is_reference(value) or not resolve.family.owns(value):
        return value
    budget.take(claimed(value), (key,))
    return resolve.opened(value, budget)


def _too_large(name: str, full: LoadLimitExceeded) -> str:
    """Return a message that names the input that is too large, and the remedies."""
    where = path_text(full.path) or "what they hold"
    return (
        f"inputs of task {name}: with {where} they are {full.size} bytes, and max_input_bytes is {full.limit}; take only what"
        " the task needs, loop over the value, give it to duckdb as one of its sources, or raise"
        " executor.spec.policy.limits.max_input_bytes"
    )
