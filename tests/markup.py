"""Pages of HTML: what is in them, and text that wants to be more than text."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'


class Page(HTMLParser):
    """Tags and addresses of a page; what is opened is closed, where it must be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href", "action", "data")]
