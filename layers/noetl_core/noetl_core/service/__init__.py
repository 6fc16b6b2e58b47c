"""Answers the requests of the API, over `control` and `views`.

`operations` has a function for each request class, `answering` adds the rights of callers, `api_service` is that with all
operations, `batch` operates on many executions. No rule of execution is here.
`requested_versions` reads which version of a playbook a request names.
"""
