"""A signal that arrives while the command is still loading ends it with the exit code of the signal."""

from __future__ import annotations

import subprocess
import sys

EARLY = """
import os, signal, sys
from noetl_cli import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "noetl_core.dsl.reading.diagnostics":
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["noetl", "--help"]
main.main()
"""


def test_a_signal_during_the_first_imports_has_its_exit_code() -> None:
    ended = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (143, "")
