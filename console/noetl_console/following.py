"""Lets the open pages follow the newest execution, for `noetl dev`.

The pages load one more script. If they show the execution before the newest one, or none in particular, they show the same view
of the newest one. While it runs they ask for its changes, also after a redrive of an ended execution, which pages expect rarely.
"""

from __future__ import annotations

from dataclasses import dataclass

from noetl_console.assets import INDEX, Asset, asset

PATH = "/newest"
_SCRIPT_NAME = "following.js"
_SCRIPT = b"""\
let known = "", before = "";
async function look() {
  try {
    const now = await (await fetch("newest")).text();
    const [id, , runs] = now.split(" ");
    const view = location.hash.split("?")[0];
    if (id && id !== known) {
      if (view.length < 3) location.replace(`#/executions/${id}/graph`);
      else if (known && view.startsWith(`#/executions/${known}`)) location.replace(view.replace(known, id));
      known = id;
    }
    if (runs || now !== before) document.dispatchEvent(new Event("visibilitychange"));
    before = now;
  } catch {}
  setTimeout(look, 1000);
}
look();
"""


@dataclass
class Following:
    """The newest execution."""

    execution_id: str = ""
    runs: bool = False
    changes: int = 0
    """The number of times that it began or ended to run: a run may be over between two looks of a page."""

    def begin(self, execution_id: str) -> bool:
        """Follow an execution that begins or goes on. Return whether it is another one than before."""
        is_new, self.execution_id, self.runs = execution_id != self.execution_id, execution_id, True
        self.changes += 1
        return is_new

    def end(self) -> None:
        """Take note that nothing runs."""
        self.runs = False
        self.changes += 1

    def text(self) -> str:
        """Return the answer to the pages: the id, the number of changes, `runs`."""
        return f"{self.execution_id} {self.changes} {'runs' if self.runs else ''}".rstrip()


def with_script(assets: dict[str, Asset]) -> dict[str, Asset]:
    """Return the assets with pages that follow the newest execution."""
    script = f'<script type="module" src="{_SCRIPT_NAME}"></script>\n</head>'.encode()
    index = assets[INDEX].body.replace(b"</head>", script)
    return {**assets, INDEX: asset(".html", index), _SCRIPT_NAME: asset(".js", _SCRIPT)}
