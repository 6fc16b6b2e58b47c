"""Plans executions before they start (docs/looking.md, "Before it runs").

`forecast` computes the time and the cost of an execution as ranges, from its playbook and from past executions; `structure` has
the part that needs no past executions. `changes` compares two versions of a playbook as graphs. Pure: callers read playbooks and
logs. Of these modules, Lambda functions have `forecast` and `structure`.
"""
