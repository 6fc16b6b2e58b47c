"""docs/triggers.md on what comes from outside: each playbook there is registered, gets a delivery, and does what it says."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from noetl_core.adapters.local.rates import LocalRequestRates
from noetl_core.adapters.local.secrets import LocalSecrets
from noetl_core.aws.event_patterns import FILTERS
from noetl_core.control.catalog.registration import register
from noetl_core.control.triggers.deliveries import Deliveries, Delivery, UploadDelivery
from noetl_core.control.triggers.hooks import Hooks
from noetl_core.control.triggers.notifications import EventDelivery, queue_delivery
from noetl_core.control.triggers.validation import why_it_cannot_start
from noetl_core.ports import Upload, WebhookDelivery
from noetl_core.runtime.local import LocalWiring
from noetl_core.values.instants import SECOND
from noetl_core.views.executions import executions

PAGE = (Path(__file__).parents[3] / "docs" / "triggers.md").read_text()
PLAYBOOKS = {
    re.search(r"path: ([\w/]+)", text)[1]: text  # type: ignore[index]
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    if "metadata" in text
}
SECRET = "s3cret"


@dataclass
class Folder:
    """`Inbox` with one object; and a sink that keeps what is handed on."""

    local: LocalWiring
    body: bytes = b""
    handed: WebhookDelivery | None = None

    def copy(self, upload: Upload, key: str) -> Any:
        return self.local.results.put(key, self.body)

    def read(self, upload: Upload) -> bytes:
        raise NotImplementedError

    def reject(self, upload: Upload, error: Any) -> None:
        raise NotImplementedError

    def forward(self, delivery: WebhookDelivery) -> None:
        self.handed = delivery


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalWiring]:
    wiring = LocalWiring(secrets=LocalSecrets(tmp_path / "credentials.json"))
    yield wiring
    wiring.close()


def results(local: LocalWiring, path: str, delivery: Delivery) -> list[Any]:
    """Return the results of the executions that a delivery starts, after it came twice."""
    deliveries = Deliveries(local.control, "inbox")
    fired = deliveries.take(delivery)
    assert all(again.execution_id == first.execution_id for again, first in zip(deliveries.take(delivery), fired, strict=False))
    found = []
    for one in fired:
        assert one.result == "started" and one.path == path and one.execution_id, one
        assert local.run(one.execution_id, timeout_s=30)
        found.append(executions.summary(local.control, one.execution_id)["result"])
    return found


def test_events(local: LocalWiring) -> None:
    register(local.control, PLAYBOOKS["orders/ship"])

    def event(**detail: Any) -> EventDelivery:
        return EventDelivery(
            {
                "id": f"e-{detail['id']}",
                "source": "shop.orders",
                "detail-type": "OrderPlaced",
                "time": "2026-11-22T18:43:48Z",
                "detail": detail,
            }
        )

    assert results(local, "orders/ship", event(id=7, total=100, country="DE")) == ["shipped 7 of shop.orders"]
    assert results(local, "orders/ship", event(id=8, total=99, country="DE")) == []
    assert results(local, "orders/ship", event(id=9, total=100, country="XK")) == []


def test_the_page_names_every_filter() -> None:
    assert [word for word in FILTERS if f"{{{word}: " not in PAGE] == []


def test_messages(local: LocalWiring) -> None:
    register(local.control, PLAYBOOKS["orders/charge"])
    record = {
        "messageId": "m1",
        "body": '{"amount": 12}',
        "attributes": {"SentTimestamp": "1795373028000"},
        "messageAttributes": {"shop": {"dataType": "String", "stringValue": "berlin"}},
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:payments",
    }
    assert results(local, "orders/charge", queue_delivery(record)) == ["charged 12 for berlin"]
    assert results(local, "orders/charge", queue_delivery({**record, "messageId": "m2", "body": '{"amount": 0}'})) == []


def sent(local: LocalWiring, path: str, name: str, headers: dict[str, str], body: bytes) -> Folder:
    folder = Folder(local)
    control, secrets = local.control, local.worker.secrets
    assert secrets is not None
    check = partial(why_it_cannot_start, control)
    hooks = Hooks(control.triggers.trigger, secrets, folder, local.clock, control.catalog.about, check, LocalRequestRates())
    answer = hooks.answer(path, name, headers, body)
    assert folder.handed is None or answer.status == 202, answer
    return folder


def signed(body: bytes) -> str:
    return "sha256=" + hmac.new(SECRET.encode(), body, "sha256").hexdigest()


@pytest.fixture
def secrets(local: LocalWiring) -> None:
    for name in ("hooks/github", "hooks/warehouse"):
        assert isinstance(local.worker.secrets, LocalSecrets)
        local.worker.secrets.put(name, {"data": {"secret": SECRET}})


@pytest.mark.usefixtures("secrets")
def test_a_webhook_of_github(local: LocalWiring) -> None:
    register(local.control, PLAYBOOKS["ci/build"])
    body = json.dumps({"ref": "refs/heads/main", "after": "82b3d5", "repository": {"full_name": "noetl/noetl"}}).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": "72d3162e",
        "X-Hub-Signature-256": signed(body),
    }
    handed = sent(local, "ci/build", "webhook", headers, body).handed
    assert handed is not None
    assert results(local, "ci/build", handed) == ["built 82b3d5 of noetl/noetl"]
    assert sent(local, "ci/build", "webhook", {**headers, "X-GitHub-Event": "ping"}, body).handed is None


@pytest.mark.usefixtures("secrets")
def test_a_webhook_with_a_form_of_its_own(local: LocalWiring) -> None:
    register(local.control, PLAYBOOKS["shop/stock"])
    body, now = b'{"item": "nails", "left": 40}', str(local.clock.now() // SECOND)
    headers = {
        "Content-Type": "application/json",
        "X-Warehouse-Time": now,
        "X-Warehouse-Delivery": "77",
        "X-Warehouse-Signature": signed(now.encode() + b"." + body),
    }
    handed = sent(local, "shop/stock", "warehouse", headers, body).handed
    assert handed is not None and handed.id == "77"
    assert results(local, "shop/stock", handed) == ["nails: 40 left"]
    assert sent(local, "shop/stock", "warehouse", {**headers, "X-Warehouse-Time": str(int(now) - 400)}, body).handed is None


def test_uploads(local: LocalWiring) -> None:
    register(local.control, PLAYBOOKS["sales/import"])
    folder = Folder(local, b'{"rows": [1, 2, 3]}')
    put = UploadDelivery(Upload("inbox", "uploads/sales/a.json", 19, version_id="1"), folder)
    assert results(local, "sales/import", put) == ["3 rows of uploads/sales/a.json"]
    other = UploadDelivery(Upload("inbox", "uploads/sales/a.csv", 19, version_id="1"), folder)
    assert results(local, "sales/import", other) == []
