"""Signatures of webhooks: requests as GitHub, Stripe, Slack and others sign them, and those that nobody signed."""

from __future__ import annotations

import hmac
import json
from base64 import b64encode
from dataclasses import asdict
from typing import Any, Final

import pytest

from noetl_core.control.triggers.signatures import FORMS, Scheme, is_signed, scheme_of
from noetl_core.control.triggers.webhooks import challenge_of, delivery_id, event_of, short_id
from noetl_core.dsl.sources import FORMS as WORDS
from noetl_core.dsl.sources import SHOWN, Form, Webhook

NOW = 1_800_000_000
FORMS_OF_SENDERS: Final[tuple[Form, ...]] = ("github", "slack", "stripe")
SECRET = b"It's a Secret to Everybody"


def signature(content: bytes, secret: bytes = SECRET, algorithm: str = "sha256") -> str:
    return hmac.new(secret, content, algorithm).hexdigest()


def test_the_example_of_githubs_documentation() -> None:
    told = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_signed(FORMS["github"], {"x-hub-signature-256": told}, b"Hello, World!", [SECRET], NOW)
    assert not is_signed(FORMS["github"], {"x-hub-signature-256": told}, b"Hello, World?", [SECRET], NOW)


def test_the_example_of_slacks_documentation() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&"
        b"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F"
        b"commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        "x-slack-request-timestamp": "1531420618",
    }
    secret = b"8f742231b10e8888abcd99yyyzzz85a5"
    assert is_signed(FORMS["slack"], headers, body, [secret], 1531420618 + 300)
    assert not is_signed(FORMS["slack"], headers, body, [secret], 1531420618 + 301)
    assert not is_signed(FORMS["slack"], headers, body, [secret], 1531420618 - 301)


def stripe(body: bytes, at: int, *secrets: bytes, more: str = "") -> dict[str, str]:
    signed = [f"v1={signature(b'%d.' % at + body, secret)}" for secret in secrets]
    return {"stripe-signature": ",".join([f"t={at}", *signed]) + more}


def test_stripes_header_holds_the_instant_and_several_signatures() -> None:
    body = b'{"id": "evt_1"}'
    assert is_signed(FORMS["stripe"], stripe(body, NOW, SECRET), body, [SECRET], NOW + 299)
    assert is_signed(FORMS["stripe"], stripe(body, NOW, b"former", SECRET, more=",v0=abc"), body, [SECRET], NOW)
    assert not is_signed(FORMS["stripe"], stripe(body, NOW, SECRET), body, [SECRET], NOW + 301)
    assert not is_signed(FORMS["stripe"], stripe(body, NOW, SECRET, more=f",t={NOW + 300}"), body, [SECRET], NOW + 400)
    assert not is_signed(FORMS["stripe"], {"stripe-signature": f"t={NOW},v0={signature(body)}"}, body, [SECRET], NOW)


PLAIN = asdict(Webhook("hmac", "hooks/shop", header="X-Shop-Signature"))
BODY = b'{"order": 7, "note": "{timestamp}"}'
FORMS_OF_HMAC: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "hex of the body": ({}, {"x-shop-signature": signature(BODY)}),
    "a prefix": ({"prefix": "sig="}, {"x-shop-signature": "sig=" + signature(BODY)}),
    "another algorithm": ({"algorithm": "sha512"}, {"x-shop-signature": signature(BODY, algorithm="sha512")}),
    "base64": ({"encoding": "base64"}, {"x-shop-signature": b64encode(hmac.digest(SECRET, BODY, "sha256")).decode()}),
    "with the instant": (
        {"timestamp": "X-Shop-Time"},
        {"x-shop-signature": signature(b"%d." % NOW + BODY), "x-shop-time": str(NOW)},
    ),
    "with the instant, as it is said to be": (
        {"timestamp": "X-Shop-Time", "signed": "v2:{body}:{timestamp}"},
        {"x-shop-signature": signature(b"v2:" + BODY + b":%d" % NOW), "x-shop-time": str(NOW)},
    ),
}


@pytest.mark.parametrize(("options", "headers"), FORMS_OF_HMAC.values(), ids=FORMS_OF_HMAC)
def test_plain_forms(options: dict[str, Any], headers: dict[str, str]) -> None:
    scheme = scheme_of(PLAIN | options)
    assert is_signed(scheme, headers, BODY, [SECRET], NOW)
    assert is_signed(scheme, headers, BODY, [b"the next one", SECRET], NOW), "one of several secrets"
    assert not is_signed(scheme, headers, BODY, [b"another"], NOW)
    assert not is_signed(scheme, headers, BODY, [], NOW)
    assert not is_signed(scheme, headers, BODY + b" ", [SECRET], NOW)
    assert not is_signed(scheme, {}, BODY, [SECRET], NOW)
    for name, value in headers.items():
        assert not is_signed(scheme, headers | {name: value[:-1] + ("0" if value[-1] != "0" else "1")}, BODY, [SECRET], NOW)
        assert not is_signed(scheme, {k: v for k, v in headers.items() if k != name}, BODY, [SECRET], NOW)


def test_a_signature_without_its_prefix_is_refused() -> None:
    assert not is_signed(Scheme("s", prefix="v0="), {"s": signature(BODY)}, BODY, [SECRET], NOW)


@pytest.mark.parametrize("stamp", ["", "soon", "-1", "1e9", "١٢٣٤", str(NOW) + "0" * 10, f" {NOW}", f"{NOW}.5"])
def test_an_instant_is_seconds(stamp: str) -> None:
    scheme = scheme_of(PLAIN | {"timestamp": "t"})
    signed = {"x-shop-signature": signature(stamp.encode() + b"." + BODY), "t": stamp}
    assert not is_signed(scheme, signed, BODY, [SECRET], NOW)


@pytest.mark.parametrize("text", ["", "zz", "ü" * 64, "=" * 9, "a" * 100_000, "\x00"])
def test_hostile_signatures_are_no_signatures(text: str) -> None:
    for scheme in (*FORMS.values(), scheme_of(PLAIN), scheme_of(PLAIN | {"encoding": "base64"})):
        assert not is_signed(scheme, {scheme.header: text}, BODY, [SECRET], NOW)
    assert not is_signed(FORMS["stripe"], {"stripe-signature": f"t={NOW}," + "v1=00," * 10_000}, BODY, [SECRET], NOW)


def test_every_form_of_the_language_is_known_here() -> None:
    assert {*FORMS, "hmac"} == {*SHOWN, "hmac"} == set(WORDS)


# --- received bodies ----------------------------------------------------------------------------------------------------

GITHUB, SLACK, STRIPE = (asdict(Webhook(form, f"hooks/{form}")) for form in FORMS_OF_SENDERS)


def test_an_event_has_the_configured_headers_but_no_signatures_or_credentials() -> None:
    headers = {
        "content-type": "application/json; charset=utf-8",
        "user-agent": "GitHub-Hookshot/1",
        "x-github-event": "push",
        "x-hub-signature-256": "sha256=00",
        "authorization": "Bearer 1",
        "cookie": "a=b",
        "x-custom": "seen",
        "x-other": "not seen",
    }
    event = event_of(GITHUB | {"headers": ["x-custom", "authorization"]}, headers, b'{"ref": "main"}')
    assert event == {
        "headers": {
            "content-type": "application/json; charset=utf-8",
            "user-agent": "GitHub-Hookshot/1",
            "x-github-event": "push",
            "x-custom": "seen",
        },
        "body": {"ref": "main"},
    }


JSON, FORM = "application/json", "application/x-www-form-urlencoded"
BODIES: dict[str, tuple[str, bytes, Any]] = {
    "json": (JSON, b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
    "json of a vendor": ("application/cloudevents+json", b"[1]", [1]),
    "what is no json": (JSON, b'{"a": 1', '{"a": 1'),
    "json with a key twice": (JSON, b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
    "a form": (FORM, b"a=1&b=x+y&b=z&c=", {"a": "1", "b": ["x y", "z"], "c": ""}),
    "a form around json": (FORM, b"payload=%7B%22a%22%3A+1%7D", {"a": 1}),
    "too many fields": (FORM, b"&".join(b"k%d=1" % n for n in range(1001)), "&".join(f"k{n}=1" for n in range(1001))),
    "text": ("text/plain", "größer".encode(), "größer"),
    "no type": ("", b'{"a": 1}', '{"a": 1}'),
    "nothing": (FORM, b"", {}),
}


@pytest.mark.parametrize(("kind", "body", "value"), BODIES.values(), ids=BODIES)
def test_a_body_is_decoded_by_its_content_type(kind: str, body: bytes, value: Any) -> None:
    assert event_of(STRIPE, {"content-type": kind}, body)["body"] == value


def test_a_body_that_is_no_text_is_base64() -> None:
    assert event_of(STRIPE, {"content-type": "image/png"}, b"\xff\x00") == {
        "headers": {"content-type": "image/png"},
        "body": "/wA=",
        "encoding": "base64",
    }


def ident(source: dict[str, Any], headers: dict[str, str], body: bytes) -> str:
    return delivery_id(source, headers, event_of(source, headers | {"content-type": JSON}, body), body)


def test_a_delivery_is_known_by_its_senders_own_id() -> None:
    assert ident(GITHUB, {"x-github-delivery": "72d3162e-cc78-11e3"}, b"{}") == "72d3162e-cc78-11e3"
    assert ident(STRIPE, {}, b'{"id": "evt_1"}') == "evt_1"
    assert ident(SLACK, {}, b'{"event_id": "Ev08MFMKH6"}') == "Ev08MFMKH6"
    assert ident(SLACK, {}, b'{"trigger_id": "1.2.3"}') == "1.2.3"
    assert ident(PLAIN | {"id": "X-Id"}, {"x-id": "7"}, b"{}") == "7"


def test_a_github_delivery_may_be_identified_by_its_signed_body() -> None:
    """An intercepted request, sent again with another header, starts nothing."""
    by_body = asdict(Webhook("github", "hooks/github", id="body"))
    first, again = ({"x-github-delivery": name} for name in ("72d3162e", "another"))
    assert delivery_id(GITHUB, first, {"body": {}}, b"{}") != delivery_id(GITHUB, again, {"body": {}}, b"{}")
    assert delivery_id(by_body, first, {"body": {}}, b"{}") == delivery_id(by_body, again, {"body": {}}, b"{}")
    assert delivery_id(by_body, first, {"body": {}}, b"{}") != delivery_id(by_body, first, {"body": {}}, b"[]")


def test_a_delivery_without_an_id_is_identified_by_its_signed_content() -> None:
    stamped = PLAIN | {"timestamp": "T"}
    first = ident(stamped, {"t": "1"}, b"{}")
    assert first.startswith("sha256:")
    assert ident(stamped, {"t": "1"}, b"{}") == first
    assert (
        len({first, ident(stamped, {"t": "2"}, b"{}"), ident(stamped, {"t": "1"}, b"[]"), ident(stamped, {"t": "1{"}, b"}")}) == 4
    )
    for nothing in (b"{}", b"[]", b'{"id": 7}', b'{"id": {"a": 1}}', b'{"id": " "}'):
        assert ident(STRIPE, {}, nothing).startswith("sha256:")


def test_an_id_unfit_for_a_key_is_replaced_by_its_digest() -> None:
    for hostile in ("a" * 129, "a b", "a/b", "a#b", "ü", "a\n"):
        assert short_id(hostile).startswith("sha256:")
    assert short_id("a" * 128) == "a" * 128


def test_slack_asks_for_its_challenge() -> None:
    asked = json.dumps({"type": "url_verification", "challenge": "3eZb"}).encode()
    assert challenge_of(SLACK, event_of(SLACK, {"content-type": JSON}, asked)) == {"challenge": "3eZb"}
    assert challenge_of(GITHUB, event_of(GITHUB, {"content-type": JSON}, asked)) is None
    assert challenge_of(SLACK, event_of(SLACK, {"content-type": JSON}, b"[]")) is None
