"""Masking of secrets in the answers of tools, for every usual accident that reveals one."""

from __future__ import annotations

import base64
import codecs
import html
import json
from collections.abc import Callable
from itertools import takewhile
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.adapters.local.results import LazyTempResultStore
from noetl_core.engine.outcome import ErrorInfo, Outcome
from noetl_core.expr import Secret
from noetl_core.tools.base import ToolCall
from noetl_core.tools.invoke import invoke
from noetl_core.tools.masking.forms import alike
from noetl_core.tools.masking.results import ScrubbedResults
from noetl_core.tools.masking.scrub import Scrubber

CANARY = "Canary+4f1D/0b6a2c&9e"
HALF = len(CANARY) // 2
DISGUISES: dict[str, Callable[[str], Any]] = {
    "as it is": lambda s: s,
    "within a text": lambda s: f"Bearer {s}, she said",
    "list(secret)": list,
    "tuple in a mapping": lambda s: {"chars": tuple(s)},
    "its bytes": lambda s: list(s.encode()),
    "pairs of characters": lambda s: [s[i : i + 2] for i in range(0, len(s), 2)],
    "swapcase": str.swapcase,
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "reversed": lambda s: s[::-1],
    "reversed, upper": lambda s: s[::-1].upper(),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 of more than it": lambda s: base64.b64encode(f"me:{s}!".encode()).decode(),
    "base64 one further": lambda s: base64.b64encode(f"you:{s}!!".encode()).decode(),
    "urlsafe base64": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base32": lambda s: base64.b32encode(s.encode()).decode(),
    "base32, lower, no padding": lambda s: base64.b32encode(s.encode()).decode().lower().rstrip("="),
    "hex": lambda s: s.encode().hex(),
    "hex in pairs": lambda s: s.encode().hex(":"),
    "quoted": lambda s: quote(s, safe=""),
    "html": html.escape,
    "json": lambda s: json.dumps(s),
    "repr": repr,
    "unicode escapes": lambda s: s.encode("unicode_escape").decode(),
    "rot13": lambda s: codecs.encode(s, "rot13"),
    "first half": lambda s: s[:HALF],
    "second half": lambda s: s[HALF:],
    "two halves": lambda s: {"a": s[:HALF], "b": s[HALF:]},
    "all but the first": lambda s: s[1:],
    "the middle": lambda s: f"...{s[4:16]}...",
    "half of the hex": lambda s: s.encode().hex()[: len(s)],
    "a key": lambda s: {s: 1},
}


def traces(value: Any) -> list[str]:
    """Pieces of 8 characters of the canary, in any of its shapes, that a value still has."""
    text = json.dumps(value).lower()
    shapes = [CANARY, CANARY[::-1], CANARY.encode().hex(), base64.b64encode(CANARY.encode()).decode()]
    shapes += [base64.b32encode(CANARY.encode()).decode(), codecs.encode(CANARY, "rot13"), quote(CANARY, safe="")]
    return [s[i : i + 8] for s in shapes for i in range(len(s) - 7) if s[i : i + 8].lower() in text]


class Says:
    """Answers with what it was given, in some shape, everywhere an answer has budget."""

    kind, inline = "says", True

    def __init__(self, shape: Callable[[str], Any]) -> None:
        self.shape = shape

    def run(self, call: ToolCall) -> Outcome:
        text = self.shape(call.inputs["token"])
        call.log(str(text))
        error = ErrorInfo("unknown", str(text), details={"said": text})
        return Outcome("error", result=text, error=error, helpers={"says": text}, meta={"said": text})


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_secret_comes_back_in_no_usual_shape_through_no_part_of_an_answer(disguise: str) -> None:
    lines: list[str] = []
    call = ToolCall("says", {"token": Secret(CANARY)}, log=lambda line, stream="stdout": lines.append(line))
    outcome = invoke(Says(DISGUISES[disguise]), call)
    assert outcome.error is not None
    parts = {"result": outcome.result, "helpers": outcome.helpers, "meta": outcome.meta, "details": outcome.error.details}
    if isinstance(DISGUISES[disguise](CANARY), str):  # the text of a list is a shape of an author's own making
        parts |= {"message": outcome.error.message, "log": lines}
    assert {name: found for name, part in parts.items() if (found := traces(part))} == {}
    assert "***" in json.dumps(outcome.result)


@pytest.mark.parametrize(
    "value",
    [
        "the canary in the mine",
        {"rows": [{"id": n, "name": f"row {n}"} for n in range(50)]},
        list(range(200)),
        ["a", "b", "c", "d", "e"],
        "x" * 1000,
        {"digest": "4f1d00aa", "n": 1.5, "none": None, "yes": True},
    ],
    ids=lambda v: str(v)[:30],
)
def test_values_without_a_secret_are_unchanged(value: Any) -> None:
    scrubber = Scrubber()
    scrubber.learn(CANARY)
    assert scrubber.value(value) == value


def test_a_short_secret_is_masked_as_it_is_written_and_no_more_than_that() -> None:
    scrubber = Scrubber()
    scrubber.learn("Ab3d")
    assert scrubber.text("Ab3d ab3d Ab3") == "*** ab3d Ab3"


def test_a_result_that_contains_a_short_secret_is_unchanged() -> None:
    outcome = invoke(
        Says(lambda s: [f"{s}graphics", f"the {s} failed", s, {s: f"x{s}"}]), ToolCall("says", {"token": Secret("demo")})
    )
    assert outcome.result == ["demographics", "the demo failed", "***", {"***": "xdemo"}]


WORD, JOINED, KEY, LONG_KEY = "demo", "sk-very-secret", "pass-2024", "production-password-1"


@pytest.mark.parametrize(
    ("secret", "text", "data", "log"),
    [
        # a word is a secret if it is all of a value, or where the text says so
        (WORD, "demo", "***", "***"),
        (WORD, "demographics", "demographics", "demographics"),
        (WORD, "a demo run", "a demo run", "a *** run"),
        (WORD, "the demo, demo_1 failed", "the demo, demo_1 failed", "the ***, demo_1 failed"),
        (WORD, "s3://demo/demo.csv", "s3://demo/demo.csv", "s3://***/***.csv"),
        (WORD, "Basic demo", "Basic demo", "Basic ***"),
        (WORD, "Bearer demo", "Bearer ***", "Bearer ***"),
        (WORD, "Authorization: Bearer demo", "Authorization: Bearer ***", "Authorization: Bearer ***"),
        (WORD, "Authorization: token demo", "Authorization: token ***", "Authorization: token ***"),
        (WORD, "token demo", "token ***", "token ***"),
        (WORD, "the token demo", "the token demo", "the token ***"),
        (WORD, "X-Api-Key: demo", "X-Api-Key: ***", "X-Api-Key: ***"),
        (WORD, "host=db user=demo password=demo", "host=db user=demo password=***", "host=db user=*** password=***"),
        (WORD, "PGPASSWORD='demo' psql", "PGPASSWORD='***' psql", "PGPASSWORD='***' psql"),
        (
            WORD,
            '{"user": "demo", "password": "demo"}',
            '{"user": "demo", "password": "***"}',
            '{"user": "***", "password": "***"}',
        ),
        (WORD, r"{\"pwd\": \"demo\"}", r"{\"pwd\": \"***\"}", r"{\"pwd\": \"***\"}"),
        (WORD, "password: demographics", "password: demographics", "password: demographics"),
        (WORD, "postgresql://demo:demo@db/demo", "postgresql://demo:***@db/demo", "postgresql://***:***@db/***"),
        (WORD, "https://x/?api_key=demo&q=demo", "https://x/?api_key=***&q=demo", "https://x/?api_key=***&q=***"),
        (WORD, "key: demo", "key: demo", "key: ***"),
        (WORD, "ZGVtbw==", "ZGVtbw==", "***=="),
        ("Ab3d", "is Ab3d", "is Ab3d", "is ***"),
        ("warehouse", "warehouses of warehouse", "warehouses of warehouse", "warehouses of ***"),
        ("warehouse", "secret: Warehouse", "secret: ***", "secret: ***"),
        ("20240131", "20240131T00", "20240131T00", "20240131T00"),
        ("20240131", "pin=1, password=20240131", "pin=1, password=***", "pin=1, password=***"),
        # words joined by punctuation are a secret where they stand alone
        (JOINED, "sk-very-secret", "***", "***"),
        (JOINED, "Authorization: Bearer sk-very-secret", "Authorization: Bearer ***", "Authorization: Bearer ***"),
        (JOINED, "with sk-very-secret.", "with ***.", "with ***."),
        (JOINED, "(SK-Very-Secret)", "(***)", "(***)"),
        (JOINED, "sk-very-secrets", "sk-very-secrets", "sk-very-secrets"),
        (JOINED, "ask-very-secret", "ask-very-secret", "ask-very-secret"),
        (JOINED, "task-sk-very-secret-2", "task-sk-very-secret-2", "task-***-2"),
        (JOINED, "very-secret", "very-secret", "***"),
        ("example.org", "www.example.org", "www.example.org", "www.***"),
        ("example.org", "at example.org, not example.organic", "at ***, not example.organic", "at ***, not example.organic"),
        ("open sesame", "say open sesame now", "say *** now", "say *** now"),
        ("open sesame", "reopen sesame", "reopen sesame", "reopen sesame"),
        # letters with digits or symbols from 8 characters on, and anything from 16 on, is a secret anywhere
        (KEY, "xpass-2024x", "x***x", "x***x"),
        ("p@ssword", "xp@ssword", "x***", "x***"),
        (LONG_KEY, "production", "production", "***"),
        (LONG_KEY, "production-passw", "***", "***"),
        ("qqqqwwwweeeerrrrtttt", "xqqqqwwwweeeerrrrttttx", "x***x", "x***x"),
    ],
)
def test_data_is_masked_where_it_holds_a_secret_and_not_where_it_holds_a_word(
    secret: str, text: str, data: str, log: str
) -> None:
    scrubber = Scrubber()
    scrubber.learn(secret)
    assert (scrubber.data(text), scrubber.text(text)) == (data, log)
    assert scrubber.value({"a": [text]}) == {"a": [data]}


def test_a_stored_object_is_masked_where_a_json_string_is_a_secret() -> None:
    scrubber = Scrubber()
    scrubber.learn(["demo", "warehouse"])
    assert scrubber.body('{"demo": "demo", "a": "demographics"}') == '{"***": "***", "a": "demographics"}'
    assert scrubber.body('["warehouse", "warehouses"]') == '["***", "warehouses"]'


STORED = (
    '{"note": "a demo run", "header": "Bearer demo", "url": "postgresql://demo:demo@db/demo", "name": "demo", "of": "warehouse",'
    ' "key": "sk-very-secret", "long": "task-sk-very-secret-2", "line": "password=demo demo"}\n'
)
SHOWN = (
    '{"note": "a demo run", "header": "Bearer ***", "url": "postgresql://demo:***@db/demo", "name": "***", "of": "***",'
    ' "key": "***", "long": "task-sk-very-secret-2", "line": "password=*** demo"}\n'
)


@pytest.mark.parametrize("size", [1, 7, 64, 500])
def test_a_stored_object_is_masked_in_pieces_as_it_is_as_a_whole(size: int) -> None:
    results = LazyTempResultStore()
    scrubber = Scrubber()
    scrubber.learn(["demo", "warehouse", "sk-very-secret"])
    with ScrubbedResults(results, scrubber, step=300).writer("k") as out:
        whole = STORED.encode() * 20
        for at in range(0, len(whole), size):
            out.write(whole[at : at + size])
        ref = out.finish()
    assert results.get(ref["key"]).decode() == SHOWN * 20


PIECES = ["demo", "sk-very-secret", "warehouse", "password=", "Bearer ", '"', " ", ", ", "x", "://u:", "@", "-", ".", "token: "]


@given(st.lists(st.sampled_from(PIECES), min_size=40, max_size=120), st.integers(100, 400))
def test_masking_in_pieces_equals_masking_the_whole_text(pieces: list[str], size: int) -> None:
    scrubber = Scrubber()
    scrubber.learn(["demo", "warehouse", "sk-very-secret"])
    text = rest = "".join(pieces)
    masked = ""
    while len(rest) > size and (settled := scrubber.settled(rest)):
        masked, rest = masked + scrubber.body(rest[:settled]), rest[settled:]
    assert masked + scrubber.body(rest) == scrubber.body(text)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("word", ["demo", "sk-very-secret"])
def test_a_stored_object_full_of_a_secret_is_passed_on_in_pieces(word: str) -> None:
    scrubber = Scrubber()
    scrubber.learn(word)
    text = f"password={word} " * 50_000
    assert scrubber.settled(text) > len(text) - 100_000


def test_public_fields_depend_on_the_kind_of_the_credential() -> None:
    scrubber = Scrubber()
    scrubber.learn(
        {"type": "postgres", "data": {"db_host": "db-7.example.org", "account": "acc0unt-1234", "password": "pass-2024-x"}}
    )
    assert scrubber.value(["db-7.example.org", "acc0unt-1234", "pass-2024-x"]) == ["db-7.example.org", "***", "***"]


def test_text_that_changes_its_length_in_lower_case_is_cut_in_the_right_place() -> None:
    scrubber = Scrubber()
    scrubber.learn(CANARY)
    assert scrubber.text(f"İİİ {CANARY.upper()} İ") == "İİİ *** İ"


@given(st.text("ab", max_size=300), st.integers(0, 300), st.text("abc", max_size=3), st.data())
def test_counting_equal_characters_in_strides_equals_counting_one_by_one(
    text: str, changed: int, into: str, data: st.DataObject
) -> None:
    form = text[:changed] + into + text[changed + 1 :]
    at, first = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(form)))
    after = takewhile(lambda pair: pair[0] == pair[1], zip(text[at:], form[first:], strict=False))
    before = takewhile(lambda pair: pair[0] == pair[1], zip(text[:at][::-1], form[:first][::-1], strict=False))
    assert alike(text, at, form, first) == len(list(after))
    assert alike(text, at, form, first, backwards=True) == len(list(before))
