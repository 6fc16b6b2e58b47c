"""Completes and explains the text of an editor by the analysis of the language server, which needs no server for it."""

from __future__ import annotations

import json
import re
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from noetl_console.answering import Answered, Asked, refused

if TYPE_CHECKING:
    from noetl_lsp.completion import Item
    from noetl_lsp.keys import Keys
    from noetl_lsp.model import Model

ROUTE: Final = "/api/console/help"
"""No route of the API: the console of a local store answers it."""
LONGEST: Final = 256 * 1024
"""Characters of a text that is read for an answer, some 2,500 steps; a page uses the schema for a longer one."""
LONGEST_VALIDATED: Final = 64 * 1024
"""Characters of a text that is validated for each answer, in 0.3 s; the fields of results are unknown in a longer one."""
PATIENCE_S: Final = 2
"""Seconds that a request waits for the one before it."""
_PATH: Final = re.compile(r"\bpath:\s*[\"']?([^\s\"',}]+)")
_FENCE: Final = re.compile(r"^```.*\n?", re.MULTILINE)
_CLASSES: Final = {"key": "property", "value": "enum", "namespace": "namespace", "task": "method", "step": "class"}
_CLASSES.update(dict.fromkeys(("function", "filter", "test"), "function"))
"""The icons of CodeMirror by the kinds of completions; `property` is a key of the playbook."""
_HIGHEST: Final = 99
"""The highest rank of a completion in CodeMirror."""
_one_at_a_time: Final = threading.Lock()
_valid: Final[LRUCache[str, Model]] = LRUCache(4)
"""The last valid versions, by the paths of their playbooks: a text that is half typed is seldom valid."""


def answer(asked: Asked) -> Answered:
    """Return what may be typed at `at` of `source` in the body, and what stands there. Positions count units of UTF-16."""
    try:
        body = json.loads(asked.body)
        source, at = body["source"], body["at"]
        if not isinstance(source, str) or not isinstance(at, int):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        return refused(400, "malformed", "the body is {source, at}")
    if len(source) > LONGEST:
        return refused(413, "too_large", f"the text has more than {LONGEST} characters")
    if not _one_at_a_time.acquire(timeout=PATIENCE_S):
        return refused(503, "busy", "the request before this one is not answered yet")
    try:
        found = _help(source, at)
    finally:
        _one_at_a_time.release()
    return Answered(200, json.dumps(found).encode(), {"Content-Type": "application/json"})


def _help(source: str, at: int) -> dict[str, Any]:
    from noetl_lsp.completion import completions  # 150 ms, with the next: needed only to edit
    from noetl_lsp.hover import hover

    offset, model = _offset(source, at), _model(source)
    items = completions(source, offset, model, _keys())
    about = hover(source, offset, model, _keys())
    offered = None
    if items:
        start, end = (_units(source, each) for each in items[0].span)
        offered = {"from": start, "to": end, "options": [_option(item, rank) for rank, item in enumerate(items)]}
    if about is None:
        return {"offered": offered, "about": None}
    start, end = about.span
    word = source[start:end]
    text = _FENCE.sub("", about.doc).strip()
    text = text if f"`{word}`" in text or text.startswith(word) else f"{word}: {text}"
    return {"offered": offered, "about": {"from": _units(source, start), "to": _units(source, end), "text": text}}


def _option(item: Item, rank: int) -> dict[str, Any]:
    found = {"label": item.label, "apply": item.insert, "type": _CLASSES.get(item.what, "variable")}
    more = {"detail": item.detail, "info": _FENCE.sub("", item.doc).strip()}
    return found | {name: text for name, text in more.items() if text} | {"boost": max(_HIGHEST - rank, -_HIGHEST)}


@cache
def _keys() -> Keys:
    from noetl_lsp.keys import Keys  # 150 ms, as above

    return Keys()


def _model(source: str) -> Model | None:
    """Return the text as a playbook, or the last valid version of it."""
    from noetl_lsp.model import analyse  # 150 ms, as above

    path = _PATH.search(source)
    name = path[1] if path is not None else ""
    if len(source) <= LONGEST_VALIDATED and (model := analyse(source, "<editor>").model) is not None:
        _valid[name] = model
    return _valid.get(name)


def _offset(source: str, units: int) -> int:
    if source.isascii():
        return max(0, min(units, len(source)))
    before = source.encode("utf-16-le", "surrogatepass")[: 2 * max(0, units)]
    return len(before.decode("utf-16-le", "surrogatepass"))


def _units(source: str, offset: int) -> int:
    return len(source[:offset].encode("utf-16-le", "surrogatepass")) // 2
