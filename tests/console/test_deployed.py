"""The console beside the API of a stack: its files in a bucket, behind the gateway as template.yaml defines it, and how people sign in."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import boto3
import pytest
from moto import mock_aws
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from noetl_console.answering import Answered, Asked
from noetl_console.assets import STATIC, assets
from noetl_console.publishing import publish, published
from noetl_console.server import CSP, HEADERS
from noetl_core.api.app import Api
from noetl_core.api.callers import Rights
from noetl_core.runtime.local import LocalWiring
from noetl_core.service.api_service import Service
from noetl_core.service.operations.base import cursor_key
from tests.console.barriers import barriers
from tests.console.browser import PATIENCE_MS
from tests.console.gateway import POOL, Gateway, People, Pool, token
from tests.console.sample_store import WAITS, carried_out
from tests.servers import serving, url_of

BUCKET = "pages"
READER = {"cognito:groups": ["executions:read", "playbooks:read"], "scope": "noetl/groups", "exp": 4102444800}


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        publish(client, BUCKET)
        yield client


@dataclass
class Behind:
    """The API of a local store, as it is behind a gateway that asks for tokens."""

    wiring: LocalWiring
    auth: str

    def __post_init__(self) -> None:
        service = Service(
            lambda: self.wiring.control,
            cursor_key(lambda: self.wiring.control),
            {"name": "stack", "pools": {}},
            rights=Rights(auth=self.auth),
        )
        self.api, self.turn = Api(service), Lock()

    def __call__(self, asked: Asked, claims: Mapping[str, Any] | None) -> Answered:
        event = {
            "httpMethod": asked.method,
            "path": asked.path,
            "headers": dict(asked.headers),
            "queryStringParameters": dict(pair.split("=", 1) for pair in asked.query.split("&") if pair) or None,
            "body": asked.body.decode() or None,
            "requestContext": {"authorizer": {"claims": claims}} if claims else {},
        }
        with self.turn:
            response = self.api.resolve(event, None)
        headers = {name: values[0] for name, values in response["multiValueHeaders"].items() if values}
        return Answered(response["statusCode"], response["body"].encode(), headers)


@pytest.fixture(scope="module")
def wiring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalWiring]:
    wired = LocalWiring(str(tmp_path_factory.mktemp("deployed") / "runs.db"))
    carried_out(wired, WAITS)
    yield wired
    wired.close()


@dataclass
class Deployed:
    gateway: Gateway
    people: People

    def let(self, **claims: Any) -> str:
        """A token that the gateway takes."""
        made = token(**{**READER, **claims}, jti=len(self.gateway.accepted))
        self.gateway.accepted[made] = json.loads(json.dumps({**READER, **claims}))
        return made


@contextmanager
def deployed(s3: Any, wiring: LocalWiring, *, auth: str = "JWT", sign_in: bool = False) -> Iterator[Deployed]:
    people = People()
    with ExitStack() as stack:
        parameters = {"ApiAuth": auth, "UserPoolArn": POOL}
        if sign_in:
            parameters |= {
                "ConsoleSignIn": url_of(stack.enter_context(serving(Pool(people)))),
                "ConsoleClientId": people.client_id,
            }
        gateway = stack.enter_context(serving(Gateway(s3, BUCKET, Behind(wiring, auth), **parameters)))
        yield Deployed(gateway, people)


@pytest.fixture
def with_tokens(s3: Any, wiring: LocalWiring) -> Iterator[Deployed]:
    with deployed(s3, wiring) as made:
        yield made


@pytest.fixture
def with_people(s3: Any, wiring: LocalWiring) -> Iterator[Deployed]:
    with deployed(s3, wiring, sign_in=True) as made:
        yield made


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    """A tab of a browser that remembers nothing; raises `AssertionError` where a script or the policy complained."""
    context: BrowserContext = chromium.new_context()
    page, wrong = context.new_page(), list[str]()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda m: wrong.append(m.text) if m.type in ("error", "warning") and not m.text.startswith("Failed to load") else None,
    )
    yield page
    context.close()
    assert wrong == []


def kept(page: Page) -> str:
    """All that the browser keeps for the page, and all that is in it."""
    stored = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    return str(stored) + page.content()


@pytest.mark.nightly
def test_an_api_without_authentication_needs_no_sign_in(s3: Any, wiring: LocalWiring, tab: Page) -> None:
    with deployed(s3, wiring, auth="NONE") as made:
        tab.goto(made.gateway.url)
        expect(tab.locator("tbody tr")).to_have_count(1)
        expect(tab.get_by_role("button", name="Sign out")).to_have_count(0)


@pytest.mark.nightly
def test_the_picture_of_signing_in_can_be_taken(with_people: Deployed, chromium: Browser, tmp_path: Path) -> None:
    folder = Path(os.environ.get("NOETL_SCREENSHOTS", tmp_path))
    context = chromium.new_context(viewport={"width": 1200, "height": 420})
    page = context.new_page()
    page.goto(with_people.gateway.url)
    page.get_by_role("dialog", name="Sign in").wait_for()
    assert barriers(page) == []
    page.screenshot(path=folder / "sign-in.png")
    context.close()


@pytest.mark.nightly
def test_a_token_that_is_pasted_lets_in_and_is_kept_nowhere(with_tokens: Deployed, tab: Page) -> None:
    good = with_tokens.let()
    tab.goto(f"{with_tokens.gateway.url}#/executions?status=waiting")
    dialog = tab.get_by_role("dialog", name="Sign in")
    dialog.wait_for()
    assert barriers(tab) == []
    assert not [path for path in with_tokens.gateway.asked if "/api/" in path]
    dialog.get_by_label("Access token").fill("guessed")
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog.get_by_role("alert")).to_have_text("The API does not take this token.")
    dialog.get_by_label("Access token").fill(f"Bearer {good}")
    tab.keyboard.press("Enter")
    expect(tab.locator("tbody tr")).to_have_count(1)
    assert tab.url.endswith("#/executions?status=waiting")
    assert good not in kept(tab)
    assert barriers(tab) == []
    tab.get_by_role("button", name="Sign out").click()
    expect(dialog).to_be_visible()


@pytest.mark.nightly
def test_a_page_keeps_its_input_after_the_token_expires(with_tokens: Deployed, tab: Page) -> None:
    first, second = with_tokens.let(), with_tokens.let()
    tab.goto(f"{with_tokens.gateway.url}#/compare")
    dialog = tab.get_by_role("dialog", name="Sign in")
    dialog.get_by_label("Access token").fill(first)
    tab.keyboard.press("Enter")
    field = tab.locator("main input").first
    field.fill("written before")
    del with_tokens.gateway.accepted[first]
    expect(dialog).to_be_visible(timeout=60_000 + PATIENCE_MS)  # this page asks for nothing but the health, once a minute
    dialog.get_by_label("Access token").fill(second)
    tab.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert field.input_value() == "written before"


def test_signing_in_at_the_pool_returns_to_the_requested_page(with_people: Deployed, tab: Page) -> None:
    good = with_people.let()
    with_people.people.tokens = [good, good]
    tab.goto(f"{with_people.gateway.url}#/executions?status=waiting")
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.locator("tbody tr")).to_have_count(1)
    assert tab.url == f"{with_people.gateway.url}#/executions?status=waiting"
    assert good not in kept(tab)
    assert "verifier" not in kept(tab)
    tab.reload()
    expect(tab.locator("tbody tr")).to_have_count(1)
    assert with_people.people.grants == ["authorization_code"] * 2
    assert tab.url == f"{with_people.gateway.url}#/executions?status=waiting"


@pytest.mark.nightly
def test_an_expiring_token_is_refreshed_without_a_prompt(with_people: Deployed, tab: Page) -> None:
    soon, good = with_people.let(exp=int(time.time()) + 20), with_people.let()
    with_people.people.tokens = [soon, good]
    tab.goto(with_people.gateway.url)
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.locator("tbody tr")).to_have_count(1)
    assert with_people.people.grants == ["authorization_code", "refresh_token"]
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.get_by_role("dialog", name="Sign in")).to_be_visible()
    assert with_people.people.left == 1


@pytest.mark.nightly
def test_a_sign_in_error_of_the_pool_is_shown_once_as_text(with_people: Deployed, tab: Page) -> None:
    with_people.people.says = "access_denied"
    tab.goto(with_people.gateway.url)
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_role("alert")).to_have_text("<b>not</b> today")
    tab.reload()
    expect(tab.get_by_role("dialog", name="Sign in")).to_be_visible()


@pytest.mark.nightly
def test_an_answer_to_a_sign_in_of_another_tab_is_refused(with_people: Deployed, tab: Page) -> None:
    tab.goto(f"{with_people.gateway.url}?code=planted&state=guessed")
    expect(tab.get_by_role("alert")).to_have_text("This answer belongs to no sign-in of this tab.")
    assert with_people.people.grants == []
    assert tab.url == with_people.gateway.url


def test_deployed_files_have_the_headers_of_the_local_server(with_people: Deployed, tab: Page) -> None:
    seen: dict[str, dict[str, str]] = {}

    def look(route: Route) -> None:
        answer = route.fetch()
        seen[route.request.url.partition("/console/")[2]] = {**answer.headers, "status": str(answer.status)}
        route.fulfill(response=answer)

    tab.route("**/console/**", look)
    tab.goto(with_people.gateway.url)
    expect(tab.get_by_role("dialog", name="Sign in")).to_be_visible()
    ((_, pool),) = [
        rule.rsplit(" ", 1) for rule in seen["index.html"]["content-security-policy"].split("; ") if "connect" in rule
    ]
    files = {name: headers for name, headers in seen.items() if name != "settings.json"}
    assert len(files) > 10
    for name, headers in files.items():
        policy = headers["content-security-policy"].replace(f" {pool};", ";")
        assert {**headers, "content-security-policy": policy}.items() >= {n.lower(): v for n, v in HEADERS.items()}.items()
        assert policy == CSP
        assert headers["cache-control"] == ("no-cache" if name == "index.html" else "public, max-age=31536000, immutable")
    missing = tab.request.get(with_people.gateway.url.replace("index.html", "main.js"))
    assert (missing.status, missing.text()) == (404, "there is no such file")
    index = tab.request.get(with_people.gateway.url, headers={"If-None-Match": seen["index.html"]["etag"]})
    assert index.status == 304


def test_every_file_is_published_under_a_version_made_of_all_contents() -> None:
    files = published()
    assert list(files)[-1] == "index.html"
    (version,) = {key.partition("/")[0] for key in files} - {"index.html"}
    assert {key.removeprefix(f"{version}/") for key in files} == set(assets())
    assert [f.cache_control for f in files.values()].count("no-cache") == 1
    changed = dict(assets())
    changed["main.js"] = type(changed["main.js"])("text/javascript", '"other"', b"")
    assert version not in {key.partition("/")[0] for key in published(changed)}


@pytest.mark.nightly
def test_publishing_keeps_the_previous_version_and_removes_older_ones(s3: Any) -> None:
    s3.create_bucket(Bucket="versions")

    def versions() -> set[str]:
        return {o["Key"].partition("/")[0] for o in s3.list_objects_v2(Bucket="versions")["Contents"]} - {"index.html"}

    def of(text: str) -> str:
        found = dict(assets())
        found["main.js"] = type(found["main.js"])("text/javascript", f'"{text}"', text.encode())
        return publish(s3, "versions", found)

    first = of("one")
    assert of("one") == first
    second = of("two")
    assert versions() == {first, second}
    third = of("three")
    assert versions() == {second, third}


def test_no_file_is_named_by_its_place_in_the_page() -> None:
    """Modules find files beside themselves: the page that loads them is elsewhere."""
    for file in STATIC.rglob("*.js"):
        assert 'src="' not in file.read_text() or file.parent.name == "vendor", file
    assert Path(STATIC / "index.html").read_text().count("noetl-sign-in") == 1
