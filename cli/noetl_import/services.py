"""Translates the resource of a Task state to a task: its kind, its inputs, and where its result is. `tables` has DynamoDB."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from noetl_import.findings import Notes, Unmapped
from noetl_import.names import Computed
from noetl_import.signed import is_signed, request
from noetl_import.tables import ACTIONS, dynamodb
from noetl_import.values import Arr, Const, Doc, Expr, Joined, Obj, View, opened

INTEGRATION: Final = re.compile(r"arn:[\w-]+:states:[^:]*:[^:]*:(?P<service>.+?)(?P<pattern>\.sync(?::2)?|\.waitForTaskToken)?")
FUNCTION: Final = re.compile(r"arn:[\w-]+:lambda:(?P<region>[^:]*):[^:]*:function:(?P<name>[^:]+)(?::(?P<alias>[^:]+))?")
METADATA: Final = {"SdkHttpMetadata": Obj({"HttpStatusCode": Const(200)})}
"""The members that Step Functions adds to the result of a service."""
BY_HAND: Final = "call the service in a Lambda function, or with a task of kind http"


@dataclass
class Call:
    """A task without its name: its inputs, and the document that its result is, from the expression of the result."""

    kind: str
    inputs: dict[str, Any]
    result: Callable[[Doc], Doc]
    waits: bool = False
    """True if a callback follows, whose answer is the result."""
    origin: str = ""
    """The origin of its errors: lambda, or signed."""


class Arguments:
    """The parameters of a service, taken one by one; `left` tells of those that nothing took."""

    def __init__(self, doc: Doc, notes: Notes, field: str) -> None:
        doc = opened(doc)
        if not isinstance(doc, Obj) or doc.base is not None:
            raise Unmapped(
                "the parameters of the service are not written out", "write an object with the service's parameters", field
            )
        self.members, self.notes, self.field = dict(doc.members), notes, field

    def take(self, key: str) -> Doc | None:
        return self.members.pop(key, None)

    def need(self, key: str) -> Doc:
        if (doc := self.take(key)) is None:
            raise Unmapped(f"the parameter {key} is missing", "add it", self.field)
        return doc

    def ignore(self, *keys: str) -> None:
        for key in keys:
            self.members.pop(key, None)

    def inputs(self, **names: str) -> dict[str, Any]:
        """Return inputs of the task from parameters, by the names of both."""
        return {name: doc.yaml() for name, key in names.items() if (doc := self.take(key)) is not None}

    def close(self) -> None:
        for key in self.members:
            remedy = "see whether the task needs it"
            self.notes.attention(f"the parameter {key} has no equivalent and is left out", remedy, f"{self.field}/{key}")


def call_of(
    resource: str, args: Doc, notes: Notes, field: str, path_of: Callable[[str], str], computed: Computed
) -> Call:  # fmt: skip
    """Return the task of a resource. `path_of` gives the path of the playbook for the ARN of a state machine.

    Raises `Unmapped`.
    """
    if match := INTEGRATION.fullmatch(resource):
        return _integrated(match["service"], match["pattern"] or "", args, notes, field, path_of, computed)
    if FUNCTION.fullmatch(resource) or re.fullmatch(r"\$\{\w+\}", resource):
        if resource.startswith("$"):
            notes.attention(
                f"the resource {resource} is treated as a Lambda function", f"pass --set {resource[2:-1]}=ARN", "/Resource"
            )
        return Call("lambda", {"function": resource, "payload": args.yaml()}, lambda ref: ref.get("payload"), origin="lambda")
    raise Unmapped(f"the resource {resource} does not map", BY_HAND, "/Resource")


def _placeholder(text: str, notes: Notes) -> None:
    for name in re.findall(r"\$\{(\w+)\}", text):
        notes.attention(f"the placeholder ${{{name}}} has no value", f"pass --set {name}=VALUE, or replace it in the playbook")


def _integrated(
    service: str, pattern: str, args: Doc, notes: Notes, field: str, path_of: Callable[[str], str], computed: Computed
) -> Call:  # fmt: skip
    if service.startswith("activity:"):
        raise Unmapped(
            "an activity has no equivalent",
            "let its worker answer a callback: send the token to it, in a task before one of kind callback", "/Resource",
        )  # fmt: skip
    sdk = service.startswith("aws-sdk:")
    name = service.removeprefix("aws-sdk:").replace("eventbridge:", "events:").replace("sfn:", "states:")
    if sdk and is_signed(name) and name.partition("dynamodb:")[2] not in ACTIONS and not pattern:
        return Call("http", request(name, args.yaml(), notes), lambda ref: ref.get("data"), origin="signed")
    parameters = Arguments(args, notes, field) if name in SERVICES or name.startswith("dynamodb:") else None
    if parameters is None:
        raise Unmapped(f"the integration {service}{pattern} does not map", BY_HAND, "/Resource")
    for doc in list(parameters.members.values()):
        if isinstance(doc, Const) and isinstance(doc.value, str):
            _placeholder(doc.value, notes)
    if name.startswith("dynamodb:"):
        call = Call(*dynamodb(name.partition(":")[2], parameters.take, notes, computed))
        parameters.ignore("ReturnConsumedCapacity", "ReturnItemCollectionMetrics", "ReturnValues")
    elif name == "states:startExecution":
        call = _start(parameters, pattern, path_of)
    else:
        call = SERVICES[name](parameters)
    if sdk and name == "lambda:invoke":
        result = call.result
        call.result = lambda ref: _raw_payload(result(ref))
    parameters.close()
    call.waits = pattern == ".waitForTaskToken"
    return call


def _raw_payload(result: Doc) -> Doc:
    payload = result.get("Payload")
    return (
        Obj({**result.members, "Payload": Expr(f"{payload.text()} | tojson", 1, "text")}) if isinstance(result, Obj) else result
    )


def _lambda(args: Arguments) -> Call:
    name, qualifier = args.need("FunctionName"), args.take("Qualifier")
    function = name.yaml() if qualifier is None else f"{name.yaml()}:{qualifier.yaml()}"
    payload = args.take("Payload") or Const({})
    inputs: dict[str, Any] = {"function": function, "payload": payload.yaml()}
    if args.take("InvocationType") == Const("Event"):
        inputs["invocation"] = "event"
    args.ignore("LogType")
    return Call("lambda", inputs, lambda ref: Obj({
        "ExecutedVersion": ref.get("version"), "Payload": ref.get("payload"), "StatusCode": ref.get("status"),
    }, hidden=METADATA), origin="lambda")  # fmt: skip


def _messages(kind: str, target: str, key: str, body: str, **more: str) -> Callable[[Arguments], Call]:
    def call(args: Arguments) -> Call:
        inputs = {target: args.need(key).yaml(), "message": args.need(body).yaml(), **args.inputs(**more)}
        if (attributes := args.take("MessageAttributes")) is not None:
            inputs["attributes"] = _attributes(attributes)
        return Call(kind, inputs, lambda ref: Obj({"MessageId": ref.get("message_ids").item(0)}, hidden=METADATA))

    return call


def _attributes(doc: Doc) -> dict[str, Any]:
    if not isinstance(doc, Obj) or doc.base is not None:
        raise Unmapped("message attributes that are computed do not map", "write them out", "/Parameters/MessageAttributes")
    return {key: each.get("StringValue").yaml() for key, each in doc.members.items()}


def _events(args: Arguments) -> Call:
    entries = args.need("Entries")
    if not isinstance(entries, Arr) or not entries.elements:
        raise Unmapped(
            "entries that are computed do not map", "loop over them, with a task of kind eventbridge", "/Parameters/Entries"
        )
    first, *others = [Arguments(each, args.notes, f"{args.field}/Entries/{n}") for n, each in enumerate(entries.elements)]
    details = [each.take("Detail") or Const({}) for each in (first, *others)]
    inputs = first.inputs(bus="EventBusName", source="Source", detail_type="DetailType", resources="Resources")
    if any(
        each.inputs(bus="EventBusName", source="Source", detail_type="DetailType", resources="Resources") != inputs
        for each in others
    ):
        raise Unmapped("entries of several sources or types do not map", "split them into a state each", "/Parameters/Entries")
    inputs |= {"detail": details[0].yaml()} if not others else {"details": [detail.yaml() for detail in details]}
    for each in (first, *others):
        each.close()

    def result(ref: Doc) -> Doc:
        ids = [Obj({"EventId": ref.get("event_ids").item(n)}) for n in range(len(details))]
        return Obj({"Entries": Arr(tuple(ids)), "FailedEntryCount": Const(0)}, hidden=METADATA)

    return Call("eventbridge", inputs, result)


def _start(args: Arguments, pattern: str, path_of: Callable[[str], str]) -> Call:
    machine = args.need("StateMachineArn")
    if not isinstance(machine, Const):
        raise Unmapped(
            "a state machine that is computed does not map", "write its ARN, or set the playbook's path manually", "/Parameters"
        )
    path = path_of(machine.value)
    args.notes.attention(
        f"the state machine {machine.value} is the playbook {path}",
        "import the state machine under this path, or write its actual path in the playbook",
    )
    inputs: dict[str, Any] = {"path": path, "payload": (args.take("Input") or Const({})).yaml()}
    if (name := args.take("Name")) is not None and not pattern:
        inputs["idempotency_key"] = name.yaml()
    if pattern.startswith(".sync"):
        whole = pattern.endswith(":2")
        return Call("playbook", inputs, lambda ref: Obj({
            "Output": ref if whole else Expr(f"{ref.text()} | tojson", 1, "text"), "Status": Const("SUCCEEDED"),
        }))  # fmt: skip
    return Call(
        "playbook", {**inputs, "detach": True}, lambda ref: Obj({"ExecutionArn": ref.get("execution_id")}, hidden=METADATA)
    )


def _http(args: Arguments) -> Call:
    inputs: dict[str, Any] = {"method": args.need("Method").yaml(), "url": args.need("ApiEndpoint").yaml()}
    inputs |= args.inputs(params="QueryParameters", headers="Headers")
    transform = args.take("Transform")
    if (body := args.take("RequestBody")) is not None:
        form = transform is not None and transform.get("RequestBodyEncoding") == Const("URL_ENCODED")
        inputs["form" if form else "json"] = body.yaml()
    if (connection := args.take("Authentication") or args.take("InvocationConfig")) is not None:
        arn = connection.get("ConnectionArn")
        name = arn.value.split("/")[1] if isinstance(arn, Const) and "/" in arn.value else "connection"
        inputs["auth"] = re.sub(r"\W+", "_", name)
        args.notes.attention(f"the connection is the credential {inputs['auth']}", "store it: noetl credentials put")
    return Call("http", inputs, lambda ref: Obj({
        "Headers": ref.get("headers"), "ResponseBody": ref.get("data"), "StatusCode": ref.get("status"),
    }))  # fmt: skip


def _gateway(args: Arguments) -> Call:
    parts: list[Doc] = [Const("https://"), args.need("ApiEndpoint")]
    parts += [part for key in ("Stage", "Path") if (doc := args.take(key)) is not None for part in _with_slash(doc)]
    if args.take("AuthType") not in (None, Const("NO_AUTH")):
        args.notes.attention(
            "requests to the API are signed by IAM_ROLE", "add `auth` to the task of kind http", "/Parameters/AuthType"
        )
    args.members["ApiEndpoint"] = Joined(tuple(parts))
    return _http(args)


def _with_slash(doc: Doc) -> Iterable[Doc]:
    return [doc] if isinstance(doc, Const) and str(doc.value).startswith("/") else [Const("/"), doc]


def _get_object(args: Arguments) -> Call:
    inputs = {**args.inputs(bucket="Bucket", key="Key", version_id="VersionId"), "format": "text"}
    return Call("s3", inputs, lambda ref: Obj({
        "Body": ref.get("data"), "ContentType": ref.get("content_type"), "ETag": ref.get("etag"),
        "ContentLength": ref.get("size"), "LastModified": ref.get("last_modified"),
    }, hidden=METADATA))  # fmt: skip


def _put_object(args: Arguments) -> Call:
    inputs = {
        "action": "put",
        **args.inputs(bucket="Bucket", key="Key", data="Body", content_type="ContentType", metadata="Metadata"),
    }
    return Call("s3", inputs, lambda ref: Obj({"ETag": ref.get("etag")}, hidden=METADATA))


def _list_objects(args: Arguments) -> Call:
    inputs = {"action": "list", **args.inputs(bucket="Bucket", prefix="Prefix")}
    if args.take("MaxKeys") is not None or args.take("Delimiter") is not None:
        raise Unmapped(
            "MaxKeys and Delimiter of a list do not map", "list all objects below the prefix, and select", "/Parameters"
        )
    return Call("s3", inputs, lambda ref: Obj({
        "Contents": objects(ref.get("objects"), args.notes), "KeyCount": ref.get("count"), "IsTruncated": Const(False),
    }, hidden=METADATA))  # fmt: skip


OBJECT_KEYS: Final = {"Key": "key", "Size": "size", "Etag": "etag", "ETag": "etag", "LastModified": "last_modified"}


def objects(listed: Doc, notes: Notes) -> Doc:
    """Return the list of objects in S3, whose members have other names in the playbook."""

    def read(index: str | int) -> Doc:
        return listed_object(listed.item(index))

    def note() -> None:
        notes.attention("objects of S3 have the keys key, size, etag and last_modified", "check what reads the list")

    return View(listed, "objects", read, note)


def listed_object(one: Doc) -> Doc:
    return Obj({name: one.get(key) for name, key in OBJECT_KEYS.items() if name != "ETag"}, hidden={"ETag": one.get("etag")})


def _delete_object(args: Arguments) -> Call:
    return Call("s3", {"action": "delete", **args.inputs(bucket="Bucket", key="Key")}, lambda _: Obj({}, hidden=METADATA))


def _copy_object(args: Arguments) -> Call:
    source = args.need("CopySource")
    where = f"s3://{source.value}" if isinstance(source, Const) else "s3://{{ " + source.text() + " }}"
    inputs = {"action": "copy", "source": where, **args.inputs(bucket="Bucket", key="Key")}
    return Call("s3", inputs, lambda ref: Obj({"CopyObjectResult": Obj({"ETag": ref.get("etag")})}, hidden=METADATA))


def _email(args: Arguments) -> Call:
    message = args.take("Message") or args.need("Content").get("Simple")
    sender = args.take("Source") or args.need("FromEmailAddress")
    inputs = {"from": sender.yaml(), "to": args.need("Destination").get("ToAddresses").yaml()}
    inputs["subject"] = message.get("Subject").get("Data").yaml()
    body = message.get("Body")
    for name in ("Text", "Html"):
        if isinstance(body, Obj) and name in body.members:
            inputs[name.lower()] = body.get(name).get("Data").yaml()
    return Call("email", inputs, lambda ref: Obj({"MessageId": ref.get("message_id")}, hidden=METADATA))


SERVICES: Final[dict[str, Callable[[Arguments], Call]]] = {
    "lambda:invoke": _lambda,
    "sqs:sendMessage": _messages(
        "sqs", "queue", "QueueUrl", "MessageBody", group="MessageGroupId", dedup_id="MessageDeduplicationId", delay="DelaySeconds"
    ),
    "sns:publish": _messages(
        "sns", "topic", "TopicArn", "Message", subject="Subject", group="MessageGroupId", dedup_id="MessageDeduplicationId"
    ),
    "events:putEvents": _events,
    "states:startExecution": lambda args: _start(args, "", str),
    "http:invoke": _http,
    "apigateway:invoke": _gateway,
    "s3:getObject": _get_object,
    "s3:putObject": _put_object,
    "s3:listObjectsV2": _list_objects,
    "s3:deleteObject": _delete_object,
    "s3:copyObject": _copy_object,
    "ses:sendEmail": _email,
    "sesv2:sendEmail": _email,
}
"""The integrations that map, by service and action; `aws-sdk:` before them makes no difference but for Lambda's payload."""
