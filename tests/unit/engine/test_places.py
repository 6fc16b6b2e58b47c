"""Places of tokens and runs: the order of branches, in whatever order they end; short however often a cycle forks."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

import pytest

from noetl_core.engine.fold import branch_places
from noetl_core.engine.state import Run, State, Token


class Net:
    """Tokens that move, fork and meet, with the order they should be in kept beside."""

    def __init__(self) -> None:
        self.state = State("1")
        self.order: list[str] = []
        self.names = count()
        self.enqueue(None, None, None, 0)

    def enqueue(self, run: str | None, arc: int | None, joined: list[str] | None, at: int) -> None:
        token = f"t{next(self.names)}"
        branch_places.place_token(self.state, token, run, arc, joined)
        for name in joined or ():
            del self.state.tokens[name]
            self.order.remove(name)
        self.state.tokens[token] = Token(token, "s", {})
        self.order.insert(at, token)

    def move(self, token: str, arcs: list[int], made: Callable[[int], bool] = lambda arc: True) -> None:
        """The token's run ends and continues along `arcs`, of which dedupe may leave some out."""
        run, at = f"r{next(self.names)}", self.order.index(token)
        branch_places.claimed(self.state, [token], run)
        del self.state.tokens[token]
        self.state.runs[run] = Run(run, "s", {}, 0, 0)
        self.order[at : at + 1] = []
        del self.state.runs[run]
        branch_places.branches(self.state, run, arcs)
        for n, arc in enumerate(a for a in arcs if made(a)):
            self.enqueue(run, arc, None, at + n)

    def meet(self, tokens: list[str]) -> None:
        self.enqueue(None, None, tokens, min(self.order.index(t) for t in tokens))

    def sorted(self) -> list[str]:
        return sorted(self.state.tokens, key=lambda name: self.state.places[name])


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_branches_holds_through_forks_joins_and_new_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch_places, "DEEPEST", 2)
    draw, net = random.Random(seed), Net()
    for _ in range(400):
        token = draw.choice(net.order)
        if len(net.order) > 3 and draw.random() < 0.4:
            net.meet(draw.sample(net.order, draw.randint(2, 4)))
        else:
            net.move(token, sorted(draw.sample(range(4), draw.choice([1, 1, 2, 3]))))
        assert net.sorted() == net.order


def test_a_cycle_that_forks_and_meets_keeps_places_short() -> None:
    net = Net()
    for _ in range(1_000):
        net.move(net.order[0], [0, 1])
        net.meet(list(net.order))
        assert max(map(len, net.state.places.values())) <= branch_places.DEEPEST + 1


def test_tokens_that_are_not_made_twice_leave_nothing_behind() -> None:
    net = Net()
    for _ in range(1_000):
        net.move(net.order[0], [0, 1], made=lambda arc: arc == 0)
    assert len(net.state.places) <= branch_places.STALE + 4
