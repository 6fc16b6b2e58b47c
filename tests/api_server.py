"""The API of this process as a WSGI application, and on a port: what API Gateway is between HTTP and a function, as far as it matters."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote
from wsgiref.simple_server import WSGIRequestHandler, make_server

from noetl_core.api.app import Api
from tests.api_requests import Context, alone
from tests.servers import serving, url_of


def wsgi(api: Api) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Requests to `api` as proxy events, its proxy responses as answers."""

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        try:
            body, encoded = raw.decode(), False
        except UnicodeDecodeError:
            body, encoded = b64encode(raw).decode(), True
        headers = {k[5:].replace("_", "-").title(): v for k, v in environ.items() if k.startswith("HTTP_")}
        headers["Content-Type"] = environ.get("CONTENT_TYPE", "")
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        path = quote(environ["PATH_INFO"].encode("latin-1"), safe="/:@!$&'()*+,;=~")
        event = {
            "httpMethod": environ["REQUEST_METHOD"],
            "path": path,
            "headers": headers,
            "queryStringParameters": query or None,
            "requestContext": {"requestId": "gateway-1"},
            "body": body or None,
            "isBase64Encoded": encoded,
        }
        with alone:
            answer = api.resolve(event, Context())
        status = HTTPStatus(answer["statusCode"])
        response_headers = [(name, value) for name, values in answer["multiValueHeaders"].items() for value in values]
        start_response(f"{status.value} {status.phrase}", response_headers)
        return [answer["body"].encode()]

    return application


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(api: Api) -> Iterator[str]:
    """The address of the API on this machine, before `/api`."""
    with serving(make_server("127.0.0.1", 0, wsgi(api), handler_class=_Silent)) as server:
        yield url_of(server)
