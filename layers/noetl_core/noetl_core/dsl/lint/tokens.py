"""Tokens on their way: joins that wait for more tokens than can come, forks that multiply tokens, branches that meet."""

from __future__ import annotations

import math
from itertools import pairwise

from noetl_core.dsl.lint.context import Lint, listed
from noetl_core.dsl.lint.graph import components, is_cycle
from noetl_core.dsl.lint.net import Net, boundaries
from noetl_core.dsl.model import Step


def joins(lint: Lint, net: Net) -> None:
    """W505, W506: `join: {count: n}` with fewer than n tokens that can come before it fires (resolution 13)."""
    waiting = [(i, step, step.join.count) for i, step in enumerate(net.steps) if step.join and step.join.mode == "count"]
    in_cycle = {i for cycle in net.cycles for i in cycle}
    runs: dict[int, float] = {net.entry: math.inf if net.entry in in_cycle else 1.0}
    for i, step, count in waiting:
        if i not in net.dominators.above or i == net.entry:
            continue
        most = _most_tokens(net, net.entry, i) if i in in_cycle else _tokens(net, i, in_cycle, runs)
        if most >= count:
            continue
        at = lint.at(step.path, "spec", "join", "count")
        few = f"it takes {count} tokens, and at most {most:.0f} can come"
        if i in in_cycle:
            message = f'the join of step "{step.name}" waits for itself: {few} before it fires'
            lint.report("W506", at, message, "count the tokens from outside of the cycle only")
        else:
            message = f'the join of step "{step.name}" never completes: {few}'
            lint.report(
                "W505",
                at,
                message,
                "write next.spec.mode: inclusive in the step that branches, lower the count, or write join: all",
            )


def _tokens(net: Net, join: int, in_cycle: set[int], runs: dict[int, float]) -> float:
    """Return the maximum number of tokens that reach a step outside of cycles: the runs of its nearest dominator bound it. `runs`
    caches the most runs of the steps on the way; a join that nothing can reach again runs once."""
    chain = [join]
    while chain[-1] not in runs:
        chain.append(net.dominators.up(chain[-1]))
    tokens = 0.0
    for above, node in pairwise(reversed(chain)):
        tokens = runs[above] * _most_tokens(net, above, node)
        once = net.steps[node].join is not None and tokens < math.inf
        runs[node] = math.inf if node in in_cycle else 1.0 if once else tokens
    return tokens


def _most_tokens(net: Net, source: int, target: int) -> float:
    """Return the most tokens that one run of `source` can bring to `target` before `target` runs; infinite when a cycle may
    produce any number.

    The router of a run produces its tokens: an exclusive one produces one, an inclusive one at most all. Joins on the way
    only reduce them.
    """
    before = net.before
    region, stack = {target}, [target]
    while stack:
        for node in before[stack.pop()]:
            if node not in region and node in net.dominators.above:
                region.add(node)
                if node != source or source == net.entry:
                    stack.append(node)
    net.dominators.spend(20 * len(region))  # the cost of treating each node below
    order = sorted(region)
    place = {node: n for n, node in enumerate(order)}
    graph = [[place[t] for t in net.live[node] if t in region] if node != target else [] for node in order]
    end = place[target]
    most: dict[int, float] = {}
    for component in components(graph):
        cyclic = is_cycle(graph, component)
        inside = set(component) if cyclic else set[int]()
        out = 0.0
        for n in component:
            known = [most[t] for t in graph[n] if t not in inside]
            if n == end:
                out = 1.0
            elif not net.inclusive(order[n]):
                out = max([out, *known])
            else:
                out = math.inf if cyclic and len(graph[n]) > 1 else max(out, sum(known))
        if any(math.isinf(most[t]) for n in component for t in graph[n] if t not in inside):
            out = math.inf
        most.update((n, out) for n in component)
    return most[place[source]]


def growth(lint: Lint, net: Net) -> None:
    """W509: a fork in a cycle that sends more than one token back. W510: a cycle that no token leaves."""
    for cycle in net.cycles:
        if not _grows(lint, net, cycle):
            _endless(lint, net, cycle)


def _grows(lint: Lint, net: Net, cycle: list[int]) -> bool:
    """Return whether tokens multiply. Joins on the way merge forked tokens, so only cycles beside joins count."""
    inside = {i for i in cycle if net.steps[i].join is None}
    index = sorted(inside)
    place = {i: n for n, i in enumerate(index)}
    graph = [[place[t] for t in net.live[i] if t in inside] for i in index]
    for part in components(graph):
        if not is_cycle(graph, part):
            continue
        members = {index[n] for n in part}
        for i in sorted(members):
            arcs = [a for a in net.live_arcs(i) if net.number[a.step] in members] if net.inclusive(i) else []
            always = [a for a in arcs if _certain_on_success(net, i, a.index)]
            if len(always) < 2:
                continue
            step = net.steps[i]
            names = listed(list(dict.fromkeys(f'"{a.step}"' for a in always)))
            message = (
                f'tokens grow without bound: step "{step.name}" forks to {names} each time round, and all of them lead back to it'
            )
            lint.report(
                "W509", lint.at(always[1].path, "step"), message, "join the branches (spec.join: all), or let only one lead back"
            )
            return True
    return False


def _certain_on_success(net: Net, i: int, arc: int) -> bool:
    return net.fires(i, net.arcs(i)[arc], boundaries(net.steps[i])[0]) is True


def _endless(lint: Lint, net: Net, cycle: list[int]) -> None:
    """Return whether every run in the cycle that succeeds produces a token that stays in it."""
    inside = set(cycle)
    if not inside & net.reached or not all(_stays(net, i, inside) for i in cycle):
        return
    first = min(cycle)
    names = [f'"{net.steps[i].name}"' for i in sorted(cycle)]
    round_ = listed(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
    alone = len(names) == 1
    what = f"step {round_} leads back to itself" if alone else f"steps {round_} lead to each other"
    message = f"a cycle without a way out: {what} for as long as {'it succeeds' if alone else 'they succeed'}"
    lint.report(
        "W510",
        lint.step_name(net.steps[first].path),
        message,
        "guard an arc of the cycle, or add an arc that leaves the cycle and stands before the arcs of the cycle",
    )


def _stays(net: Net, i: int, inside: set[int]) -> bool:
    """Return whether each success of the step produces a token inside, and nothing lets tokens leave or rest."""
    step: Step = net.steps[i]
    if step.admission is not None or step.join is not None:
        return False
    success = boundaries(step)[0]
    certain = False
    for arc in net.live_arcs(i):
        fires = net.fires(i, arc, success)
        if net.number[arc.step] not in inside:
            return False
        certain = certain or fires is True
    return certain


def meetings(lint: Lint, net: Net) -> None:
    """W511: branches of one inclusive fork that meet in a step without `join`, which then runs once for each (resolution 13)."""
    tree = net.dominators
    before = net.before
    reported: set[int] = set()
    for i in sorted(tree.above, key=lambda n: tree.order[n], reverse=True):
        step = net.steps[i]
        if len(before[i]) < 2 or step.join is not None:
            continue
        came = sorted({p for p in before[i] if _comes_forward(net, p, i)}, key=lambda p: tree.order[p])
        for a, b in pairwise(came):
            fork = tree.common(a, b)
            if _dedupes(net, fork, a, b) or not net.inclusive(fork) or _counted(net, reported, fork, (a, b)):
                continue
            if _both(net, fork, i, a, b):
                reported.add(i)
                message = f'step "{step.name}" runs once for each branch of step "{net.steps[fork].name}" that leads to it'
                lint.report("W511", lint.step_name(step.path), message, "write spec.join: all to run it once, after all of them")
                break


def _dedupes(net: Net, *steps: int) -> bool:
    """Return whether one of the routers produces equal tokens only once."""
    return any(router is not None and bool(router.dedupe) for router in (net.steps[i].router for i in steps))


def _comes_forward(net: Net, source: int, target: int) -> bool:
    """Return whether successful runs of `source` lead to `target`, other than by going back. Failures may well meet in one
    handler."""
    if source not in net.dominators.above or net.dominators.dominates(target, source):
        return False
    success = boundaries(net.steps[source])[0]
    arcs = (a for a in net.live_arcs(source) if net.number[a.step] == target)
    return any(net.fires(source, arc, success) is not False for arc in arcs)


def _counted(net: Net, reported: set[int], fork: int, ends: tuple[int, int]) -> bool:
    """Return whether a step that was reported already stands between the fork and one of `ends`."""
    for node in ends:
        while node != fork:
            if node in reported:
                return True
            node = net.dominators.up(node)
    return False


def _both(net: Net, fork: int, meeting: int, a: int, b: int) -> bool:
    """Return whether two different arcs of the fork, which may fire together, begin the branches that end in `a` and `b`."""
    tree = net.dominators
    starts = [meeting if end == fork else tree.child_towards(fork, end) for end in (a, b)]
    firsts = [[arc for arc in net.live_arcs(fork) if net.number[arc.step] == start] for start in starts]
    left, right = (found or net.live_arcs(fork) for found in firsts)
    return any(x.index != y.index and net.together(fork, x, y) for x in left for y in right)
