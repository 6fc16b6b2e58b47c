"""Explains executions: `why`, `diff` (over `visits` of steps), `timelines`, `cost`, and `replay`, which repeats every decision.
`past_runs` forecasts the next execution of a playbook from its past ones.

`answers` has the views that read a complete log, `past_answers` the outcomes of earlier answers to a question. Nothing here
decides for an execution.
"""
