"""Translates Retry and Catch: names of errors to conditions, retriers to rules of a task, and the output of a catcher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from noetl_import.findings import Notes, Unmapped
from noetl_import.values import COMPOUND, PRIMARY, Doc, Expr, Obj, literal

SERVICES: Final = frozenset({"lambda", "dynamodb", "sqs", "sns", "stepfunctions", "sfn", "eventbridge", "events", "apigateway"})
MOST_ATTEMPTS: Final = 999_999
BODY: Final = "{0}.details.body | default('')"
"""The body of a failed signed request, which names its error."""
CODES: Final = {"Lambda.SdkClientException": "{0}.kind == 'connection'"}
KINDS: Final = {"States.Timeout": "timeout", "States.HeartbeatTimeout": "timeout", "States.Permissions": "auth"}


def matches(names: Sequence[str], error: str, origin: str = "") -> str:
    """Return the condition that an error, an expression such as `outcome.error`, has one of these names; "" for any error.

    A state with states of its own (`origin` is child or map) does not catch the failure of one that is unsupported.
    """
    found = _matches(names, error, origin)
    if origin not in ("child", "map") or not {"States.ALL", "States.TaskFailed"} & set(names):
        return found
    loud = f"{error}.kind != 'unsupported'"
    return f"{grouped(found)} and {loud}" if found else loud


def grouped(condition: str) -> str:
    """Return a condition as a part of a conjunction."""
    return f"({condition})" if " or " in condition else condition


def _matches(names: Iterable[str], error: str, origin: str) -> str:
    names, codes, kinds, others = list(names), list[Any](), list[str](), list[str]()
    if "States.ALL" in names:
        return ""
    for name in names:
        if name == "States.TaskFailed":
            others.append(f"{error}.kind != 'timeout'")
        elif name in KINDS:
            kinds.append(KINDS[name])
        elif name in CODES:
            others.append(CODES[name].format(error))
        else:
            codes += _codes_of(name)
    if origin == "signed":
        others += [f"{literal(code)} in {BODY.format(error)}" for code in codes]
        codes = []
    found = [_one_of(f"{error}.code", codes), _one_of(f"{error}.kind", kinds), *dict.fromkeys(others)]
    return " or ".join(text for text in found if text)


def _codes_of(name: str) -> list[Any]:
    """Return the error codes of a name: `DynamoDB.ConditionalCheckFailedException` is the code without its service."""
    if name.startswith("States.Http.StatusCode."):
        return [int(name.rpartition(".")[2])]
    service, _, code = name.partition(".")
    if service == "S3":
        return [code.removesuffix("Exception")]
    return [code] if code and service.lower() in SERVICES else [name]


def _one_of(value: str, names: list[Any]) -> str:
    names = list(dict.fromkeys(names))
    return "" if not names else f"{value} == {literal(names[0])}" if len(names) == 1 else f"{value} in {literal(names)}"


def retry_rules(retriers: list[Mapping[str, Any]], notes: Notes, origin: str = "") -> list[dict[str, Any]]:
    """Return the rules of a task's policy for its retriers."""
    if len(retriers) > 1:
        notes.attention(
            "the retriers count their attempts together; in the States Language each retrier counts its own",
            "check the numbers of attempts, if errors of several retriers can alternate",
            "/Retry",
        )
    return [_retry_rule(retrier, origin) for retrier in retriers]


def _retry_rule(retrier: Mapping[str, Any], origin: str) -> dict[str, Any]:
    error = matches(retrier["ErrorEquals"], "outcome.error", origin)
    when = f"outcome.status == 'error' and {grouped(error)}" if error else "outcome.status == 'error'"
    rule: dict[str, Any] = {"when": "{{ " + when + " }}"}
    attempts = min(retrier.get("MaxAttempts", 3), MOST_ATTEMPTS)
    if attempts == 0:
        return {**rule, "then": {"do": "fail"}}
    then: dict[str, Any] = {"do": "retry", "attempts": attempts + 1, "delay": retrier.get("IntervalSeconds", 1)}
    rate = retrier.get("BackoffRate", 2)
    if not isinstance(rate, int | float) or not isinstance(attempts, int):
        raise Unmapped("a retrier with a computed rate or number does not map", "write numbers", "/Retry")
    if rate != 1:
        then |= {"backoff": "exponential", **({} if rate == 2 else {"backoff_multiplier": rate})}
    if "MaxDelaySeconds" in retrier:
        then["max_delay"] = retrier["MaxDelaySeconds"]
    if retrier.get("JitterStrategy") == "FULL":
        then["jitter"] = True
    return {**rule, "then": then}


def error_output(error: str, origin: str) -> Doc:
    """Return the error output of a state, `{Error, Cause}`, from the error of its step.

    `origin` is lambda if the cause is the answer of a failed function, child if a playbook failed that is a part of the machine,
    signed if the body of the response names the error.
    """
    other = f"('States.Timeout' if {error}.kind == 'timeout' else 'States.TaskFailed')"
    name, cause = f"{error}.code or {other}", f"{error}.message"
    match origin:
        case "child":  # its message is behind the name of the playbook
            cause = f"{error}.message.partition(' failed: ')[2] or {error}.message"
        case "lambda":
            cause = f"{error}.details.payload | tojson if {error}.details.payload is defined else {error}.message"
        case "signed":
            name = f"{BODY.format(error)} | regex_search('[A-Za-z]+Exception') or {other}"
    return Obj({"Error": Expr(name, COMPOUND, "text"), "Cause": Expr(cause, COMPOUND if origin else PRIMARY, "text")})
