"""A read through an outline equals a read of the value: any value, any path, blocks of a few bytes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_core.expr import Scope, TemplateError, render, truthy
from noetl_core.values.outlines import (
    Container,
    JsonOutline,
    LineOutline,
    OutlinedPart,
    Part,
    Span,
    checksum_of,
    outline_of,
    read_outline,
)
from noetl_core.values.strict_json import parsed
from tests.properties import examples

scalars = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(max_size=8) | st.sampled_from(["a", "b", "rows", "items", "keys", "é\n", '"', "\\", "\u2028", "result_ref"])
names = st.sampled_from(["a", "b", "rows", "items", "get", "length", "é", 'q"', "0"])
values = st.recursive(
    scalars | texts, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(names, inner, max_size=6), max_leaves=60
)
tables = st.builds(
    lambda rows, columns, more: {"rows": rows, "columns": columns, "row_count": len(rows), **more},
    st.lists(values, max_size=6),
    st.lists(names, max_size=3),
    st.sampled_from([{}, {"a": 1}, {"commands": [None]}, {"commands": [{"rows": [1]}, None]}]),
)
responses = st.builds(
    lambda data, headers: {"status": 200, "headers": headers, "data": data, "url": "u", "elapsed_ms": 1},
    values,
    st.dictionaries(names, st.text(max_size=3), max_size=3),
)
containers = (
    tables | responses | st.lists(values, min_size=1, max_size=12) | st.dictionaries(names, values, min_size=1, max_size=8)
)
steps = st.lists(
    st.sampled_from(
        [
            '["a"]',
            ".a",
            ".rows",
            ".items",
            '["b"]',
            ".get('rows')",
            "[0]",
            "[1]",
            "[-1]",
            "[3]",
            "[-40]",
            "['0']",
            "[true]",
            "[1.5]",
            ".command_0",
            ".command_1",
            ".status_code",
            ".body",
            ".get('command_0')",
            ".headers['A']",
        ]
    ),
    max_size=3,
).map("".join)
numbers = st.integers(-12, 12).map(str) | st.just("")
slices = st.tuples(numbers, numbers, st.sampled_from(["", "1", "2", "-1", "-3"])).map(":".join)
ends = st.sampled_from(
    [
        "{}", "{} | length", "{} | count", "len({})", "{} | first", "{} | last", "{} is defined", "{} is mapping", "{} is sequence",
        "{} is none", "{} is string", "{} is iterable", "{} is number", "{} | default(7)", "{} | default(7, true)", "'a' in {}",
        "1 in {}", "'a' not in {}", "{}.get('a', 5)", "{}.keys()", "{}.values()", "{}.items()", "{}.count(1)", "{}.index(1)", "{} | tojson",
        "{} | list", "{} == {}", "{} == [1]", "[{}, 1]", "{{'n': {}}}", "{} or 3", "{} and 3", "not {}", "1 if {} else 2", "{} ~ 'x'",
        "{} + 1", "{} + {}", "{}()", "{} | map(attribute='a') | list", "{} | selectattr('a') | list", "{} | sum", "{} | string", "{} | reverse",
        "{} | join(',')", "{} | items", "{} < 3", "-{}", "range({} | length)", "'%s' % {}", "{} | attr('a')", "dict({})", "{}.__class__",
    ]
)  # fmt: skip


class Whole:
    """`PartSource` of bytes."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.read = 0

    def load(self, spans: Sequence[Span], path: tuple[Any, ...]) -> list[Any]:
        self.read += sum(span.size for span in spans)
        loaded = [span.value(self.body[span.start : span.stop]) for span in spans]
        if spans[0].container.kind != "lines":
            at = json.loads(self.body)
            for key in path:
                at = at[key]
            assert [span.of(at) for span in spans] == loaded
        return loaded


def told(value: Any, block: int) -> tuple[bytes, Container | None]:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    outline = outline_of(value, body, checksum_of(body), over=0, block=block)
    if outline is None:
        return body, None
    ref = {"key": "1/x.json", "checksum": checksum_of(body), "size": len(body), "outline": checksum_of(outline)}
    container = read_outline(ref, outline)
    assert container is not None
    return body, container


def outcome_of(template: str, scope: Scope) -> Any:
    try:
        return repr(render(template, scope))
    except TemplateError as error:
        return type(error), str(error)


REF = {"kind": "result_ref", "store": "s3", "key": "1/x.json", "size": 9, "checksum": "c", "outline": "o"}


@pytest.mark.nightly
@examples(600)
@given(containers, st.integers(1, 60), steps, ends, slices | st.none())
def test_a_template_reads_the_same_by_path_as_from_the_whole_value(
    value: Any, block: int, path: str, end: str, part: str | None
) -> None:
    body, container = told(value, block)
    assert container is not None
    source = Whole(body)

    def opened(ref: Any) -> Part:
        return OutlinedPart(container, source)

    by_parts = Scope({"x": REF}, resolve=lambda ref: json.loads(body), open=opened)
    whole = Scope({"x": REF}, resolve=lambda ref: json.loads(body))
    read = f"x{path}" + (f"[{part}]" if part is not None else "")
    template = "{{ " + end.format(read, read) + " }}"
    assert outcome_of(template, by_parts) == outcome_of(template, whole)
    loop = f"{{% for one in {read} %}}{{{{ loop.index }}}}{{{{ one }}}};{{% endfor %}}"
    assert outcome_of(loop, by_parts) == outcome_of(loop, whole)


@pytest.mark.nightly
@examples(150)
@given(containers, st.integers(1, 60), steps)
def test_a_condition_holds_by_path_exactly_as_on_the_whole_value(value: Any, block: int, path: str) -> None:
    body, container = told(value, block)
    assert container is not None
    by_parts = Scope({"x": REF}, resolve=lambda ref: json.loads(body), open=lambda ref: OutlinedPart(container, Whole(body)))
    template = f"{{{{ x{path} }}}}"
    outcomes: list[Any] = []
    for scope in (by_parts, Scope({"x": REF}, resolve=lambda ref: json.loads(body))):
        try:
            outcomes.append(truthy(template, scope))
        except TemplateError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.nightly
@examples(100)
@given(
    st.lists(values, min_size=1, max_size=20), st.integers(1, 60), st.sampled_from([b"\n", b"\r\n", b"\n\n"]), st.integers(1, 9)
)
def test_json_lines_written_in_pieces_read_as_a_list_of_rows(rows: list[Any], block: int, end: bytes, piece: int) -> None:
    body = b"".join(json.dumps(row).encode() + end for row in rows)
    outline = LineOutline(block)
    for at in range(0, len(body), piece):
        outline.write(body[at : at + piece])
    stored = outline.finish(checksum_of(body), over=0)
    assert stored is not None
    ref = {"key": "1/x.jsonl", "checksum": checksum_of(body), "size": len(body), "outline": checksum_of(stored)}
    container = read_outline(ref, stored)
    assert container is not None
    part = OutlinedPart(container, Whole(body))
    assert len(part) == len(rows) and part.whole() == rows
    assert [part[at] for at in range(-len(rows), len(rows))] == rows + rows
    assert part.slice(slice(1, None, 2)) == rows[1::2]


# --- text that somebody else wrote ---------------------------------------------------------------------------------------

written = st.sampled_from(
    [
        {"separators": (",", ":"), "ensure_ascii": False},
        {"indent": 2},
        {"indent": "\t", "ensure_ascii": False},
        {"separators": (" ,\r\n", "  :  ")},
    ]
)


def passed(body: bytes, cuts: Sequence[int], block: int, at_once: int) -> Container | None:
    """Return the outline of a text that came in pieces."""
    outline = JsonOutline(block, at_once)
    for first, last in pairwise([0, *sorted(cuts), len(body)]):
        outline.write(body[first:last])
    stored = outline.finish(checksum_of(body), over=0)
    if stored is None:
        return None
    ref = {"key": "1/x.json", "checksum": checksum_of(body), "size": len(body), "outline": checksum_of(stored)}
    container = read_outline(ref, stored)
    assert container is not None
    return container


@pytest.mark.nightly
@examples(600)
@given(
    containers,
    written,
    st.sampled_from(["", " ", "\n\n"]),
    st.lists(st.integers(0, 400), max_size=6),
    st.integers(1, 60),
    st.integers(8, 80),
    steps,
    ends,
)
def test_json_in_any_format_reads_the_same_by_path_as_whole(
    value: Any, how: dict[str, Any], around: str, cuts: list[int], block: int, at_once: int, path: str, end: str
) -> None:
    body = (around + json.dumps(value, **how) + around).encode()
    container = passed(body, [cut for cut in cuts if cut < len(body)], block, at_once)
    assert container is not None
    source = Whole(body)
    by_parts = Scope({"x": REF}, resolve=lambda ref: json.loads(body), open=lambda ref: OutlinedPart(container, source))
    whole = Scope({"x": REF}, resolve=lambda ref: json.loads(body))
    template = "{{ " + end.format(f"x{path}", f"x{path}") + " }}"
    assert outcome_of(template, by_parts) == outcome_of(template, whole)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"  ", b"1", b'"a"', b"[", b"[1", b"[1,", b"[1,]", b"[,1]", b"[1 2]", b"[1]]", b"[1] x", b"[1}", b"{1: 2}", b'{"a" 1}', b'{"a": }',
        b'{"a": 1, "a": 2}', b'{"a": 1,}', b"[nan]", b"[NaN]", b"[Infinity]", b"[1e999]", b'["\\ud800"]', b'["\xff"]', b"\xef\xbb\xbf[1]", b"[01]", b"[tru]",
        b'["a\nb"]', b"[]", b"{}", b"[[[[[[[[[[[[[[[[[[[[[[[", b'{"\xff": 1}', b"[1]\0",
    ],
)  # fmt: skip
@pytest.mark.parametrize("at_once", [1, 1000])
def test_invalid_json_and_values_without_parts_have_no_outline(body: bytes, at_once: int) -> None:
    for cut in range(len(body) + 1):
        assert passed(body, [cut], 1, at_once) is None


@examples(300)
@given(st.binary(max_size=40) | st.text('[]{},:"\\ 01ea-.', max_size=30).map(str.encode), st.integers(1, 20))
def test_a_body_that_has_an_outline_parses_as_a_whole(body: bytes, at_once: int) -> None:
    if passed(body, [], 1, at_once) is not None:
        parsed(body)


@pytest.mark.nightly
def test_a_text_of_any_size_is_outlined_in_constant_memory() -> None:
    row = json.dumps({"id": 1, "name": "x" * 80, "tags": [1, 2, 3]}, indent=1).encode()
    outline, total = JsonOutline(), 0
    tracemalloc.start()
    outline.write(b'{"data": {"rows": [' + row)
    for _ in range(100):
        piece = (b", " + row) * 800
        outline.write(piece)
        total += len(piece)
    outline.write(b'], "next": null}}')
    stored = outline.finish("sha256:x")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert stored is not None and total > 10_000_000
    assert peak < 5_000_000
    told = json.loads(stored)["root"]["b"]
    assert [block[0] for block in told[0][2]["b"]] == [["rows"], ["next"]]
    assert sum(block[0] for block in told[0][2]["b"][0][2]["b"]) == 80_001
