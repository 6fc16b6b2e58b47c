"""`noetl gc`: deletes data that the local store need not keep, and frees the space."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from noetl_cli.app import Output, Store, app
from noetl_cli.backends.local_store import IN_MEMORY, default_store, is_there
from noetl_cli.display import output
from noetl_cli.errors import USAGE, Exit

DAY_US = 24 * 3600 * 1_000_000
MB = 1_000_000


@app.command()
def gc(
    days: Annotated[
        float | None,
        typer.Option(help="Also forget executions that ended more than this many days ago", metavar="N", min=0, max=36_500),
    ] = None,
    store: Store = None,
    output_: Output = "text",
) -> None:
    """Forget expired executions, unused limits and files of killed processes in the local store, and shrink it."""
    if store == IN_MEMORY:
        raise Exit(USAGE, "a store in memory ends with its process: there is nothing to forget")
    where = store or default_store()
    if not is_there(where):
        raise Exit(USAGE, f"there is no store at {where}: name another place with --store or NOETL_HOME")
    from noetl_core.runtime.local import LocalWiring  # 400 ms: needed only to open the local store

    before = _size(where)
    with closing(LocalWiring(where)) as wiring:
        if wiring.database.read_only:
            raise Exit(USAGE, f"the store {where} can only be read")
        ended_before = 0 if days is None else wiring.clock.now() - int(days * DAY_US)
        forgotten = wiring.forget(ended_before)
        wiring.database.vacuum()
    after = _size(where)
    if output_ != "text":
        output.as_data({"removed": forgotten, "bytes_before": before, "bytes_after": after}, output_)
        return
    counted = [f"{count} {kind.removesuffix('s') if count == 1 else kind}" for kind, count in forgotten.items() if count]
    left = f"{where} and its results have {after / MB:.1f} MB"
    print(f"removed {', '.join(counted) or 'nothing'}; freed {max(0, before - after) / MB:.1f} MB: {left}")


def _size(store: str) -> int:
    """Return the bytes of a store and of its results."""
    database, results = Path(store), Path(store).parent / "results"
    files = [database, Path(f"{store}-wal"), *(file for file in results.rglob("*") if file.is_file())]
    return sum(file.stat().st_size for file in files if file.exists())
