"""The examples of docs/python.md run as shown."""

from __future__ import annotations

import doctest
import os
import re
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_examples_for_python_programs_run_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / ".noetl"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    text = PAGE.read_text()
    (playbook,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (tmp_path / "hello.yaml").write_text(playbook)
    blocks = [
        "\n" * (text.count("\n", 0, m.start()) + 1) + m[1]
        for m in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    output: list[str] = []
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, names, PAGE.name, str(PAGE), 0)
        runner.run(test, out=output.append, clear_globs=False)
        names = test.globs
    assert runner.summarize(verbose=False) == (0, sum(block.count("\n>>> ") for block in blocks)), "".join(output)
