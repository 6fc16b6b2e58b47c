"""Commands for authors of playbooks.

`new` writes a playbook from a template, `fmt` formats playbooks, `lsp` serves editors, `migrate` rewrites older dialects,
`imports` translates state machines of Step Functions. `author` has validate, schema and completion. `testing` runs tests,
`record` makes them of executions, `rehearse` (and bisect) plays executions again, `plan` forecasts times and costs, `simulate`
kills workers, `try_task` calls one task, and `dev` does several of these after each change. Commands that run or look at
executions are not here.
"""
