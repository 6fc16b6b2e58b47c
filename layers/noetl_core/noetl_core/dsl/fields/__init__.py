"""Every mapping of the language as data: which fields it has, and what each of them is.

`types` says what a field and a block of fields are, `playbook` has the root and the executor, `flow` steps, loops and routers,
`policies` what stands under the policy of a task and under admission, `tools` the inputs and options of the tool kinds.

`dsl.reader` reads documents by these tables, `dsl.schema` makes the JSON Schema of them, `dsl.dump` leaves out what they say is
the default, and the tables of the language reference are generated from them. Nothing here reads a document: how fields go
together is said where they are read.
"""
