"""Reads executions; nothing here writes.

* `executions` reads executions and lists of them, `history` their events, `steps` their steps and iterations; `explain` answers
  why something happened, what differs, how long it took and what it costs.
* `changes` returns what changed since a cursor.
* `reading` finds places in logs of any length.

What is computed from events alone is pure and is in `observe`.
"""
