"""Measures a function's cold start: importing its handler and serving a first event, from the layer as it ships.

`make bench` prints it; `python -m bench.functions.cold [--layer FOLDER] [--functions FOLDER] [--python FILE]` of another
build. A sample is a process of its own, in the interpreter of the functions' runtime, with the layer and the handler on its
path and nothing else. Processor time is what Lambda's share of a processor stretches; wall time is that of this machine. AWS
is `aws_stub`.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, NotMeasured, print_table
from bench.functions.aws_stub import Services
from tests.servers import serving, url_of

from noetl_core.engine.records import Ask
from noetl_core.log.codec import encode_ask
from noetl_infra.template_file import read_template

ROOT = Path(__file__).parents[2]
FIND_PYTHON = ROOT / "layers" / "noetl_core" / "find-python.sh"
BUDGET_MS = 400
"""Processor time of importing a handler."""
BUDGET_MB = 42
"""Megabytes of the layer, which every function unpacks."""
WORKER_MB = 120
"""Megabytes of the layer and the workers' package."""
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: cold, path: bench/cold }
workflow:
  - step: only
    tool: { kind: noop }
"""
_CHILD = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
event = json.loads(sys.stdin.read())
class Context:
    function_name, memory_limit_in_mb, aws_request_id = "f", 512, "r"
    invoked_function_arn = "arn:aws:lambda:us-east-1:1:function:f"
    def get_remaining_time_in_millis(self):
        return 60_000
marks = [(time.process_time(), time.perf_counter())]
import app
marks.append((time.process_time(), time.perf_counter()))
answer = app.handler(event, Context())
marks.append((time.process_time(), time.perf_counter()))
print(json.dumps({"marks": marks, "answer": answer, "modules": sorted(sys.modules)}))
"""


@dataclass(frozen=True)
class Start:
    """One cold start: milliseconds of processor and wall time of the import and of the first event, and modules loaded."""

    import_cpu: float
    import_wall: float
    event_cpu: float
    event_wall: float
    modules: tuple[str, ...]


def runtime() -> str:
    """The Python version in which functions run by default, e.g. `3.13`."""
    template = read_template(ROOT / "template.yaml")
    return str(template["Parameters"]["LambdaRuntime"]["Default"]).removeprefix("python")


def interpreter(version: str) -> str:
    """Return an interpreter of a version on this machine, as the build of the layer finds it: one that runs, on the PATH, of
    pyenv or of uv. Raises `NotMeasured` if there is none.
    """
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else "uv"
    found = subprocess.run([str(FIND_PYTHON), version, uv], capture_output=True, text=True)
    if found.returncode:
        raise NotMeasured(found.stderr.strip())
    return found.stdout.strip()


@contextmanager
def built() -> Iterator[tuple[Path, Path]]:
    """The layer and the workers' package as `sam build` makes them, for this machine's processor."""
    machine = {"x86_64": "x86_64", "AMD64": "x86_64"}.get(platform.machine(), "arm64")
    layer = ROOT / "layers" / "noetl_core"
    with tempfile.TemporaryDirectory(prefix="noetl-layer-") as folder:
        made = Path(folder, "layer"), Path(folder, "worker")
        for source, name, to in ((layer, "CoreLayer", made[0]), (ROOT / "functions" / "worker", "WorkerFunction", made[1])):
            subprocess.run(
                ["make", "--silent", "--makefile", str(source / "Makefile"), f"build-{name}", f"ARTIFACTS_DIR={to}"],
                cwd=layer / "targets" / f"python{runtime()}" / machine,
                check=True,
            )
        yield made


class Cold:
    """Cold starts of the functions in `functions` over the layer in `layer`."""

    def __init__(self, layer: Path, functions: Path, python: str, services: Services) -> None:
        self.layer, self.functions, self.python, self.services = layer, functions, python, services
        self.variables: dict[str, str | None] = {}
        """Further variables of the functions' environment; None removes one."""

    def start(self, function: str, event: Mapping[str, Any]) -> tuple[Start, Any]:
        """One process: the import and the event; with the function's answer."""
        paths = json.dumps([str(self.functions / function), str(self.layer / "python")])
        ran = subprocess.run(
            [self.python, "-B", "-S", "-P", "-c", _CHILD, paths],
            input=json.dumps(event),
            env=self._environment(),
            capture_output=True,
            text=True,
        )
        if ran.returncode:
            raise RuntimeError(f"{function} did not start: {ran.stderr[-2000:]}")
        told = json.loads(ran.stdout.splitlines()[-1])
        (c0, w0), (c1, w1), (c2, w2) = told["marks"]
        taken = Start(1e3 * (c1 - c0), 1e3 * (w1 - w0), 1e3 * (c2 - c1), 1e3 * (w2 - w1), tuple(told["modules"]))
        return taken, told["answer"]

    def _environment(self) -> dict[str, str]:
        variables: dict[str, str | None] = {**environment(url_of(self.services)), **self.variables}
        return {name: value for name, value in variables.items() if value is not None}

    def round(self) -> dict[str, Start]:
        """Each function once: an execution is started, its step run, its end routed, as the services would pass it on."""
        self.services.sent.clear()
        self.services.tables.clear()
        taken: dict[str, Start] = {}
        taken["admit"], answer = self.start("admit", request("POST", "/api/executions", {"playbook": PLAYBOOK}))
        assert answer["statusCode"] == 202, answer
        (command,) = self.services.sent["commands"]
        taken["worker"], answer = self.start("worker", {"Records": [message(command)]})
        assert answer == {"batchItemFailures": []}, answer
        ended = [i for i in self.services.tables["events"].values() if "wake" in i and i["pk"]["S"].startswith("r#")]
        record = {"eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": {"NewImage": ended[-1]}}
        taken["router"], answer = self.start("router", {"Records": [record]})
        assert answer == {"batchItemFailures": []}, answer
        run_id, _, seq = ended[-1]["sk"]["S"].rpartition("#")
        ask = Ask("a", ended[-1]["pk"]["S"].split("#")[1], run_id, int(seq), 0, "w", "default", deadline=0, until=0)
        taken["ask"], answer = self.start("ask", encode_ask(ask))
        assert answer["command"] is None, "the router has routed the boundary"
        taken["sweeper"], _ = self.start("sweeper", {})
        taken["credentials"], answer = self.start("credentials", request("GET", "/api/credentials"))
        assert answer["statusCode"] == 200, answer
        taken["hooks"], answer = self.start("hooks", request("POST", "/api/hooks/bench/cold/webhook", {}))
        assert answer["statusCode"] == 401, answer
        return taken


def request(method: str, path: str, body: Any = None) -> dict[str, Any]:
    """A proxy event of API Gateway."""
    context = {"requestId": "g", "resourcePath": "/api/{proxy+}", "identity": {}}
    text = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    return {"httpMethod": method, "path": path, "requestContext": context, "headers": headers, "body": text}


def message(body: str) -> dict[str, Any]:
    """A message of SQS as Lambda hands it to a function."""
    return {
        "messageId": "m",
        "receiptHandle": "h",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:commands",
    }


def environment(endpoint: str) -> dict[str, str]:
    """The environment of a function."""
    queues = f"{endpoint}/000000000000"
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "EVENTS_TABLE": "events",
        "CATALOG_TABLE": "catalog",
        "RESULTS_BUCKET": "results",
        "COMMAND_QUEUES": json.dumps({"default": f"{queues}/commands"}),
        "CONTROL_QUEUE_URL": f"{queues}/control",
        "DEAD_LETTER_QUEUES": json.dumps([f"{queues}/dead"]),
        "INBOX_QUEUE_URL": f"{queues}/inbox",
        "CALLBACK_SECRET": "signing",
        "API_AUTH": "NONE",
        "LAMBDA_TASK_ROOT": "/var/task",
        "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        "POWERTOOLS_SERVICE_NAME": "noetl",
        "POWERTOOLS_METRICS_NAMESPACE": "NoETL",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }


def starts(layer: Path, functions: Path, python: str, times: int) -> dict[str, list[Start]]:
    """`times` cold starts of every function, in turns."""
    taken: dict[str, list[Start]] = {}
    with serving(Services()) as services:
        cold = Cold(layer, functions, python, services)
        for _ in range(times):
            for function, start in cold.round().items():
                taken.setdefault(function, []).append(start)
    return taken


def size_mb(layer: Path) -> float:
    """Megabytes of a layer's files, unzipped."""
    return sum(file.stat().st_size for file in layer.rglob("*") if file.is_file()) / 1e6


def figures(times: int) -> list[Figure]:
    """Return the figures of all functions. Raises `NotMeasured` without an interpreter of their version."""
    python = interpreter(runtime())
    with built() as (layer, package):
        both = Figure("layer and workers' package, unzipped", "MB", (size_mb(layer) + size_mb(package),), WORKER_MB)
        return [both, *_figures(starts(layer, ROOT / "functions", python, times), size_mb(layer))]


def _figures(taken: Mapping[str, list[Start]], layer_mb: float) -> list[Figure]:
    found = [Figure("layer, unzipped", "MB", (layer_mb,), BUDGET_MB)]
    for function, mine in taken.items():
        wall = statistics.median(s.import_wall for s in mine)
        event_wall = statistics.median(s.event_wall for s in mine)
        found += [
            Figure(
                f"{function}: import, processor", "ms", tuple(s.import_cpu for s in mine), BUDGET_MS, note=f"wall {wall:.0f} ms"
            ),
            Figure(
                f"{function}: first event, processor",
                "ms",
                tuple(s.event_cpu for s in mine),
                note=f"wall {event_wall:.0f} ms, {len(mine[0].modules)} modules",
            ),
        ]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", type=Path, help="a layer that is built, unzipped; else one is built")
    parser.add_argument("--functions", type=Path, default=ROOT / "functions", help="the folder of handlers")
    parser.add_argument("--python", help="the interpreter; else one of the functions' runtime on this machine")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    try:
        if options.layer is None:
            found = figures(options.times)
        else:
            python = options.python or interpreter(runtime())
            found = _figures(starts(options.layer, options.functions, python, options.times), size_mb(options.layer))
    except NotMeasured as reason:
        sys.exit(f"cold starts are not measured: {reason}")
    print_table("Cold starts", found)
