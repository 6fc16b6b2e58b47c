"""The API: each operation is stated once, as a request class.

* `requests` are the operations, by subject; `request` is their base, `fields` says what a field may be and where it stands in an
  HTTP request. `shapes` are the types of the answers, `rights` what callers may need.
* `client` sends requests over HTTP (`authorization`, `errors`). `service.operations` answers them in this process.
* `app` is the API behind API Gateway: it routes, `callers` says who asks, and `reading` reads a request from a proxy event, with
  `models` of JSON bodies. `refused` are the errors of malformed requests.
* `document` makes the OpenAPI document from the same classes (`webhook_document` is the part of another function), `page` shows
  it to people.

No module here knows a service or an adapter.
"""
