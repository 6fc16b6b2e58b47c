"""States each operation of the API once, as a request class, and serves it.

* `requests` are the operations, by subject; `request` is their base, `fields` describes the values of fields and their places in
  an HTTP request. `shapes` are the types of the answers, `rights` the rights that operations need.
* `client` sends requests over HTTP (`authorization`, `errors`). `service.operations` answers them in this process.
* `app` is the API behind API Gateway: it routes, `callers` determines rights, and `reading` parses a request from a proxy event,
  with `models` of JSON bodies. `refused` are the errors of malformed requests.
* `document` generates the OpenAPI document from the same classes (`webhook_document` is the part of another function), `page`
  shows it to people. `question_page` shows the question of a callback to the person who opens its link.

No module here uses a service or an adapter.
"""
