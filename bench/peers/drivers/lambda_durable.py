"""A Lambda durable function on the emulated AWS that the command line names, with the SDK's packages out of the folder behind it.

Every execution is an invocation that is waited for, because the emulator ends none that was invoked asynchronously. So for the
client that all sides have in common, starting one is all of it. The seconds of an execution alone are those of the request.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Any

from emulator import by_client, client, function
from protocol import Ask, expect, serve

ENDPOINT, PACKAGES = sys.argv[1], Path(sys.argv[2])
AT_ONCE = 16
"""Executions at once: each is a process of the emulator."""
SDK = "aws_durable_execution_sdk_python"


def source() -> str:
    """The handler of the local runner's side: the same text, without its runner."""
    text = (Path(__file__).parent / "aws_durable_side.py").read_text()
    head, _, rest = text.partition("# the functions\n")
    assert rest, "the functions' mark"
    imports = "\n".join(
        line
        for line in head.splitlines()
        if line.startswith(("from __future__", "import ", "from urllib", f"from {SDK} ", f"from {SDK}.config"))
    )
    return imports + "\n" + rest.partition("# end of the functions\n")[0]


def enable(params: Any, **_: Any) -> None:
    """The emulator wants a key that AWS does not have, and that boto3 therefore does not send."""
    body = json.loads(params["body"])
    params["body"] = json.dumps(body | {"DurableConfig": {**body["DurableConfig"], "Enabled": True}}).encode()


def main() -> None:
    lambdas = client("lambda", ENDPOINT)
    name = f"peers-durable-{uuid.uuid4().hex[:8]}"
    lambdas.meta.events.register("before-call.lambda.CreateFunction", enable)
    durable = {"ExecutionTimeout": 300, "RetentionPeriodInDays": 1}
    function(lambdas, name, source(), PACKAGES / SDK, DurableConfig=durable)
    lambdas.get_waiter("function_active_v2").wait(FunctionName=name)

    def invoke(event: Ask) -> Any:
        answer = lambdas.invoke(FunctionName=name, Qualifier="$LATEST", Payload=json.dumps(dict(event)))
        reply = json.loads(answer["Payload"].read())
        if "FunctionError" in answer or (isinstance(reply, dict) and reply.get("Status") != "SUCCEEDED"):
            raise RuntimeError(str(reply)[:400])
        return json.loads(reply["Result"]) if isinstance(reply, dict) else reply

    def timed(ask: Ask, wanted: int) -> float:
        began = time.perf_counter()
        expect(invoke(ask), wanted)
        return time.perf_counter() - began

    def executions(ask: Ask, count: int) -> float:
        event = {"case": "chain", "steps": ask["steps"]}
        seconds, ended = by_client(
            lambda: str(invoke(event)), lambda result: {"status": "ended", "result": result}, "", count, AT_ONCE
        )
        expect({int(one["result"]) for one in ended}, {ask["steps"] - 1})
        return seconds

    timed({"case": "chain", "steps": 1}, 0)
    sdk = next(PACKAGES.glob(f"{SDK}-*.dist-info")).name.removesuffix(".dist-info").partition("-")[2]
    serve(
        {"version": f"MiniStack {version('ministack')}, SDK {sdk}"},
        {
            "chain": lambda ask: timed(ask, ask["steps"] - 1),
            "python": lambda ask: timed(ask, 2 * (ask["steps"] - 1)),
            "map": lambda ask: timed(ask, ask["items"] * (ask["items"] - 1)),
            "each": lambda ask: timed(ask, ask["items"] * (ask["items"] - 1)),
            "http": lambda ask: timed(ask, ask["items"] * (ask["items"] - 1) // 2),
            "client": lambda ask: executions(ask, 1),
            "executions": lambda ask: executions(ask, ask["executions"]),
        },
    )


if __name__ == "__main__":
    main()
