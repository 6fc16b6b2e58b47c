"""A function for each request class, which says with `@RequestClass.answered` what it answers, by subject: `service`,
`catalog`, `executions`, `operating`, `callbacks`, `triggers`, `credentials` and `views`. `base.Operations` calls them; it has a
method for each, like the client over HTTP. `every` loads all of them.

They know no HTTP. The caller's rights are checked before.
"""
