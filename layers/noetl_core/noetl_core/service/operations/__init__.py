"""Answers requests of the API: a function for each request class, registered with `@RequestClass.answered`, by subject:
`service`, `catalog`, `executions`, `operating`, `callbacks`, `triggers`, `credentials` and `views`. `base.Operations` calls them;
it has a method for each, like the client over HTTP, and imports a request's module when the first one arrives. They do not use
HTTP. The caller's rights are checked before."""
