"""The language: YAML text -> the model of a playbook, and everything an author is told about it before running.

`load` reads YAML with positions; `parse` (with `steps`, `loops`, `tasks`, `policy`, `specs`, `sugar`, `variants`) makes the
`model`; `templates` and `references` check what the structure cannot; `diagnostics` says it; `kinds` knows what tools take;
`schema` and `dump` are made from the same tables. Pure. Nothing here knows how a playbook is executed.
"""
