"""`kind: http`: one request, one response. `tool` is the entry.

* `request` builds the request, with `auth`, `content` and `options`. `exchange` sends it by the `client`, follows `redirects`,
  and reads the `body`, which `storing` stores; `errors` translates exceptions, `statuses` has the error kinds of statuses.
* `access_tokens` requests and renews OAuth tokens (`token_request`), `execution_tokens` those of one execution. A package `oauth`
  would import this one, for its requests, and be imported by it, for its tokens.

Other kinds that call services use it; none has a client of its own.
"""
