"""A stand-in for AWS's services that answers at once: tables in memory, conditions taken as met. The functions
measured over it pay for their own requests, and for nothing else."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from tests.servers import Handler

Item = dict[str, Any]


class Services(ThreadingHTTPServer):
    """DynamoDB, SQS, Secrets Manager and S3 at one address. `sent` has the messages by queue, `tables` the items by key,
    `put` all that were put."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.tables: dict[str, dict[tuple[str, str], Item]] = defaultdict(dict)
        self.put: list[Item] = []
        self.sent: dict[str, list[str]] = defaultdict(list)
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()


class _Answers(Handler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise, every answer waits 40 ms for an acknowledgement
    server: Services

    def do_POST(self) -> None:
        target = self.headers.get("X-Amz-Target", "")
        asked = json.loads(self.told() or b"{}")
        operations: dict[str, Callable[[Any], Any]] = {
            "PutItem": self._put,
            "GetItem": self._get,
            "Query": self._query,
            "SendMessageBatch": self._send,
            "GetSecretValue": lambda _: {"SecretString": "of-the-stub"},
            "ListSecrets": lambda _: {"SecretList": []},
        }
        operation = operations.get(target.rpartition(".")[2])
        with self.server.lock:
            answer = {} if operation is None else operation(asked)
        self.say(200, json.dumps(answer).encode(), Content_Type="application/x-amz-json-1.0")

    def do_PUT(self) -> None:
        self.server.objects[self.path] = self.told()
        self.say(200)

    def do_GET(self) -> None:
        found = self.server.objects.get(self.path.partition("?")[0])
        if found is None:
            self.say(404, b"<Error><Code>NoSuchKey</Code></Error>", Content_Type="application/xml")
        else:
            self.say(200, found)

    def _put(self, asked: Any) -> Item:
        item = asked["Item"]
        self.server.put.append(item)
        self.server.tables[asked["TableName"]][item["pk"]["S"], item["sk"]["S"]] = item
        return {}

    def _get(self, asked: Any) -> Item:
        key = asked["Key"]
        found = self.server.tables[asked["TableName"]].get((key["pk"]["S"], key["sk"]["S"]))
        return {} if found is None else {"Item": found}

    def _query(self, asked: Any) -> Item:
        """Answer a query by key, `pk = :pk AND sk BETWEEN :a AND :b`. A query of an index finds nothing."""
        values = asked.get("ExpressionAttributeValues", {})
        between = re.fullmatch(r"pk = (:\w+) AND sk BETWEEN (:\w+) AND (:\w+)", asked.get("KeyConditionExpression", ""))
        if between is None or "IndexName" in asked:
            return {"Items": [], "Count": 0}
        pk, first, last = (values[name]["S"] for name in between.groups())
        rows = sorted(self.server.tables[asked["TableName"]].items())
        items = [item for (p, sk), item in rows if p == pk and first <= sk <= last]
        items = (items if asked.get("ScanIndexForward", True) else items[::-1])[: asked.get("Limit")]
        return {"Items": items, "Count": len(items)}

    def _send(self, asked: Any) -> Item:
        self.server.sent[asked["QueueUrl"].rpartition("/")[2]] += [entry["MessageBody"] for entry in asked["Entries"]]
        return {"Successful": [{"Id": e["Id"], "MessageId": e["Id"], "MD5OfMessageBody": ""} for e in asked["Entries"]]}
