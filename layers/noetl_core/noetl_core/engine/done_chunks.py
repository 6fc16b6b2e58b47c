"""Stores the finished chunks of a distributed loop compactly: a loop may have a hundred thousand, and its state is stored and
loaded often while it is in progress.

Neighbours form a block. In an incomplete block each finished chunk is a row. A complete block becomes a text of columns, where a
column whose values are all equal holds one. No decision between the first chunk and the last reads such a text: the block tells
whether a chunk is finished, and counts are kept separately. A closing loop reads all texts, and a view of an iteration reads one.

The stored form depends only on which chunks are finished, not on the order in which they ended. A chunk that is added twice
counts once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from noetl_core.engine import ids
from noetl_core.events.shapes import ChunkDone, Counts
from noetl_core.values.frozen import mutable

BLOCK: Final = 256
"""Chunks of a block: as rows they take some 8 KB, as a text some 50 bytes beside their results. Snapshots are cut so: another
number is another version of the fold."""
TRIED: Final = 8
"""Chunks that are examined to find the runs from which a redrive keeps them."""
EPOCHS: Final = 64
"""Redrives back that are tried for that."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode


class Origin(NamedTuple):
    """The lead run whose chunks have ids that follow from their indexes, and the epoch in which they were scheduled."""

    lead: str
    epoch: int


class DoneChunk(NamedTuple):
    """A finished chunk: the position of its boundary, its counts, and its result if that is small. A plain row, as it is
    stored."""

    run: str | int
    """Its run, or the number of the origin from which the run follows."""
    seq: int
    succeeded: int
    failed: int
    writes: bool = False
    result: Any = None
    innermost: Counts | None = None
    """For a nested loop: the counts of its innermost loop."""


@mutable
class DoneChunks:
    """The finished chunks of one loop, by index."""

    execution_id: str
    chunks: int
    """The number of chunks of the loop."""
    origins: list[Origin]
    """The loop's own lead; then one whose chunks a redrive keeps."""
    count: int = 0
    failed: int = 0
    """Iterations of the loop itself that failed."""
    ended: int = 0
    """Iterations of the loop itself that began."""
    innermost: Counts = field(default_factory=lambda: Counts(total=0, succeeded=0, failed=0))
    """Iterations of the innermost loop in these chunks."""
    rows: dict[str, dict[str, DoneChunk]] = field(default_factory=dict)
    """The chunks of incomplete blocks, by block and index (both as text, because keys of JSON are text)."""
    texts: dict[str, str] = field(default_factory=dict)
    """Complete blocks, by number."""

    def __len__(self) -> int:
        return self.count

    def __contains__(self, index: int) -> bool:
        block = str(index // BLOCK)
        return block in self.texts or str(index) in self.rows.get(block, ())

    def add(self, index: int, chunk: ChunkDone) -> None:
        """Add a finished chunk; a known chunk changes nothing."""
        if index in self:
            return
        counts = chunk.get("innermost")
        row = DoneChunk(
            self._origin_of(index, chunk["run"]),
            chunk["seq"],
            chunk["succeeded"],
            chunk["failed"],
            chunk.get("writes", False),
            chunk.get("result"),
            counts,
        )
        self._count(row)
        block = str(index // BLOCK)
        rows = self.rows.setdefault(block, {})
        rows[str(index)] = row
        first = index // BLOCK * BLOCK
        if len(rows) == min(BLOCK, self.chunks - first):
            self.texts[block] = _text([rows[str(n)] for n in range(first, first + len(rows))])
            del self.rows[block]

    def take_over(self, kept: Mapping[str, ChunkDone], lead: str) -> None:
        """Add the chunks that a redrive keeps, most of which were those of `lead`."""
        tried = [(int(index), kept[index]["run"]) for index in list(kept)[:TRIED]]
        epoch = self.origins[0].epoch
        epochs = (
            e
            for e in range(epoch - 1, max(-1, epoch - 1 - EPOCHS), -1)
            if any(run == ids.chunk_run_id(self.execution_id, lead, index, e) for index, run in tried)
        )
        if (found := next(epochs, None)) is not None:
            self.origins.append(Origin(lead, found))
        for index, chunk in kept.items():
            self.add(int(index), chunk)

    def _origin_of(self, index: int, run: str) -> str | int:
        for number, (lead, epoch) in enumerate(self.origins):
            if run == ids.chunk_run_id(self.execution_id, lead, index, epoch):
                return number
        return run

    def _count(self, row: DoneChunk) -> None:
        """Count its iterations. One of the innermost loop that never began counts as one (as in
        `worker.run_tree.LoopNode.counts`)."""
        ended, so_far = row.succeeded + row.failed, self.innermost
        inner: Counts = row.innermost or {"total": ended, "succeeded": row.succeeded, "failed": row.failed}
        self.count, self.failed, self.ended = self.count + 1, self.failed + row.failed, self.ended + ended
        self.innermost = {
            "total": so_far["total"] + inner["total"],
            "succeeded": so_far["succeeded"] + inner["succeeded"],
            "failed": so_far["failed"] + inner["failed"],
        }

    def next_missing(self, index: int) -> int | None:
        """Return the first chunk from `index` on that is not done."""
        while index < self.chunks:
            block = index // BLOCK
            if str(block) in self.texts:
                index = (block + 1) * BLOCK
            elif str(index) in self.rows.get(str(block), ()):
                index += 1
            else:
                return index
        return None

    def in_order(self) -> Iterator[tuple[int, DoneChunk]]:
        """Yield all by index."""
        blocks = sorted({*map(int, self.texts), *map(int, self.rows)})
        for block in blocks:
            yield from self._block(block)

    def run(self, index: int) -> str | None:
        """Return the run of a chunk; None: it is not done."""
        return next((self.run_of(n, chunk) for n, chunk in self._block(index // BLOCK) if n == index), None)

    def run_of(self, index: int, chunk: DoneChunk) -> str:
        """Return the run of a chunk."""
        if isinstance(chunk.run, str):
            return chunk.run
        lead, epoch = self.origins[chunk.run]
        return ids.chunk_run_id(self.execution_id, lead, index, epoch)

    def _block(self, block: int) -> Iterator[tuple[int, DoneChunk]]:
        text = self.texts.get(str(block))
        if text is None:
            yield from sorted((int(index), chunk) for index, chunk in self.rows.get(str(block), {}).items())
            return
        yield from enumerate(_chunks_in(text, min(BLOCK, self.chunks - block * BLOCK)), block * BLOCK)


def _text(rows: list[DoneChunk]) -> str:
    """Return the columns of a block. Values are compared as they are stored: 1 is neither true nor 1.0."""
    columns = []
    for column in zip(*rows, strict=True):
        values = [_encode(value) for value in column]
        columns.append(values[:1] if len(set(values)) == 1 else values)
    return "[" + ",".join(f"[{','.join(values)}]" for values in columns) + "]"


def _chunks_in(text: str, count: int) -> Iterator[DoneChunk]:
    columns = (column * count if len(column) == 1 else column for column in json.loads(text))
    return map(DoneChunk._make, zip(*columns, strict=True))
