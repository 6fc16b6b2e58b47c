"""The gateway of template.yaml with `Console: "yes"`, as far as the console's pages ask it: the integrations of its definition, carried out
here as API Gateway documents them; and the user pool that signs people in. MiniStack carries out no integration with S3."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from botocore.exceptions import ClientError

from noetl_console.answering import Answered, Asked
from tests.servers import Handler
from tests.unit.infra.translated import of_type

STAGE = "/v1"
POOL = "arn:aws:cognito-idp:us-east-1:123456789012:userpool/us-east-1_abc"


def token(**claims: Any) -> str:
    """An access token; nobody has signed it."""
    payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


class Gateway(ThreadingHTTPServer):
    """Serves `/v1/console` as the template says from the objects of a bucket, and hands `/v1/api` on with whom a token names."""

    daemon_threads = True

    def __init__(
        self, s3: Any, bucket: str, ask: Callable[[Asked, Mapping[str, Any] | None], Answered], **parameters: str
    ) -> None:
        super().__init__(("127.0.0.1", 0), _AtTheGateway)
        self.s3, self.bucket, self.ask = s3, bucket, ask
        self.asked: list[str] = []
        self.accepted: dict[str, Mapping[str, Any]] = {}
        """Tokens that are taken, with their claims."""
        (api,) = of_type("AWS::ApiGateway::RestApi", Console="yes", **parameters).values()
        self.paths = {path: methods["get"] for path, methods in api["Body"]["paths"].items() if path.startswith("/console/")}
        self.needs_token = parameters.get("ApiAuth") == "JWT"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{STAGE}/console/index.html"


class _AtTheGateway(Handler):
    server: Gateway
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._route()

    def do_POST(self) -> None:
        self._route()

    def _route(self) -> None:
        url = urlsplit(self.path)
        self.server.asked.append(url.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = url.path.removeprefix(STAGE)
        if path.startswith("/api/"):
            self._call(Asked(self.command, path, url.query, dict(self.headers), body))
        elif path in self.server.paths:
            self._mock(self.server.paths[path]["x-amazon-apigateway-integration"])
        else:
            self._file(self.server.paths["/console/{proxy+}"], path.removeprefix("/console/"))

    def _call(self, asked: Asked) -> None:
        claims = self.server.accepted.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        if self.server.needs_token and claims is None:
            self._say(401, b'{"error": {"code": "unauthorized", "message": "Unauthorized", "details": [], "request_id": ""}}')
            return
        answered = self.server.ask(asked, claims)
        self._say(answered.status, answered.body, answered.headers)

    def _mock(self, integration: Mapping[str, Any]) -> None:
        response = integration["responses"]["default"]
        self._say(
            int(response["statusCode"]), response["responseTemplates"]["application/json"].encode(), self._headers(response, {})
        )

    def _file(self, operation: Mapping[str, Any], proxy: str) -> None:
        integration = operation["x-amazon-apigateway-integration"]
        place = integration["uri"].partition(":s3:path/")[2].replace("${ConsoleBucket}", self.server.bucket)
        bucket, _, key = place.replace("{proxy}", proxy).partition("/")
        known = self.headers.get("If-None-Match")
        try:
            found = self.server.s3.get_object(Bucket=bucket, Key=key, **({"IfNoneMatch": known} if known else {}))
            status, received_headers, body = "200", found["ResponseMetadata"]["HTTPHeaders"], found["Body"].read()
        except ClientError as error:
            status, received_headers, body = (
                str(error.response["ResponseMetadata"]["HTTPStatusCode"]),
                {"etag": known or ""},
                b"<Error/>",
            )
        response = integration["responses"].get(status, integration["responses"]["default"])
        if "responseTemplates" in response:
            body = response["responseTemplates"]["application/xml"].encode()
        headers = self._headers(response, received_headers)
        declared = operation["responses"][response["statusCode"]]["headers"]
        assert set(headers) <= set(declared), "a method answers with the headers that it declares"
        self._say(int(response["statusCode"]), b"" if status == "304" else body, headers)

    def _headers(self, response: Mapping[str, Any], received_headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that `responseParameters` add to an answer."""
        made = {}
        for name, value in response.get("responseParameters", {}).items():
            fixed = re.fullmatch(r"'(.*)'", value)
            made[name.removeprefix("method.response.header.")] = (
                fixed[1] if fixed else received_headers.get(value.removeprefix("integration.response.header.").lower(), "")
            )
        return made

    def _say(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@dataclass
class People:
    """A fake user pool: its settings, and the requests that it received."""

    client_id: str = "pages"
    says: str = "code"
    """The answer to a sign-in: `code`, or an error."""
    tokens: list[str] = field(default_factory=list)
    """Handed out one after the other."""
    grants: list[str] = field(default_factory=list)
    challenges: dict[str, str] = field(default_factory=dict)
    left: int = 0


class Pool(ThreadingHTTPServer):
    """The page of a user pool where somebody signs in at once, and its token endpoint."""

    daemon_threads = True

    def __init__(self, people: People) -> None:
        super().__init__(("127.0.0.1", 0), _AtThePool)
        self.people = people


class _AtThePool(Handler):
    server: Pool

    def do_GET(self) -> None:
        people, url = self.server.people, urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert query["client_id"] == people.client_id
        if url.path == "/logout":
            people.left += 1
            self.say(302, Location=query["logout_uri"])
            return
        assert url.path == "/oauth2/authorize"
        assert (query["response_type"], query["scope"], query["code_challenge_method"]) == ("code", "noetl/groups", "S256")
        code = f"code-{len(people.challenges)}"
        people.challenges[code] = query["code_challenge"]
        told = {"code": code} if people.says == "code" else {"error": people.says, "error_description": "<b>not</b> today"}
        self.say(302, Location=f"{query['redirect_uri']}?{urlencode({**told, 'state': query['state']})}")

    def do_POST(self) -> None:
        people = self.server.people
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(sent).items()}
        people.grants.append(asked["grant_type"])
        if asked["grant_type"] == "authorization_code":
            digest = urlsafe_b64encode(sha256(asked["code_verifier"].encode()).digest()).decode().rstrip("=")
            proven = people.challenges.pop(asked["code"], None) == digest
        else:
            proven = asked["refresh_token"] == "refresh"
        tokens = {"access_token": people.tokens.pop(0), "refresh_token": "refresh"} if proven else {"error": "invalid_grant"}
        self.say(
            200 if proven else 400,
            json.dumps(tokens).encode(),
            Content_Type="application/json",
            Access_Control_Allow_Origin=self.headers["Origin"],
        )
