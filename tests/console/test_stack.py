"""The console of a stack: requests are passed on, and what is done there is carried out there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from noetl_console.publishing import published
from noetl_console.remote import RemoteApi
from noetl_core.client import Client
from noetl_infra.deploy import local_environment
from noetl_infra.stack import Stack
from tests.commands import ENV, run
from tests.console.barriers import barriers
from tests.console.browser import PATIENCE_MS as SHORT_MS
from tests.console.browser import watched
from tests.console.gateway import Gateway
from tests.console.http_requests import console
from tests.console.sample_store import APPROVE, SHOP
from tests.servers import serving
from tests.stacks import client

pytestmark = pytest.mark.e2e
PATIENCE_MS = 180_000


def test_the_console_starts_follows_answers_and_lists_executions_of_a_stack(stack: Stack, chromium: Browser) -> None:
    asking = Client(stack.api_url)
    asking.register(SHOP)
    asking.register(APPROVE)
    api = RemoteApi(stack.api_url, None)
    with console(api) as server, watched(chromium, server) as hands:
        page = hands.page
        hands.open("playbooks/demo%2Fshop?start=1", "dialog input")
        expect(page.get_by_role("region", name="Forecast")).to_contain_text("Time")
        page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url(re.compile(r"executions/\d+"))
        expect(page.locator(".head .chip")).to_have_text("completed", timeout=PATIENCE_MS)
        assert asking.plan(path="demo/shop")["runs"] >= 1
        hands.open("playbooks/demo%2Fshop?tests=1", "dialog")
        expect(page.get_by_role("dialog")).to_contain_text("on the machine of the author")
        page.go_back()
        expect(page.locator(".head .chip")).to_have_text("completed")  # Escape would close the dialog of the page before
        for view in ("graph", "cost"):  # `tests/e2e/test_views.py` has what each asks for
            page.keyboard.press("Escape")
            page.get_by_role("link", name=view.capitalize(), exact=True).click()
            page.wait_for_load_state("networkidle")
            expect(page.get_by_role("alert")).to_have_count(0)
        asking.start(path="demo/approve", payload={"amount": 79})
        hands.open("inbox", "h1")
        card = page.locator("li.card", has_text="Approve 79 EUR?")
        card.get_by_role("button", name="Approve").click(timeout=PATIENCE_MS)
        expect(card).to_have_count(0, timeout=PATIENCE_MS)
        hands.open("executions?path=demo/approve", "tbody tr")
        expect(page.locator("tbody tr").first).to_contain_text("completed", timeout=PATIENCE_MS)
        waits = asking.start(path="demo/approve")["execution_id"]
        hands.open("inbox?path=demo/approve", "h1")
        past = page.get_by_role("group", name="Outcomes of earlier answers")
        expect(past.locator("tbody tr")).to_contain_text(re.compile("Approve 1 ×.*1 completed.*paid"), timeout=PATIENCE_MS)
        oldest, newest = asking.executions(path="demo/approve", order="oldest")["executions"]
        assert (oldest["status"], newest["execution_id"]) == ("completed", waits)
        asking.cancel(waits)
    api.close()


@pytest.mark.nightly
def test_the_pages_that_deploying_brought_to_the_bucket_show_the_api_beside_them(stack: Stack, chromium: Browser) -> None:
    """The bucket, its files and the API are the stack's; the gateway is of this process, because MiniStack has no integrations with S3."""
    Client(stack.api_url).register(SHOP)
    s3, bucket, api = client("s3", stack.endpoint), stack.outputs["ConsoleBucketName"], RemoteApi(stack.api_url, None)
    keys = {o["Key"] for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for o in page["Contents"]}
    assert keys == set(published())
    with serving(Gateway(s3, bucket, lambda asked, _: api.answer(asked), ApiAuth="NONE")) as gateway:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{gateway.url}#/playbooks")
        expect(page.get_by_role("link", name="demo/shop")).to_be_visible(timeout=SHORT_MS)
        assert barriers(page) == []
        context.close()
    api.close()


@pytest.mark.nightly
def test_pages_are_brought_to_a_bucket_by_hand(stack: Stack, tmp_path: Path) -> None:
    s3, env = client("s3", stack.endpoint), {**ENV, **local_environment(stack.endpoint)}
    s3.create_bucket(Bucket="pages-by-hand")
    done = run("console", "--upload-to", "pages-by-hand", cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    version = done.stdout.split()[-1]
    assert f"{version}/main.js".encode() in s3.get_object(Bucket="pages-by-hand", Key="index.html")["Body"].read()
    refused = run("console", "--upload-to", "elsewhere", cwd=tmp_path, env=env)
    assert (refused.returncode, "the bucket elsewhere is refused" in refused.stderr) == (1, True)
