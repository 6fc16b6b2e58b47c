"""`python -m tests.asl FILE...`: the cases of files on the emulator's Step Functions and as imported playbooks, side by side."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.asl import cases, imported
from tests.asl.compare import differences
from tests.asl.emulator import emulator


def main(files: list[str]) -> int:
    """Print a line for each case, and what differs; return 1 if something does."""
    failed = count = 0
    with tempfile.TemporaryDirectory() as folder, emulator(Path(folder)) as theirs:
        for file in (file for file in files if file != "-v"):
            for case in cases.read(Path(file)):
                expected = theirs.run(case)
                found, ours = imported.run(case)
                differs = differences(case, expected, ours)
                if "-v" in sys.argv:
                    sys.stdout.write(f"{expected}\n{ours}\n")
                levels = [each.level for each in found.findings]
                notes = f"{levels.count('attention')} attention, {levels.count('unsupported')} unsupported"
                sys.stdout.write(
                    f"{'differs' if differs else 'same':8} {case.name:60} {expected.status} {expected.error or ''} ({notes})\n"
                )
                for each in differs:
                    sys.stdout.write(f"         {each}\n")
                failed, count = failed + bool(differs), count + 1
    sys.stdout.write(f"{count - failed} of {count} cases end the same\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
