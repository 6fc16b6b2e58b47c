"""Addresses that the http tool dials: judged as dialled, whatever the spelling."""

from __future__ import annotations

import ipaddress
import random
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from noetl_core.engine.outcome import Outcome
from noetl_core.tools.base import ToolCall
from noetl_core.tools.http.tool import HttpTool
from noetl_core.tools.invoke import invoke
from noetl_core.tools.network.addresses import NAT64, TUNNELS, Address, AddressPolicy, AddressRefused, resolve
from noetl_core.tools.sandbox.addresses import is_own
from tests.fake_dns import resolve as resolve_names

from .conftest import Server

ALWAYS_REFUSED = [
    "169.254.169.254", "169.254.170.2", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254", "224.0.0.1", "ff02::1", "240.0.0.1", "255.255.255.255",
    "0.0.0.0", "0.0.0.7", "::", "::ffff:0.0.0.0", "64:ff9b::", "2002::1", "::ffff:0:0:0",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1",
    "127.255.0.1",
    "::1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "fd12::1",
    "100.64.0.1",
    "::ffff:10.0.0.1",
]
PUBLIC = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "8.8.8.8"]


@pytest.mark.parametrize("address", ALWAYS_REFUSED)
def test_metadata_and_link_local_addresses_are_refused_whatever_is_allowed(address: str) -> None:
    for policy in (
        AddressPolicy(),
        AddressPolicy(allow_private=True),
        AddressPolicy(allowed=(ipaddress.ip_network("0.0.0.0/0"),)),
    ):
        with pytest.raises(AddressRefused):
            policy.check(ipaddress.ip_address(address), 80)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_permission(address: str) -> None:
    with pytest.raises(AddressRefused, match="NOETL_HTTP_ALLOW_PRIVATE"):
        AddressPolicy().check(ipaddress.ip_address(address), 80)
    AddressPolicy(allow_private=True).check(ipaddress.ip_address(address), 80)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    AddressPolicy().check(ipaddress.ip_address(address), 443)


def around(networks: Iterable[str]) -> list[Address]:
    """The first and the last address of each network, and their neighbours."""
    found: list[Address] = []
    for text in networks:
        network = ipaddress.ip_network(text)
        first, last = int(network.network_address), int(network.broadcast_address)
        most = (1 << network.max_prefixlen) - 1
        found += [ipaddress.ip_address(n) if network.version == 4 else ipaddress.IPv6Address(n)
                  for n in {max(0, first - 1), first, first + 1, last, min(most, last + 1)} if n <= most]  # fmt: skip
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "policy",
    [
        AddressPolicy(),
        AddressPolicy(allow_private=True),
        AddressPolicy(allowed=tuple(ipaddress.ip_network(n) for n in ("10.1.0.0/16", "fd12::/16", "127.0.0.8/31"))),
        AddressPolicy(allowed=(ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))),
        AddressPolicy(allow_private=True, refused_endpoints=frozenset({("127.0.0.1", 80), ("93.184.215.14", 80)})),
    ],
)
def test_the_rules_of_the_sandbox_allow_nothing_that_the_policy_refuses(policy: AddressPolicy) -> None:
    """And all that it allows, except tunnels to IPv4, and ranges that registries have reserved since a Python was released."""
    rules, choice = policy.as_rules(), random.Random(3)
    addresses: list[Address] = around(text for text, *_ in rules.rules)
    addresses += [ipaddress.IPv4Address(choice.getrandbits(32)) for _ in range(3000)]
    for _ in range(3000):
        prefix = choice.choice([0x2000, 0x2001, 0x2002, 0xFC00, 0xFD12, 0xFE80, 0xFF02, choice.getrandbits(16)]) << 112
        addresses.append(ipaddress.IPv6Address(prefix | choice.getrandbits(choice.choice([16, 64, 112]))))
    addresses += [ipaddress.IPv6Address(int(NAT64.network_address) | choice.getrandbits(32)) for _ in range(1000)]
    addresses += [ipaddress.ip_address(text) for text in (*ALWAYS_REFUSED, *PRIVATE, *PUBLIC)]
    except_for = [ipaddress.ip_network(n) for n in (*TUNNELS, "2001::/23", "3fff::/20", "192.0.0.0/24")]
    counts = {"allowed": 0, "refused": 0}
    for address in addresses:
        reached = getattr(address, "ipv4_mapped", None) or address
        allowed = rules.reason(reached, 80) is None
        try:
            policy.check(address, 80)
        except AddressRefused as refusal:
            assert not allowed, (address, str(refusal))
        else:
            known = any(reached in network for network in except_for if network.version == reached.version)
            assert allowed or known or is_own(reached), address
        counts["allowed" if allowed else "refused"] += 1
    assert min(counts.values()) > 1000


def test_name_servers_are_allowed_on_their_port_alone(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text(
        "# mine\nnameserver 169.254.78.1\nnameserver fe80::1%eth0\nnameserver nonsense\noptions edns0\nnameserver\n"
    )
    rules = AddressPolicy().as_rules().with_name_servers(str(tmp_path / "resolv.conf"))
    for address in ("169.254.78.1", "fe80::1"):
        assert rules.why_refused(address, 53) is None
        assert "link-local" in str(rules.why_refused(address, 80))
    assert "link-local" in str(rules.why_refused("169.254.78.2", 53))
    assert AddressPolicy().as_rules().with_name_servers(str(tmp_path / "none")).rules == AddressPolicy().as_rules().rules


def test_single_networks_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "10.1.0.0/16, fd12::/16")
    policy = AddressPolicy.from_environment()
    policy.check(ipaddress.ip_address("10.1.2.3"), 80)
    policy.check(ipaddress.ip_address("fd12::5"), 80)
    for refused in ("10.2.0.1", "127.0.0.1"):
        with pytest.raises(AddressRefused):
            policy.check(ipaddress.ip_address(refused), 80)


@pytest.mark.parametrize("setting", ["true", "10.0.0.1/8", "localhost"])
def test_an_invalid_allow_private_setting_lists_the_valid_values(
    monkeypatch: pytest.MonkeyPatch, server: Server, setting: str
) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", setting)
    error = invoke(HttpTool(), ToolCall("http", {"url": f"{server.base}/echo"})).error
    assert error is not None and (error.kind, error.retryable) == ("schema", False)
    assert (
        f"NOETL_HTTP_ALLOW_PRIVATE is '{setting}'" in error.message
        and "write 1 (all private addresses), 0 (none)" in error.message
    )


def test_the_runtime_api_is_refused_even_where_loopback_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "1")
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    policy = AddressPolicy.from_environment()
    assert resolve("127.0.0.1", 9002, policy) == ["127.0.0.1"]
    for spelled in ("127.0.0.1", "2130706433", "0x7f.1", "localhost"):
        with pytest.raises(AddressRefused):
            resolve(spelled, 9001, policy)


def test_the_runtime_apis_port_is_refused_on_every_address_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW_PRIVATE", "1")
    monkeypatch.setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")
    policy = AddressPolicy.from_environment()
    for spelled in ("127.0.0.2", "127.255.0.1", "::1", "::ffff:127.0.0.9", "0x7f.2"):
        with pytest.raises(AddressRefused):
            resolve(spelled, 9001, policy)
    own = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in own:
        with pytest.raises(AddressRefused):
            resolve(str(address), 9001, policy)
    assert resolve("10.11.12.13", 9001, policy) == ["10.11.12.13"]  # another machine's is its own affair


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "0x0", "[::]", "[::ffff:0.0.0.0]", "[::ffff:0:0]", "0.0"])
def test_no_spelling_of_the_unspecified_address_reaches_this_machine(server: Server, host: str) -> None:
    for url in (f"http://{host}:{server.server_port}/echo", f"{server.base}/redirect?to=http://{host}:{server.server_port}/echo"):
        outcome = call(url, allow=True)
        assert outcome.error is not None and outcome.error.code == "address_refused"
    assert [path for _, path, _, _ in server.requests if path.startswith("/echo")] == []


@pytest.mark.parametrize(
    "host",
    ["169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "[::ffff:169.254.169.254]",
     "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "169.254.169.254.", "①⑥⑨.254.169.254"],
)  # fmt: skip
def test_no_spelling_of_the_metadata_address_is_dialled(host: str) -> None:
    outcome = call(f"http://{host}/latest/meta-data/", allow=True)
    assert outcome.error is not None and outcome.error.kind in ("client_error", "connection", "schema")
    assert outcome.error.kind != "client_error" or outcome.error.code == "address_refused"


def call(url: str, *, allow: bool, **spec: object) -> Outcome:
    tool = HttpTool(AddressPolicy(allow_private=allow))
    try:
        return invoke(tool, ToolCall("http", {"url": url}, spec=spec, timeout_s=5))
    finally:
        tool.close()


def test_loopback_is_refused_by_default(server: Server) -> None:
    outcome = call(server.base + "/echo", allow=False)
    assert outcome.error is not None and outcome.error.code == "address_refused" and not server.requests


def test_a_redirect_to_a_refused_address_is_not_followed(server: Server) -> None:
    outcome = call(f"{server.base}/redirect?to=http://169.254.169.254/latest/", allow=True)
    assert outcome.error is not None and outcome.error.code == "address_refused"


def test_a_name_that_changes_its_address_between_check_and_dial_gains_nothing(
    monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    asked: list[str] = []

    def rebinding(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    resolve_names(monkeypatch, rebinding)
    outcome = call(f"http://rebind.test:{server.server_port}/echo", allow=True)
    assert outcome.status == "ok" and asked == ["rebind.test"]  # resolved once; what was checked is what was dialled


def test_a_name_with_one_refused_address_is_refused(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    resolve_names(monkeypatch, lambda host: ["127.0.0.1", "169.254.169.254"])
    outcome = call(f"http://mixed.test:{server.server_port}/echo", allow=True)
    assert outcome.error is not None and outcome.error.code == "address_refused" and not server.requests


def test_a_dead_address_falls_back_to_the_next(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    resolve_names(monkeypatch, lambda host: ["127.0.0.2", "127.0.0.1"])
    assert call(f"http://two.test:{server.server_port}/echo", allow=True).status == "ok"


def test_proxy_settings_of_the_environment_are_not_obeyed(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert call(server.base + "/echo", allow=True).status == "ok"
