"""The services of AWS that the pages of tools speak of, mocked in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from noetl_core.adapters.aws.clients import client
from noetl_core.dsl.fields.kinds import aws
from tests.unit.tools.aws_playbooks import mocked


@contextmanager
def _demo() -> Iterator[None]:
    with mocked():
        s3 = client("s3")
        s3.create_bucket(Bucket="reports")
        s3.put_object(Bucket="reports", Key="flights.csv", Body=b"carrier,n\nUA,4\nAA,3\n")
        s3.put_object(Bucket="reports", Key="triggers/demo/note.txt", Body=b"hello, note")
        for n in (1, 2):
            s3.put_object(Bucket="reports", Key=f"in/{n}.json", Body=b'{"n": %d}' % n)
        client("sqs").create_queue(QueueName="orders")
        client("sns").create_topic(Name="alerts")
        client("events").create_event_bus(Name="shop")
        client("sesv2").create_email_identity(EmailIdentity="reports@example.org")
        make_items("stock")
        make_ecs("jobs")
        yield


def make_ecs(*clusters: str) -> None:
    """Clusters of ECS, and the task definition `train` with one container that writes to CloudWatch."""
    for name in clusters:
        client("ecs").create_cluster(clusterName=name)
    log = {"logDriver": "awslogs", "options": {"awslogs-group": "/jobs", "awslogs-stream-prefix": "train"}}
    client("ecs").register_task_definition(
        family="train",
        containerDefinitions=[{"name": "main", "image": "train", "memory": 128, "logConfiguration": log}],
    )


def make_items(table: str) -> None:
    """A table with the keys `pk` and `sk`."""
    names = ("pk", "sk")
    client("dynamodb").create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )


def services(source: str) -> AbstractContextManager[None]:
    """Return the surroundings of an example: mocked AWS if it uses AWS, else nothing."""
    return _demo() if any(f"kind: {kind}" in source for kind in (*aws.KINDS, "container")) else nullcontext()
