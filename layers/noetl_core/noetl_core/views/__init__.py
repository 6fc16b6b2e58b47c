"""Reads executions; nothing here writes.

* `executions` reads executions and lists of them, `history` their events, `steps` their steps and iterations; `explain` computes
causes, differences, durations and costs.
* `changes` returns what changed since a cursor.
* `reading` finds places in logs of any length.

Pure computations over events are in `observe`.
"""
