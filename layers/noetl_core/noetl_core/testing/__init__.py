"""Tests playbooks in this process, in memory and in virtual time, without touching the world (docs/testing.md).

* `play` runs one test: it wires the services of the local runner over a `clock` that jumps, a `runner` whose waits cost
  nothing, a `registry` that answers tasks by their names, and the `acts` of the world outside.
* `outcomes` are scripted answers of tasks, `shapes` refuses those that a kind of task cannot give.
* `match` compares what was seen with what a test expects.
* `simulation` kills the worker after each call of a tool, and finds the calls that are made twice.
* `recording` makes a test of an execution; `rehearsal` plays recorded executions with another version of their playbook.

Nothing here is loaded by `noetl run`, and no Lambda function has it.
"""
