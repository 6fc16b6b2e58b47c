"""The HTTP client's connections: shared, checked, limited, and never given on half used."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from noetl_core.engine.outcome import Outcome
from noetl_core.tools import event_loop
from noetl_core.tools.base import ToolCall
from noetl_core.tools.event_loop import EventLoop, LoopTask
from noetl_core.tools.http import HttpTool
from noetl_core.tools.http_client import HttpClient, _Session, texts_of
from noetl_core.tools.invoke import invoke_evented
from noetl_core.tools.lookups import Resolver
from noetl_core.tools.net import AddressPolicy
from tests.servers import serving
from tests.work import calls_of

from .conftest import kind


class Server(ThreadingHTTPServer):
    """Answers once `together` requests are there at the same time; counts connections and what is there at once."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.barrier = threading.Barrier(1)
        self.connections = 0
        self.paths: Counter[str] = Counter()
        self.closes = False

    def together(self, many: int) -> None:
        self.barrier = threading.Barrier(many, timeout=20)

    def get_request(self) -> tuple[Any, Any]:
        self.connections += 1
        return super().get_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up, and waits that are broken off, are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.paths[self.path] += 1
        self.server.barrier.wait()
        body = b"x" * (100_000 if self.path == "/large" else 2)
        self.send_response(500 if self.path == "/large" else 200)
        if self.path == "/redirect":
            self.send_header("Location", "/elsewhere")
        if self.server.closes:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as server:
        yield server
        server.barrier.abort()


@pytest.fixture
def tool() -> Iterator[HttpTool]:
    tool = HttpTool(AddressPolicy(allow_private=True))
    yield tool
    tool.close()


def limited(tool: HttpTool, most: int) -> HttpClient:
    """The tool with a client of at most `most` connections."""
    tool._client = HttpClient(AddressPolicy(allow_private=True), most)
    return tool._client


def sockets(client: HttpClient) -> list[socket.socket]:
    """The open sockets of a client, on loops that no run uses."""
    kept = [loop.kept[client] for loop in event_loop._idle if client in loop.kept]
    return [sock for session in kept for sock in cast(_Session, session)._sockets if sock.fileno() >= 0]


def base(server: Server, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.server_port}"


def calls(tool: HttpTool, *urls: str, **spec: Any) -> list[Outcome]:
    """The outcomes of calls that are all begun before any is waited for, on this thread."""
    spec = {"retry": 1, **spec}
    with EventLoop() as loop:
        tasks = [loop.start(invoke_evented(tool, ToolCall("http", {"url": url}, spec, timeout_s=20), loop)) for url in urls]
        while loop:
            loop.turn(0.5)
    return [_outcome(task) for task in tasks]


def _outcome(task: LoopTask) -> Outcome:
    if task.error is not None:
        raise task.error
    outcome: Outcome = task.result
    return outcome


def kinds(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(map(kind, outcomes))


def test_a_hundred_calls_are_at_the_server_at_once_without_a_thread_and_their_connections_are_used_again(
    server: Server, tool: HttpTool
) -> None:
    started = list[str]()
    begin = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        if "process_request_thread" not in repr(thread):
            started.append(thread.name)
        begin(thread)

    server.together(100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", counted)
        for _ in range(2):
            assert kinds(calls(tool, *[base(server)] * 100)) == {"ok": 100}
    assert [name for name in started if "process_request" not in name] == []
    assert server.connections == 100


def test_the_work_of_a_call_does_not_grow_with_the_connections_that_are_open(server: Server, tool: HttpTool) -> None:
    def work(in_flight: int) -> float:
        server.together(in_flight)
        calls(tool, *[base(server)] * in_flight)
        return calls_of(lambda: [calls(tool, *[base(server)] * in_flight) for _ in range(100 // in_flight)]) / 100

    one, many = work(1), work(100)
    assert server.connections == 100
    assert many < 1.2 * one, f"{one:.0f} function calls for one at a time, {many:.0f} for each of a hundred"
    assert one < 1_000, f"{one:.0f} function calls"


def test_connections_serve_the_loops_of_other_threads(server: Server, tool: HttpTool) -> None:
    outcomes = calls(tool, base(server))
    thread = threading.Thread(target=lambda: outcomes.extend(calls(tool, base(server))))
    thread.start()
    thread.join()
    assert kinds(outcomes) == {"ok": 2} and server.connections == 1


def test_a_connection_that_the_server_closed_is_not_used_again(server: Server, tool: HttpTool) -> None:
    calls(tool, base(server))
    client = tool._client
    assert client is not None
    (idle,) = sockets(client)
    idle.shutdown(socket.SHUT_RD)  # as if the server had hung up meanwhile: the end can be read
    assert kinds(calls(tool, base(server))) == {"ok": 1}
    assert server.connections == 2
    server.closes = True
    calls(tool, base(server), base(server))
    assert kinds(calls(tool, base(server))) == {"ok": 1}


@pytest.mark.parametrize("path", ["/large", "/redirect"])
def test_a_connection_whose_answer_was_not_read_to_its_end_is_closed(server: Server, tool: HttpTool, path: str) -> None:
    first = calls(tool, base(server) + path, max_response_bytes=10)
    assert kind(first[0]) == ("server_error" if path == "/large" else "ok")
    outcome = calls(tool, base(server) + "/after")[0]
    assert outcome.result["data"] == "xx"


def test_no_more_connections_than_the_limit_and_whoever_waits_gets_one(server: Server, tool: HttpTool) -> None:
    limited(tool, 3)
    server.together(3)
    assert kinds(calls(tool, *[base(server)] * 30)) == {"ok": 30}
    assert server.connections == 3


def test_who_waits_too_long_for_a_connection_times_out_and_the_next_is_not_forgotten(server: Server, tool: HttpTool) -> None:
    limited(tool, 1)
    server.together(2)
    with EventLoop() as loop:

        def begin(pool: float) -> LoopTask:
            spec = {"retry": 1, "timeout": {"pool": pool}}
            return loop.start(invoke_evented(tool, ToolCall("http", {"url": base(server)}, spec, timeout_s=20), loop))

        first, impatient, patient = begin(10), begin(0.05), begin(10)
        while not impatient.done:
            loop.turn(0.5)
        late = _outcome(impatient)
        assert kind(late) == "timeout" and late.error is not None and late.error.code == "PoolTimeout"
        assert not first.done and not patient.done
        held = server.barrier
        server.together(1)
        held.wait()  # the first is answered
        while loop:
            loop.turn(0.5)
        assert kinds([_outcome(first), _outcome(patient)]) == {"ok": 2}
        assert server.connections == 1


def test_who_is_stopped_when_his_turn_has_come_lets_the_next_have_it(server: Server, tool: HttpTool) -> None:
    limited(tool, 1)
    with EventLoop() as loop:
        spec = {"retry": 1, "timeout": {"pool": 3}}
        first, second, third = (
            loop.start(invoke_evented(tool, ToolCall("http", {"url": base(server)}, spec, timeout_s=20), loop)) for _ in range(3)
        )
        while not first.done:
            loop.turn(0.5)
        loop.stop(second)  # woken, and not yet gone on
        while loop:
            loop.turn(0.5)
    assert [kind(_outcome(task)) for task in (first, second, third)] == ["ok", "cancelled", "ok"]


def test_at_the_limit_an_idle_connection_to_elsewhere_makes_room(server: Server, tool: HttpTool) -> None:
    client = limited(tool, 1)
    for host in ("127.0.0.1", "localhost", "127.0.0.1"):
        assert kinds(calls(tool, base(server, host))) == {"ok": 1}
    assert server.connections == 3 and len(sockets(client)) == 1


def test_a_connection_that_fails_leaves_its_place(server: Server, tool: HttpTool) -> None:
    client = limited(tool, 2)
    assert kinds(calls(tool, *["http://127.0.0.1:1/"] * 5)) == {"connection": 5}
    assert kinds(calls(tool, *["http://no-such-host.invalid/"] * 5)) == {"connection": 5}
    assert kinds(calls(tool, *["http://169.254.169.254/"] * 5)) == {"client_error": 5}
    assert not sockets(client)
    assert kinds(calls(tool, base(server))) == {"ok": 1}


def test_old_connections_are_closed_before_they_are_used(server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_core.tools.http_client.IDLE_S", 0.02)
    client = limited(tool, 5)
    server.together(2)
    calls(tool, base(server), base(server))
    time.sleep(0.05)
    server.together(1)
    calls(tool, base(server))
    assert server.connections == 3 and len(sockets(client)) == 1


def test_places_that_are_asked_once_are_not_remembered(server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    here = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.server_port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: here)
    client = limited(tool, 1)
    for n in range(6):
        assert kinds(calls(tool, base(server, f"place-{n}.test"))) == {"ok": 1}
    assert len(sockets(client)) <= 2


def test_a_name_is_looked_up_once_for_all_who_ask_at_the_same_time(
    server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, real = list[str](), threading.Event(), socket.getaddrinfo

    def slow(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        if host != "slow.test":
            return real(host, port, *args, **kwargs)
        asked.append(host)
        answer.wait(10)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    server.together(10)
    with EventLoop() as loop:
        urls = [base(server, "slow.test")] * 10
        tasks = [loop.start(invoke_evented(tool, ToolCall("http", {"url": url}, timeout_s=20), loop)) for url in urls]
        other = loop.start(invoke_evented(tool, ToolCall("http", {"url": "http://127.0.0.1:1/"}, {"retry": 1}), loop))
        while not other.done:
            loop.turn(0.5)
        assert kind(_outcome(other)) == "connection" and not any(task.done for task in tasks), "a lookup stops nobody else"
        answer.set()
        while loop:
            loop.turn(0.5)
    assert kinds([_outcome(task) for task in tasks]) == {"ok": 10}
    assert asked == ["slow.test"]


def test_a_lookup_that_does_not_end_is_a_timeout(tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: (release.wait(10), [])[1])
    outcome = calls(tool, "http://stuck.test/", timeout={"connect": 0.05})[0]
    release.set()
    assert kind(outcome) == "timeout" and outcome.error is not None and outcome.error.code == "ConnectTimeout"


def test_what_a_server_says_unasked_is_no_answer_to_the_next_call(server: Server, tool: HttpTool) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n%b"

    class Talks(Handler):
        def do_GET(self) -> None:
            self.wfile.write(answer % b"asked" + answer % b"extra")

    server.RequestHandlerClass = Talks
    assert [calls(tool, base(server))[0].result["data"] for _ in range(3)] == ["asked"] * 3


def test_what_a_server_says_to_an_idle_connection_is_no_answer_to_the_next_call(server: Server, tool: HttpTool) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n%b"
    said = threading.Event()

    class Talks(Handler):
        def do_GET(self) -> None:
            self.wfile.write(answer % b"asked")
            time.sleep(0.05)
            self.wfile.write(answer % b"extra")
            said.set()

    server.RequestHandlerClass = Talks
    for n in range(3):
        said.clear()
        assert calls(tool, base(server))[0].result["data"] == "asked"
        said.wait(10)
        assert server.connections == n + 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_a_request_that_gets_no_answer_is_sent_once(server: Server, tool: HttpTool, method: str) -> None:
    asked = list[str]()

    class HangsUp(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.close_connection = True

        do_PUT = do_POST = do_GET

    server.RequestHandlerClass = HangsUp
    call = ToolCall("http", {"url": base(server), "method": method}, {"retry": 1}, timeout_s=20)
    outcome = tool.run(call)
    assert kind(outcome) == "connection" and outcome.error is not None and outcome.error.code == "RemoteProtocolError"
    assert asked == ["/"]


def test_addresses_are_checked_where_sockets_are_made_also_when_the_resolver_lets_them_pass(
    server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unchecked(self: Resolver, host: str, port: int) -> list[str]:
        return ["169.254.169.254"]

    monkeypatch.setattr(Resolver, "addresses", unchecked)
    for host in ("name.test", "2852039166", "169.254.169.254.", "169.254.43518"):
        outcome = calls(tool, base(server, host))[0]
        assert outcome.error is not None and outcome.error.code == "address_refused", (host, outcome)


def test_a_name_that_has_a_refused_address_too_is_refused(
    server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "169.254.169.254")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: both)
    outcome = calls(tool, base(server, "both.test"))[0]
    assert outcome.error is not None and outcome.error.code == "address_refused" and not server.connections


def test_a_name_is_checked_again_for_each_connection(server: Server, tool: HttpTool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["127.0.0.1"]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *args, **kwargs: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found[0], 0))]
    )
    server.closes = True
    assert kinds(calls(tool, base(server, "moves.test"))) == {"ok": 1}
    found[0] = "169.254.169.254"
    outcome = calls(tool, base(server, "moves.test"))[0]
    assert outcome.error is not None and outcome.error.code == "address_refused" and server.connections == 1


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "[fe80::1]", "[::ffff:a9fe:a9fe]"],
)
def test_a_redirect_to_an_address_that_is_refused_is_not_followed(server: Server, tool: HttpTool, host: str) -> None:
    class Elsewhere(Handler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"http://{host}/")
            self.send_header("Content-Length", "0")
            self.end_headers()

    server.RequestHandlerClass = Elsewhere
    for url in (base(server), f"http://{host}/"):
        outcome = calls(tool, url)[0]
        assert outcome.error is not None and outcome.error.code == "address_refused", (url, outcome)


@pytest.mark.parametrize("place", ["ftp://127.0.0.1/", "http:///nowhere", "http://[::1", "//"])
def test_a_redirect_to_what_is_no_place_is_an_error(server: Server, tool: HttpTool, place: str) -> None:
    class Elsewhere(Handler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", place)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server.RequestHandlerClass = Elsewhere
    outcome = calls(tool, base(server), max_redirects=1)[0]
    assert kind(outcome) in ("client_error", "connection"), outcome


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        pytest.param([(b"A", b"1"), (b"a", b"2")], {"a": "1, 2"}, id="twice"),
        pytest.param([(b"A", "ü".encode())], {"a": "ü"}, id="UTF-8"),
        pytest.param([(b"A", b"\xfc"), (b"B", b"x")], {"a": "ü", "b": "x"}, id="Latin-1"),
    ],
)
def test_headers_are_text(raw: list[tuple[bytes, bytes]], texts: dict[str, str]) -> None:
    assert texts_of(raw) == texts


# --- TLS ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(built.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server()
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server) as server:
        yield server
        server.barrier.abort()


def test_a_server_that_cannot_be_verified_is_not_asked_unless_the_author_says_so(secure: Server, tool: HttpTool) -> None:
    url = f"https://127.0.0.1:{secure.server_port}/"
    refused = calls(tool, url)[0]
    assert kind(refused) == "connection" and refused.error is not None and "CERTIFICATE_VERIFY_FAILED" in refused.error.message
    assert not secure.paths
    secure.together(20)
    assert kinds(calls(tool, *[url] * 20, verify=False)) == {"ok": 20}
    assert kinds(calls(tool, url)) == {"connection": 1}, "a connection that was not verified serves nobody who wants it verified"


def test_what_is_trusted_is_verified_and_large_answers_come_whole(
    secure: Server, tool: HttpTool, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    url = f"https://127.0.0.1:{secure.server_port}/large"
    for _ in range(2):
        outcomes = calls(tool, *[url] * 5, ok_statuses=[500], response="text")
        assert [len(outcome.result["data"]) for outcome in outcomes] == [100_000] * 5


def test_a_server_that_does_not_shake_hands_is_a_timeout(tool: HttpTool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = calls(tool, f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout={"connect": 0.1})[0]
    assert kind(outcome) == "timeout" and outcome.error is not None and outcome.error.code == "ConnectTimeout"
