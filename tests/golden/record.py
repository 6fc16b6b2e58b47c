"""Record golden histories: `python -m tests.golden.record [NAME...] [--force]`, all that are missing without a name.

A history that is there is what some user's log holds: it is written over only with `--force`, and only those that are named.
"""

from __future__ import annotations

import argparse
import sys

from tests.golden.logs import FOLDER, taken, write
from tests.golden.scenarios import SCENARIOS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SCENARIOS, []], metavar="NAME")
    parser.add_argument("--force", action="store_true", help="write over the histories that are named")
    options = parser.parse_args(arguments)
    if options.force and not options.names:
        parser.error("--force needs the names of the histories to write over")
    for name in options.names or SCENARIOS:
        if (FOLDER / f"{name}.json").exists() and not options.force:
            if options.names:
                sys.stderr.write(f"{name}: is there; --force writes over it\n")
                return 1
            continue
        scenario = SCENARIOS[name]
        world, execution_id, sources = scenario.play(name)
        golden = taken(world, execution_id, scenario.about, sources)
        write(name, golden)
        sys.stdout.write(f"{name}: {golden.expect['status']}, {len(golden.commits)} commits\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
