"""Every mapping of the language as data: its fields, and what each of them is.

`types` defines fields and blocks of fields, `playbook` has the root and the executor, `value_schema` the form of inputs, `flow`
steps, loops and routers, `cursor` what loops claim, `policies` the policy of tasks and admission, `shared_limits` what executions
share, `keychain` the credentials, `triggers` what starts a playbook, `sources` what comes from outside for it, `failures` who is
told of a failed execution, `tools` what every task may say, `kind` what describes a tool kind, and `kinds` the inputs and
options of each.

`dsl.reading.reader` reads documents by these tables, `dsl.schema` generates the JSON Schema from them, `dsl.dump` leaves out
their defaults, and the tables of the language reference are generated from them. Nothing here reads a document: rules that
involve several fields are in the modules that read them.
"""
