"""Step Functions on the emulated AWS that the command line names: Pass states for nothing, functions for what is done.

A single execution's seconds are its history's own, from the first state entered: the emulator pauses for 0.15 s before it.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from emulator import ROLE, by_client, client, function
from protocol import Ask, expect, serve

ENDPOINT = sys.argv[1]
RESOLUTION_S = 0.001
"""Resolution of the emulator's times, in seconds. Shorter durations are reported as this."""
FUNCTIONS = {
    "double": "def handler(event, context):\n    return event['n'] * 2\n",
    "call": """
import http.client, json
from urllib.parse import urlsplit

kept = {}

def handler(event, context):
    url = urlsplit(event["url"])
    place = url.netloc
    if place not in kept:
        kept[place] = http.client.HTTPConnection(place, timeout=30)
    kept[place].request("GET", f"{url.path}/{event['n']}")
    return json.loads(kept[place].getresponse().read())["n"]
""",
}


class Machines:
    """State machines and functions, created when they are first needed."""

    def __init__(self) -> None:
        self.states = client("stepfunctions", ENDPOINT)
        self.lambdas = client("lambda", ENDPOINT)
        self.made: dict[str, str] = {}
        self.mark = uuid.uuid4().hex[:8]

    def function(self, name: str) -> str:
        if name not in self.made:
            self.made[name] = function(self.lambdas, f"peers-{name}-{self.mark}", FUNCTIONS[name])
        return self.made[name]

    def machine(self, name: str, first: str, states: Mapping[str, Any]) -> str:
        if name not in self.made:
            definition = json.dumps({"StartAt": first, "States": states})
            created = self.states.create_state_machine(name=f"{name}-{self.mark}", definition=definition, roleArn=ROLE)
            self.made[name] = created["stateMachineArn"]
        return self.made[name]

    def chain(self, steps: int, state: Mapping[str, Any], name: str) -> str:
        states = {}
        for n in range(steps):
            then = {"Next": f"s{n + 1}"} if n + 1 < steps else {"End": True}
            states[f"s{n}"] = {**state, **({"Parameters": {"n": n}} if "Resource" in state else {}), **then}
        return self.machine(f"{name}{steps}", "s0", states)

    def map(self, item: Mapping[str, Any], in_flight: int, name: str) -> str:
        processor = {"StartAt": "item", "States": {"item": {**item, "End": True}}}
        over = {"Type": "Map", "ItemsPath": "$", "MaxConcurrency": in_flight, "ItemProcessor": processor, "End": True}
        return self.machine(name, "map", {"map": over})

    def run(self, machine: str, payload: object, executions: int = 1) -> tuple[float, list[Mapping[str, Any]]]:
        """Wall seconds, and what each execution came to."""
        text = json.dumps(payload)
        seconds, ended = by_client(
            lambda: str(self.states.start_execution(stateMachineArn=machine, input=text)["executionArn"]),
            lambda one: self.states.describe_execution(executionArn=one),
            "RUNNING",
            executions,
        )
        expect({one["status"] for one in ended}, {"SUCCEEDED"})
        return seconds, ended

    def alone(self, machine: str, payload: object) -> tuple[float, Any]:
        _, (execution,) = self.run(machine, payload)
        arn = execution["executionArn"]
        first = self.states.get_execution_history(executionArn=arn, maxResults=5)["events"]
        began = next(event["timestamp"] for event in first if event["type"].endswith("StateEntered"))
        return max((execution["stopDate"] - began).total_seconds(), RESOLUTION_S), json.loads(execution["output"])


def main() -> None:
    machines = Machines()

    def chain(ask: Ask) -> float:
        return machines.alone(machines.chain(ask["steps"], {"Type": "Pass"}, "chain"), {})[0]

    def python(ask: Ask) -> float:
        task = {"Type": "Task", "Resource": machines.function("double")}
        seconds, last = machines.alone(machines.chain(ask["steps"], task, "python"), {})
        expect(last, 2 * (ask["steps"] - 1))
        return seconds

    def items(ask: Ask) -> float:
        seconds, found = machines.alone(machines.map({"Type": "Pass"}, ask["in_flight"], "map"), list(range(ask["items"])))
        expect(sum(found), ask["items"] * (ask["items"] - 1) // 2)
        return seconds

    def calls(ask: Ask) -> float:
        task = {"Type": "Task", "Resource": machines.function("call"), "Parameters": {"url": ask["url"], "n.$": "$"}}
        seconds, found = machines.alone(machines.map(task, ask["in_flight"], "http"), list(range(ask["items"])))
        expect(sum(found), ask["items"] * (ask["items"] - 1) // 2)
        return seconds

    def seen(ask: Ask) -> float:
        return machines.run(machines.chain(ask["steps"], {"Type": "Pass"}, "chain"), {})[0]

    def executions(ask: Ask) -> float:
        return machines.run(machines.chain(ask["steps"], {"Type": "Pass"}, "chain"), {}, ask["executions"])[0]

    about = {"version": f"MiniStack {version('ministack')}"}
    serve(
        about,
        {"chain": chain, "client": seen, "python": python, "map": items, "each": items, "http": calls, "executions": executions},
    )


if __name__ == "__main__":
    main()
