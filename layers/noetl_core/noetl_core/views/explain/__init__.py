"""Explains executions: `why`, `diff` (over `visits` of steps), `timelines`, `cost`, and `replay`, which repeats every decision.

`answers` has the views that read a complete log, `past_answers` the outcomes of earlier answers to a question. Nothing here
decides for an execution.
"""
