"""Finds cycles in a wait-for graph (docs/limits.md, "Deadlocks"). Pure.

A node with needs is stuck if one of them is; with `any_frees`, only if all are. A node without needs continues by itself. The
nodes that remain when every other node has continued wait forever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from noetl_core.values.frozen import frozen


@frozen
class Need:
    """The nodes that must end before a waiting node continues: all of `nodes`, or with `any_frees` any one of them."""

    nodes: tuple[str, ...]
    any_frees: bool = False


def stuck(needs: Mapping[str, Need]) -> set[str]:
    """Return the nodes that wait forever."""
    left = {node for node, need in needs.items() if need.nodes}
    while gone := {node for node in left if not _waits_for_ever(needs[node], left)}:
        left -= gone
    return left


def _waits_for_ever(need: Need, left: set[str]) -> bool:
    found = [node in left for node in need.nodes]
    return all(found) if need.any_frees else any(found)


def circle(needs: Mapping[str, Need], among: set[str], node: str) -> Sequence[str]:
    """Return the shortest way from a node of `among` back to it, the node itself first; empty: there is none."""
    came: dict[str, str] = {}
    ahead = deque([node])
    while ahead:
        here = ahead.popleft()
        for next_one in needs[here].nodes:
            if next_one == node:
                way = [here]
                while way[-1] != node:
                    way.append(came[way[-1]])
                return way[::-1]
            if next_one in among and next_one not in came:
                came[next_one] = here
                ahead.append(next_one)
    return ()
