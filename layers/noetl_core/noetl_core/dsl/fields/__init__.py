"""Describes every mapping of the language as data: its fields, and their types.

`types` defines fields and blocks of fields, `playbook` has the root and the executor, `value_schema` the form of inputs, `flow`
steps, loops and routers, `cursor` the sources of cursor loops, `policies` the policy of tasks and admission, `shared_limits`
limits that executions share, `keychain` the credentials, `triggers` the triggers, `sources` their sources outside, `failures` the
handlers of failed executions, `tools` the keys of every task, `kind` the description of a tool kind, and `kinds` the inputs and
options of each.

`dsl.reading.reader` reads documents by these tables, `dsl.schema` generates the JSON Schema from them, `dsl.dump` leaves out
their defaults, and the tables of the language reference are generated from them. Nothing here reads a document: rules that
involve several fields are in the modules that read them.
"""
