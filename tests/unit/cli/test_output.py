"""Commands write their output while they produce it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import pytest

from noetl_cli.display import output

MANY = 3 * output.BATCH + 1


@pytest.mark.parametrize("count", [0, 1, output.BATCH, MANY])
def test_a_list_is_one_json_value_however_long(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    values = [{"n": n, "text": "ü\u2028"} for n in range(count)]
    output.as_list(iter(values))
    out = capsys.readouterr().out
    assert out == json.dumps(values, ensure_ascii=False) + "\n"
    output.as_lines(iter(values))
    assert [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]] == values


@pytest.mark.parametrize("form", [output.as_list, output.as_lines])
def test_no_more_is_held_than_is_encoded_together(form: Any) -> None:
    made = written = most = 0

    class Standard(io.StringIO):
        def write(self, text: str) -> int:
            nonlocal written
            written += text.count('"n"')
            return len(text)

    def values() -> Iterator[dict[str, int]]:
        nonlocal made, most
        for made in range(1, MANY + 1):
            most = max(most, made - written)
            yield {"n": made}

    with redirect_stdout(Standard()):
        form(values())
    assert written == made == MANY
    assert most <= output.BATCH


def test_messages_follow_the_output_before_them() -> None:
    program = "from noetl_cli.errors import say; print('first'); say('second'); print('third')"
    done = subprocess.run(
        [sys.executable, "-E", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    assert done.stdout.splitlines() == ["first", "second", "third"]
