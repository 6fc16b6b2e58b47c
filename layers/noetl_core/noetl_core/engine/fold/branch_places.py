"""Places of live tokens and runs in the tree of branches: an order that does not depend on clocks, workers or ids.

The first token has the place `[]`. A token has the place of the run that produced it; when a run produces several tokens, the
token of arc n has the place `[*place, n]`. A merged token has the first place of the tokens that met. So a join merges in the
same order whichever branch ended first, and in every execution (resolution 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from noetl_core.engine.state import State

DEEPEST = 16
"""The depth of nested branches at which all live tokens and runs get new places: in cycles that fork in every round, places
stay short."""
STALE = 64
"""The most places of tokens and runs that are kept after their tokens and runs have ended."""


def branches(state: State, run: str, arcs: Sequence[int]) -> None:
    """A run has ended and continues along `arcs`."""
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
    """Give a place to a token that an arc of a run, or a join, has produced. A token that a redrive puts back has its place
    already."""
    if token in state.places:
        return
    met = [place for name in joined or () if (place := state.places.pop(name, None)) is not None]
    place = min(met) if met else state.places.pop(_coming(run, arc), None)
    state.places[token] = _after_all(state) if place is None else place


def put_back(state: State, tokens: Iterable[str]) -> None:
    """Give places to `tokens` that a redrive puts back, in the order of their branches, when nothing else is live."""
    state.places = {token: [n] for n, token in enumerate(tokens)}


def claimed(state: State, tokens: Iterable[str], run: str) -> None:
    """A run takes the place of its token."""
    for token in tokens:
        state.places[run] = state.places.pop(token, [])


def gone(state: State, token: str) -> None:
    state.places.pop(token, None)


def _coming(run: str | None, arc: int | None) -> str:
    return f"{run}/{arc}"


def _after_all(state: State) -> list[int]:
    return [max((place[0] for place in state.places.values() if place), default=-1) + 1] if state.places else []


def _number_anew(state: State, keep: str) -> None:
    """Give shorter places, in the same order, to all live tokens and runs."""
    live = [name for name in state.places if name in state.tokens or name in state.runs or name == keep]
    live.sort(key=state.places.__getitem__)
    state.places = {name: [n] for n, name in enumerate(live)}
