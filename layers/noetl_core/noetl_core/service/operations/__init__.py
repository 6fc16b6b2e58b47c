"""Answers requests of the API: a function for each request class, registered with `@RequestClass.answered`, by subject:
`service`, `catalog`, `executions`, `operating`, `callbacks`, `triggers`, `credentials` and `views`. `base.Operations` calls them;
it has a method for each, like the client over HTTP. `every` loads all of them. They do not use HTTP. The caller's rights are
checked before."""
