"""Large JSON is decoded and encoded as small JSON is: each property compares the fast way with that of `json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noetl_core.tools.sandbox.plain import survey
from noetl_core.values import large_json
from noetl_core.values.large_json import JsonText, fast_encoded, loads, spliced, text_of
from noetl_core.values.outlines import building, checksum_of, outline_of
from noetl_core.worker.values.offload import NotJson, encode
from tests.properties import examples

floats = st.floats() | st.sampled_from([1e16, 1e-4, 9.9e-5, 1e15, -1e22, 5e-324, -0.0, 0.1, 1e300])
scalars = st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | floats
texts = st.text(max_size=8) | st.sampled_from(
    ["\ud800", "\udfff\ud800", "\u2028", "\x00", "\x7f", '"', "\\", "result_ref", "NaN"]
)
keys = st.text(max_size=3) | st.sampled_from(["a", "é", 'q"', "\ud83d", ""])
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=5), max_leaves=30
)
WRITTEN = [
    '{"a": 1, "a": 2, "b": 3, "a": 4}', "[1, 2", "[1]]", " [1 ]\n", "NaN", "-Infinity", "[nan]", "[Infinit]", "1e400", "-1e400", "1e-400", "[-0, -0.0, 0e5]",
    "[01]", "[1.]", "[.5]", "+1", "1E5", "1.5e+3", "18446744073709551616", "-9223372036854775809", "1" * 4300, "1" * 4301, "1" + "0" * 400 + ".0",
    "0.1000000000000000055511151231257827021181583404541015625", "9007199254740993.0", "2.2250738585072011e-308", '"\\ud800"', '"\\ud83d\\ude00"', '"\\u00"',
    '"a\tb"', '"\\x"', '"\\/"', '"\\u0000"', "\ufeff[1]", "[1,]", '{"a":1,}', "{1: 2}", "'a'", "", "nul", "[" * 150 + "]" * 150, "[" * 250 + "]" * 250,
    "[" * 5000, "/*c*/1", '"unended', "truex", "\x00", "[1]\x00", "\x0c1",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def everything_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(large_json, "LARGE", 0)
        patched.setattr(building, "LARGE", 0)
        yield


def spelled(value: Any) -> str:
    """The value with its types and the spelling of its floats, so that 1, 1.0 and true differ, and the order of keys counts."""
    return repr(value)


def read(decode: Any, body: bytes) -> str:
    try:
        return spelled(decode(body))
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


def test_the_fast_library_is_installed() -> None:
    """It is one of the layer: without it the other tests would compare `json` with itself."""
    assert large_json.fast_codec() is not None and fast_encoded([1, "ä", None]) == '[1,"ä",null]'.encode()


@pytest.mark.parametrize(
    "code",
    [
        "def to_json(value): return b''",
        "def to_json(value, **more): return b'1'\ndef from_json(text): return 1",
        "raise KeyError",
    ],
    ids=["older", "other", "broken"],
)
def test_another_library_in_its_place_is_not_used(code: str, tmp_path: Path) -> None:
    """The packages of an author may have any version of it."""
    (tmp_path / "pydantic_core.py").write_text(code)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        patched.delitem(sys.modules, "pydantic_core")
        large_json.fast_codec.cache_clear()
        try:
            assert loads(b"[1, 2]") == [1, 2] and fast_encoded([1, 2]) is None
        finally:
            large_json.fast_codec.cache_clear()


@pytest.mark.parametrize("text", WRITTEN)
def test_hand_written_json_is_read_as_by_the_standard_library(text: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    assert read(loads, body) == read(json.loads, body)


@pytest.mark.parametrize(
    "body", [b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\x80"', "[1]".encode("utf-16"), "[1]".encode("utf-32-le"), b"\xef\xbb\xbf1"]
)
def test_other_encodings_are_read_as_by_the_standard_library(body: bytes) -> None:
    assert read(loads, body) == read(json.loads, body)


@examples(100)
@given(values, st.booleans(), st.sampled_from([None, 1, " "]))
def test_json_of_the_standard_library_is_read_back_equally(value: Any, ascii: bool, indent: Any) -> None:
    body = json.dumps(value, ensure_ascii=ascii, indent=indent).encode("utf-8", "surrogatepass")
    assert read(loads, body) == read(json.loads, body)


@examples(100)
@given(values, st.data())
def test_damaged_text_is_read_as_by_the_standard_library(value: Any, data: st.DataObject) -> None:
    body = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 2))] = data.draw(
        st.sampled_from([b"", b",", b'"', b"1", b"]", b"e9", b"-", b"\\", b"\x01", b"\xff", b"."])
    )
    assert read(loads, bytes(body)) == read(json.loads, bytes(body))


@examples(100)
@given(values)
@example([1e16])
@example([1e-5])
@example({"a": float("nan")})
def test_a_text_is_kept_only_if_the_engine_would_write_it(value: Any) -> None:
    try:
        body = encode(value)
    except NotJson:
        body = json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogatepass")
        assert text_of(json.loads(body), body) is None
        return
    text = text_of(json.loads(body), body)
    assert text is not None and text.body == body and spelled(text.value) == spelled(value)
    assert spelled(JsonText(body).value) == spelled(value)


@pytest.mark.parametrize(
    "body", [b'{"a":1,"a":1}', b"[1, 2]", b'["\\u0061"]', b"[1e2]", b"[NaN]", b'["\\ud800"]', b"[1e400]", b"[1]\n", b'["\\/"]']
)
def test_other_spellings_are_not_kept(body: bytes) -> None:
    assert text_of(loads(body), body) is None


@examples(100)
@given(values)
def test_fast_encoding_gives_the_bytes_of_the_ordinary_encoding(value: Any) -> None:
    found = survey(value)
    if found is not None and found.short_floats and (body := fast_encoded(value)) is not None:
        assert body == encode(value)


@examples(100)
@given(st.lists(values, min_size=1, max_size=8) | st.dictionaries(keys, values, min_size=1, max_size=8), st.integers(8, 60))
def test_an_outline_is_the_same(value: Any, block: int) -> None:
    try:
        body = encode(value)
    except NotJson:
        return
    with pytest.MonkeyPatch.context() as patched:
        fast = outline_of(value, body, checksum_of(body), over=0, block=block)
        patched.setattr(building, "LARGE", len(body) + 1)
        assert fast == outline_of(value, body, checksum_of(body), over=0, block=block)


@pytest.mark.parametrize("number", [1e16, 1e-5, 1.5])
def test_an_outline_of_floats_with_exponents_is_the_same(number: float) -> None:
    """Twice `1e16` is two bytes shorter, once `1e-05` two bytes longer: sizes alone would not show the difference."""
    value = [number, 1e16, 1e16, 1e-5, ["x" * 30]]
    body = encode(value)
    fast = outline_of(value, body, checksum_of(body), over=0, block=8)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(building, "LARGE", len(body) + 1)
        assert fast is not None and fast == outline_of(value, body, checksum_of(body), over=0, block=8)


@examples(100)
@given(values, values)
def test_texts_are_spliced_where_their_values_would_be(outer: Any, inner: Any) -> None:
    body = json.dumps(inner, separators=(",", ":")).encode()
    text = JsonText(body)
    assert read(json.loads, spliced({"a": outer, "b": [text, {"c": text}], "d": outer})) == spelled(
        json.loads(json.dumps({"a": outer, "b": [inner, {"c": inner}], "d": outer}))
    )


def test_other_objects_are_not_spliced() -> None:
    with pytest.raises(TypeError, match="Object of type object is not JSON serializable"):
        spliced({"a": object()})
