"""Executions and lists of them: `executions` has summaries and states, `listing` pages of heads, `statistics` counts. `activity`
divides those in progress into running, waiting and retrying.

`labels` filters by label, `shared_limits` shows places in limits, `waiting_callbacks` lists callbacks without an answer. Events
are not here (`history`).
"""
