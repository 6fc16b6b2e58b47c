"""Commits and commands as bytes."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noetl_core.engine.records import LOG_VERSION, Command
from noetl_core.log.codec import decode_command, decode_events, encode_command, encode_events
from noetl_core.ports import CorruptLog, NewerLog, TooLarge
from tests.raw_events import stored

text = st.text(st.characters(), max_size=20)  # lone surrogates, NUL and non-characters included
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
data = st.dictionaries(text, values, max_size=4)
plain = st.builds(stored, st.sampled_from(["StepStarted", "CtxPatched", "NextEvaluated"]), st.integers(0, 2**53), data)


@st.composite
def step_ends(draw: st.DrawFn) -> tuple[Any, ...]:
    """The commit at the end of a one-task step; the step's result is often the task's."""
    result = draw(values)
    outcome = draw(
        st.sampled_from([{"status": "ok", "result": result}, {"status": "ok"}, {"status": "ok", "result": draw(values)}])
    )
    done = stored("StepDone", 2, {"result": result, "set_ctx": draw(data)})
    return (*draw(st.lists(plain, max_size=2)), stored("TaskProcessed", 1, {"task": "t", "outcome": outcome}), done)


def exactly(value: Any) -> str:
    """Text that tells 1, 1.0 and True apart."""
    return repr(value)


def done(held: Any, result: Any) -> tuple[Any, ...]:
    return (stored("TaskProcessed", 1, {"outcome": {"result": held}}), stored("StepDone", 2, {"result": result}))


@given(st.lists(plain, max_size=4).map(tuple) | step_ends(), st.booleans())
@example(done(1, True), False)
@example(done([1.0], [1]), True)
@example(done({"a": 0.0}, {"a": -0.0}), True)
@example((stored("CtxPatched", 1, {"result_from": 0}),), False)
def test_decoding_encoded_events_gives_the_same_events(events: tuple[Any, ...], compress: bool) -> None:
    decoded = decode_events(encode_events(events, compress=compress), LOG_VERSION)
    assert decoded == events
    for before, after in zip(events, decoded, strict=True):
        assert exactly(sorted(before.data.items())) == exactly(sorted(after.data.items()))


def test_a_result_is_stored_once() -> None:
    result = {"rows": ["some text that is long enough to be seen"] * 3}
    body = encode_events(done(result, dict(result)))
    assert body.count(b"rows") == 1
    assert decode_events(body, LOG_VERSION)[-1] == stored("StepDone", 2, {"result": result})


def test_compression_is_used_where_it_makes_the_body_smaller() -> None:
    small: tuple[Any, ...] = (stored("StepStarted", 1, {}),)
    large: tuple[Any, ...] = (stored("StepStarted", 1, {"text": "ab" * 500}),)
    assert encode_events(small, compress=True) == encode_events(small)
    assert zlib.decompress(encode_events(large, compress=True)) == encode_events(large)


def test_a_newer_version_is_refused_not_skipped() -> None:
    with pytest.raises(NewerLog, match="deploy the newer code"):
        decode_events(b"[]", LOG_VERSION + 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"{}x", b"[1]", b'[["a"]]', b"null", b"\x78\x9c broken", b'[["StepDone",1,{"result_from":7}]]', b"\xff\xfe\xfa"],
)
def test_a_body_that_does_not_read_is_a_corrupt_log(body: bytes) -> None:
    with pytest.raises(CorruptLog):
        decode_events(body, LOG_VERSION)


def test_data_that_json_cannot_represent_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_events((stored("CtxPatched", 1, {"n": float("nan")}),))
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TooLarge, match="nested"):
        encode_events((stored("CtxPatched", 1, {"n": deep}),))


mails = st.lists(st.dictionaries(text, values, max_size=2), max_size=2).map(tuple)
commands = st.builds(
    Command,
    execution_id=st.integers(0, 2**63 - 1).map(str),
    run_id=text,
    step=text,
    expected_seq=st.integers(0, 10**9),
    mode=st.sampled_from(["first", "resume", "takeover"]),
    as_of=st.integers(-1, 10**9),
    digest=text,
    pool=st.sampled_from(["default", "python"]),
    chunk=st.none() | st.integers(0, 10**6),
    loop=st.none() | data,
    mail=mails,
    context=st.none() | data,
    expires_at=st.integers(0, 2**40),
)


def joined(value: Any) -> Any:
    """Halves of a surrogate pair that stand side by side are one character to JSON."""
    return json.loads(json.dumps(value))


@given(commands)
def test_a_command_survives_its_message(command: Command) -> None:
    message = encode_command(command)
    assert message.isascii()
    decoded = decode_command(message)
    assert joined([getattr(decoded, f) for f in Command.__match_args__]) == joined(
        [getattr(command, f) for f in Command.__match_args__]
    )


@pytest.mark.parametrize("message", ["", "[]", "null", "{}", "3", '{"execution_id": "1"}', '{"wake": "7"}', '"text"'])
def test_a_message_that_holds_no_command_is_refused(message: str) -> None:
    with pytest.raises(ValueError):
        decode_command(message)
