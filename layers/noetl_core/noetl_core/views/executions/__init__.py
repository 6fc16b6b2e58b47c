"""Executions and lists of them: `executions` has summaries and states, `listing` pages of heads, `statistics` counts. `activity`
divides those in progress into running, waiting and retrying.

`labels` filters by label, `shared_limits` shows places in limits, `waiting_callbacks` lists callbacks without an answer, and
`past_answers` tells what earlier answers led to. Events are not here (`history`).
"""
