"""Where live tokens and runs stand in the tree of branches: an order in which no clock, worker or id has a part.

The first token stands at `[]`. What a run makes stands where its run stood; where a run makes several tokens, that of arc n
stands at `[*place, n]`. What meets in a join stands where the first of it stood. So a join merges the same whichever branch ended
first, and in an execution under any other id (resolution 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noetl_core.engine.state import State

DEEPEST = 16
"""Branches within branches until all that is live is numbered anew: places stay short in cycles that fork at every turn."""
STALE = 64
"""Places of what is not live any more (tokens that were not made twice) that may be kept."""


def branches(state: State, run: str, arcs: Sequence[int]) -> None:
    """A run has ended and goes on along `arcs`."""
    base = state.places.pop(run, None)
    if not arcs:
        return
    if base is None:
        base = _after_all(state)
    too_deep = len(arcs) > 1 and len(base) >= DEEPEST
    if too_deep or len(state.places) > 2 * (len(state.tokens) + len(state.runs)) + STALE:
        state.places[run] = base
        _number_anew(state, keep=run)
        base = state.places.pop(run)
    for arc in arcs:
        state.places[_coming(run, arc)] = [*base, arc] if len(arcs) > 1 else base


def place_token(state: State, token: str, run: str | None, arc: int | None, joined: Iterable[str] | None) -> None:
    """A token is made: by an arc of a run, or of tokens that met. One that a redrive puts back has its place."""
    if token in state.places:
        return
    met = [place for name in joined or () if (place := state.places.pop(name, None)) is not None]
    place = min(met) if met else state.places.pop(_coming(run, arc), None)
    state.places[token] = _after_all(state) if place is None else place


def put_back(state: State, tokens: Iterable[str]) -> None:
    """A redrive puts back `tokens`, in the order of their branches, where nothing else is live."""
    state.places = {token: [n] for n, token in enumerate(tokens)}


def claimed(state: State, tokens: Iterable[str], run: str) -> None:
    """A run begins where its token stood."""
    for token in tokens:
        state.places[run] = state.places.pop(token, [])


def gone(state: State, token: str) -> None:
    state.places.pop(token, None)


def _coming(run: str | None, arc: int | None) -> str:
    return f"{run}/{arc}"


def _after_all(state: State) -> list[int]:
    return [max((place[0] for place in state.places.values() if place), default=-1) + 1] if state.places else []


def _number_anew(state: State, keep: str) -> None:
    """Shorter places in the same order, for what is live."""
    live = [name for name in state.places if name in state.tokens or name in state.runs or name == keep]
    live.sort(key=state.places.__getitem__)
    state.places = {name: [n] for n, name in enumerate(live)}
