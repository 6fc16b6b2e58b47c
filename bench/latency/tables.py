"""The tables of docs/performance.md that follow from the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.latency import inputs
from bench.latency.inputs import ASSUMED, CITED, PUBLISHED, TARIFF, TASK_MS, TIMES
from bench.latency.model import (
    SEED,
    Record,
    Setting,
    Times,
    durable,
    express,
    late_times,
    percentile,
    quantile,
    standard,
    step_times,
    units,
    usd,
    whole_times,
)
from bench.latency.record import record
from bench.playbooks import chain, fan_out, map_over, waits

from noetl_infra.template_file import read_template

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
STREAM, ASKS, COLD = "stream", "asks", "asks, no state cached"
WAYS: Mapping[str, Mapping[str, bool]] = {STREAM: {"asks": False}, ASKS: {"asks": True}, COLD: {"asks": True, "cold": True}}
TEN, SHORT, LONG, BRANCHES = 10, 16, 44, 100
"""Steps of the recorded chains, and branches of the fan-out. One more step is the difference of two chains that are long enough
for the stream's batches to be the same at their ends."""
ITEMS, FEW, MORE, IN_FLIGHT = 1_000, 60, 160, 16
REPLAYS = 200
RANGE_REPLAYS = 40
PARALLEL = 1_000
"""Messages of a queue taken side by side, where that is no limit."""
SMALLER_MB = (1024, 512)
MILLION = 1_000_000


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def number(value: float) -> str:
    """Two significant digits below ten, whole numbers above."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def dollars(value: float) -> str:
    return f"{value:.2f}"


@cache
def memory() -> Mapping[str, int]:
    """Memory of the functions, as the template has it by default."""
    template = read_template(ROOT / "template.yaml")
    common, resources = int(template["Globals"]["Function"]["MemorySize"]), template["Resources"]
    functions = {"admit": "AdmitFunction", "router": "RouterFunction", "ask": "AskFunction"}
    found = {name: int(resources[function]["Properties"].get("MemorySize", common)) for name, function in functions.items()}
    return {**found, "worker": int(template["Parameters"]["WorkerMemory"]["Default"])}


@cache
def execution(way: str, name: str) -> Record:
    """An execution of the model, recorded once."""
    source, iterations, in_flight = {
        "ten": (chain(TEN), 0, 1),
        "short": (chain(SHORT), 0, 1),
        "long": (chain(LONG), 0, 1),
        "fan-out": (fan_out(BRANCHES), 0, 1),
        "wait": (waits(60), 0, 1),
        "map": (map_over(ITEMS, "noop", IN_FLIGHT), ITEMS, IN_FLIGHT),
        "few": (map_over(FEW, "noop", 1, commit_every=1), FEW, IN_FLIGHT),  # noop items end at once, and would share commits
        "more": (map_over(MORE, "noop", 1, commit_every=1), MORE, IN_FLIGHT),
    }[name]
    return record(source, iterations=iterations, in_flight=in_flight, **WAYS[way])


# --- inputs ---------------------------------------------------------------------------------------------------------------


def times() -> str:
    rows = []
    for time in TIMES.values():
        ranges = f"{number(time.least)} to {number(time.most)}" if time.standing == ASSUMED else ""
        p99 = number(quantile(time.quantiles, 0.99)) if len(time.quantiles) > 1 else "the same"
        rows.append((time.name, number(time.median), p99, time.standing, ranges, str(time.source)))
    return markdown(("time", "p50, ms", "p99, ms", "standing", "p50 varied over", "source"), rows)


def prices() -> str:
    rows = [(price.name, f"{price.usd * 1e6:,.4g}", price.standing, str(price.source)) for price in TARIFF.values()]
    return markdown(("price", "USD a million", "standing", "source"), rows)


# --- requests -------------------------------------------------------------------------------------------------------------


def _counts(one: Record) -> dict[str, float]:
    taken = units(one, TIMES, Setting(memory()), replays=1)
    taken["writes"] = sum(request.write_units > 0 for request in one.requests)
    taken["reads"] = sum(request.read_units > 0 for request in one.requests)
    for function in ("worker", "ask", "router"):
        taken[function] = sum(invocation.function == function for invocation in one.invocations)
    return taken


def per_step(way: str) -> dict[str, float]:
    """Return what one more step of a chain takes."""
    short, long = _counts(execution(way, "short")), _counts(execution(way, "long"))
    return {name: (long.get(name, 0.0) - short.get(name, 0.0)) / (LONG - SHORT) for name in long}


def requests() -> str:
    names = {
        "writes to DynamoDB": "writes",
        "write units": "dynamodb_write_units",
        "reads of DynamoDB": "reads",
        "read units": "dynamodb_read_units",
        "SQS requests": "sqs_requests",
        "invocations": "lambda_invocations",
        "of these, of the worker": "worker",
        "of these, of the ask function": "ask",
        "of these, of the router": "router",
    }
    taken = {way: per_step(way) for way in WAYS}
    rows = [(label, *(number(taken[way].get(name, 0.0)) for way in WAYS)) for label, name in names.items()]
    return markdown(("of one more step in a chain", *WAYS), rows)


# --- times ----------------------------------------------------------------------------------------------------------------


def p50_p99(samples: Sequence[float]) -> str:
    return f"{number(percentile(samples, 0.5))} / {number(percentile(samples, 0.99))}"


def latencies() -> str:
    at_first, unlimited = Setting(memory(), inputs.POLLERS_AT_FIRST), Setting(memory(), PARALLEL)
    chains = [p50_p99(step_times(execution(way, "long"), TIMES, unlimited, REPLAYS)) for way in WAYS]
    rows = [("a step in a chain, from the end of the step before it to its own end", *chains)]
    for label, setting in ((f"{inputs.POLLERS_AT_FIRST} at a time", at_first), ("all at once", unlimited)):
        outs = [p50_p99(whole_times(execution(way, "fan-out"), TIMES, setting, REPLAYS)) for way in (STREAM, ASKS)]
        rows.append((f"fan-out of {BRANCHES} and join, {label}", *outs, "-"))
    lates = [p50_p99(late_times(execution(way, "wait"), TIMES, unlimited, 10 * REPLAYS)) for way in (STREAM, ASKS)]
    rows.append(("a step that waited, from its due time to its end", *lates, "-"))
    return markdown(("ms, p50 / p99", *WAYS), rows)


def ranges() -> str:
    """The chain's times and costs with each assumption at both ends of its range."""
    rows = []
    for name, time in TIMES.items():
        if time.standing != ASSUMED or name in ("admit", "iteration"):  # a step of a chain has neither
            continue
        extremes = [{**TIMES, name: time.scaled(median)} for median in (time.least, time.most)]
        row = [time.name, f"{number(time.least)} to {number(time.most)}"]
        for way in (STREAM, ASKS):
            row.append(" to ".join(p50_p99(_steps(way, varied)) for varied in extremes))
            row.append(" to ".join(dollars(_marginal(way, varied, memory()) * MILLION) for varied in extremes))
        rows.append(row)
    head = [f"{way}: {what}" for way in (STREAM, ASKS) for what in ("ms a step", "USD a million")]
    return markdown(("assumption", "p50, ms", *head), rows)


def _steps(way: str, varied: Times) -> list[float]:
    return step_times(execution(way, "long"), varied, Setting(memory(), PARALLEL), RANGE_REPLAYS)


# --- costs ----------------------------------------------------------------------------------------------------------------


def _usd(way: str, name: str, varied: Times, mb: Mapping[str, int]) -> float:
    return usd(units(execution(way, name), varied, Setting(mb, PARALLEL, TASK_MS)))


def _marginal(way: str, varied: Times, mb: Mapping[str, int]) -> float:
    """Return dollars of one more step of a chain."""
    return (_usd(way, "long", varied, mb) - _usd(way, "short", varied, mb)) / (LONG - SHORT)


def _chain(way: str, steps: int) -> float:
    return _usd(way, "long", TIMES, memory()) + (steps - LONG) * _marginal(way, TIMES, memory())


def _each_item(way: str) -> float:
    """Return dollars of a loop with a commit for each item."""
    few, more = (_usd(way, name, TIMES, memory()) for name in ("few", "more"))
    return few + (ITEMS - FEW) * (more - few) / (MORE - FEW)


def costs() -> str:
    mb = memory()["worker"]
    shapes: Sequence[tuple[str, int, int, Callable[[str], float]]] = (
        ("a chain of 100 steps", 100, 1, lambda way: _chain(way, 100)),
        (f"executions of {TEN} steps", TEN, 1, lambda way: _usd(way, "ten", TIMES, memory())),
        (f"a map of {ITEMS:,} items", ITEMS, IN_FLIGHT, lambda way: _usd(way, "map", TIMES, memory())),
        (f"a map of {ITEMS:,} items, a commit each", ITEMS, IN_FLIGHT, _each_item),
    )
    rows = []
    for label, steps, at_once, ours in shapes:
        theirs = (
            standard(steps, TASK_MS, mb),
            express(steps, at_once, TASK_MS, mb),
            durable(steps, at_once, TASK_MS, mb, TIMES),
        )
        values = (*(ours(way) for way in (STREAM, ASKS)), *theirs)
        rows.append((label, *(dollars(value / steps * MILLION) for value in values)))
    head = ("USD a million steps or items", STREAM, ASKS, "Step Functions Standard", "Step Functions Express", "durable function")
    return markdown(head, rows)


def cost_ranges() -> str:
    """Costs with the assumptions that no step of a chain has, at both ends of their ranges."""
    mb, long = memory()["worker"], 100
    states = inputs.EXPRESS_STATE_MS_RANGE
    operations = inputs.DURABLE_OPERATIONS_RANGE
    rows = [
        (
            "a state of Express, without the time of its task, ms",
            states,
            f"Express, a chain of {long} steps",
            [express(long, 1, TASK_MS, mb, ms) / long for ms in states],
        ),
        (
            "operations charged for a step of a durable function",
            operations,
            f"durable function, a chain of {long} steps",
            [durable(long, 1, TASK_MS, mb, TIMES, each) / long for each in operations],
        ),
    ]
    for name, label, shape, steps in (
        ("admit", f"{STREAM}, executions of {TEN} steps", "ten", TEN),
        ("iteration", f"{STREAM}, a map of {ITEMS:,} items", "map", ITEMS),
    ):
        time = TIMES[name]
        ends = (time.least, time.most)
        usds = [_usd(STREAM, shape, {**TIMES, name: time.scaled(median)}, memory()) / steps for median in ends]
        rows.append((f"{time.name}, ms", ends, label, usds))
    return markdown(
        ("assumption", "range", "cost that depends on it", "USD a million"),
        (
            (name, " to ".join(map(number, ends)), label, " to ".join(dollars(value * MILLION) for value in usds))
            for name, ends, label, usds in rows
        ),
    )


def sizes() -> str:
    """One more step of a chain with workers of other sizes."""
    rows = []
    for mb in (memory()["worker"], *SMALLER_MB):
        sized = {**memory(), "worker": mb}
        marginal = [dollars(_marginal(way, TIMES, sized) * MILLION) for way in (STREAM, ASKS)]
        rows.append((f"{mb:,} MB", *marginal))
    return markdown(("one more step, `WorkerMemory`", f"{STREAM}: USD a million", f"{ASKS}: USD a million"), rows)


def tables() -> Mapping[str, str]:
    """Every table that the model writes, by its title."""
    return {
        "Requests": requests(),
        f"Times (seed {SEED})": latencies(),
        "Costs": costs(),
        "Costs by the worker's memory": sizes(),
        "Dependence on what is assumed": ranges(),
        "Dependence of other costs on what is assumed": cost_ranges(),
        f"Times of services ({PUBLISHED}, {CITED} or {ASSUMED}; looked up on {inputs.LOOKED_UP})": times(),
        "Prices": prices(),
    }


MARKS = ("<!-- latency: written by `make latency` -->\n", "<!-- end of latency -->\n")


def section() -> str:
    """Return the text between the marks of the page."""
    return "\n" + "\n".join(f"**{title}**\n\n{table}" for title, table in tables().items()) + "\n"
