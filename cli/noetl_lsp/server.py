"""The server: the language server's protocol on one side, functions over texts on the other.

A text is answered for as it is now; its findings, and the model of its last valid version, are computed beside the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcContentModified, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from noetl_core import __version__
from noetl_core.dsl.reading.diagnostics import Diagnostic, InvalidPlaybook, page_of
from noetl_core.playbooks.called_files import reader, with_paths
from noetl_lsp import completion, fixes, hover, navigation, test_files
from noetl_lsp.keys import Keys
from noetl_lsp.model import Analysis, Model, analyse
from noetl_lsp.text import Span, Text
from noetl_migrate import migrate
from noetl_migrate.formatting import NotFormatted, formatted

QUIET_S: Final = 0.01
"""Seconds without a change before a text is examined."""
QUIET_S_PER_MB: Final = 1.0
"""Seconds that are added for each MB of text: examining a large one delays answers."""
LONGEST_QUIET_S: Final = 0.5
LANGUAGE: Final = "noetl"
"""The id of the language by which an editor marks a text as a playbook, whatever it contains."""

_A_PLAYBOOK: Final = re.compile(r"^(?:kind:\s*[\"']?Playbook\b|apiVersion:\s*[\"']?noetl\.io/)", re.MULTILINE)
_SEVERITIES: Final = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
_ITEM_KINDS: Final = {
    "key": lsp.CompletionItemKind.Property,
    "value": lsp.CompletionItemKind.EnumMember,
    "namespace": lsp.CompletionItemKind.Module,
    "task": lsp.CompletionItemKind.Method,
    "step": lsp.CompletionItemKind.Class,
    "function": lsp.CompletionItemKind.Function,
    "filter": lsp.CompletionItemKind.Function,
    "test": lsp.CompletionItemKind.Operator,
    "credential": lsp.CompletionItemKind.Reference,
    "module": lsp.CompletionItemKind.Module,
    "field": lsp.CompletionItemKind.Field,
}
_SYMBOL_KINDS: Final = {
    "section": lsp.SymbolKind.Namespace, "step": lsp.SymbolKind.Class, "task": lsp.SymbolKind.Method,
    "credential": lsp.SymbolKind.Key, "shared task": lsp.SymbolKind.Function,
}  # fmt: skip
_log: Final = logging.getLogger(__name__)
T = TypeVar("T")


class Opened:
    """One open text: its last findings, and the model of its last valid version."""

    def __init__(self) -> None:
        self.analysis: Analysis | None = None
        self.version: int | None = None
        """The version that `analysis` is of."""
        self.model: Model | None = None
        self.examining: asyncio.Task[None] | None = None
        self.changed_at = 0.0


class Server(LanguageServer):
    """The language server of playbooks. `docs` is the address of the documentation, which ends with `/`."""

    def __init__(self, docs: str) -> None:
        super().__init__("noetl", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.docs = docs
        self.keys = Keys(docs)
        self.opened: dict[str, Opened] = {}

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error; the editor shows it where it shows the server's output."""
        _log.error("%s: %s", source, error)

    # --- texts ----------------------------------------------------------------------------------------------------------

    def playbook(self, uri: str) -> Text | None:
        """Return an open text; None if it is not a playbook."""
        document = self.workspace.get_text_document(uri)
        if uri not in self.opened or not (document.language_id == LANGUAGE or _A_PLAYBOOK.search(document.source)):
            return None
        return Text(document.source, str(self.server_capabilities.position_encoding or "utf-16"))

    def version_of(self, uri: str) -> int | None:
        return self.workspace.get_text_document(uri).version

    def model_of(self, uri: str) -> Model | None:
        return self.opened[uri].model if uri in self.opened else None

    async def beside(self, uri: str, compute: Callable[[], T]) -> T:
        """Return the result of a function that runs beside the event loop. Raises `JsonRpcContentModified` if it changed."""
        version = self.version_of(uri)
        result = await asyncio.to_thread(compute)
        if uri not in self.opened or self.version_of(uri) != version:
            raise JsonRpcContentModified("the text has changed")
        return result

    # --- findings -------------------------------------------------------------------------------------------------------

    def changed(self, uri: str) -> None:
        """Have a text examined as soon as nothing more is typed."""
        opened = self.opened.setdefault(uri, Opened())
        opened.changed_at = time.monotonic()
        if opened.examining is None or opened.examining.done():
            opened.examining = asyncio.ensure_future(self._examine(uri, opened))
            opened.examining.add_done_callback(_log_error)

    async def _examine(self, uri: str, opened: Opened) -> None:
        while self.opened.get(uri) is opened:
            size = len(self.workspace.get_text_document(uri).source) / 1_000_000
            quiet = min(QUIET_S + size * QUIET_S_PER_MB, LONGEST_QUIET_S)
            if (left := opened.changed_at + quiet - time.monotonic()) > 0:
                await asyncio.sleep(left)
                continue
            version, text = self.version_of(uri), self.playbook(uri)
            if text is not None:
                analysis = await asyncio.to_thread(_analysed, text.source, uri)
                opened.model = analysis.model or opened.model
            else:
                analysis = Analysis((), None)
            if self.opened.get(uri) is not opened:
                return
            if self.version_of(uri) == version:
                opened.analysis, opened.version = analysis, version
                found = [] if text is None else [self._diagnostic(text, one) for one in analysis.diagnostics]
                self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))
                return

    def _diagnostic(self, text: Text, found: Diagnostic) -> lsp.Diagnostic:
        page = page_of(found.code)
        return lsp.Diagnostic(
            span(text, fixes.span_of(text, found)),
            found.message + (f" ({found.hint})" if found.hint else ""),
            severity=_SEVERITIES[found.severity],
            code=found.code,
            code_description=None if page is None else lsp.CodeDescription(self.docs + page.removeprefix("docs/")),
            source="noetl",
            tags=[lsp.DiagnosticTag.Unnecessary] if found.code in ("W403", "W516") else None,
        )

    def markdown(self, doc: str, link: str) -> lsp.MarkupContent:
        """Return a text with a link to its page."""
        address = link if "://" in link or not link else self.docs + link
        return lsp.MarkupContent(lsp.MarkupKind.Markdown, f"{doc}\n\n[Documentation]({address})" if address else doc)


def _analysed(source: str, uri: str) -> Analysis:
    """Return the findings of a text; if they cannot be computed, the error as the only one."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    try:
        if path is None:
            return analyse(source, uri)
        file = Path(path)
        return analyse(with_paths(source, file), str(file), reader(file))
    except Exception as error:  # a text must not end the server
        _log.exception("a text could not be examined")
        return Analysis((Diagnostic("E100", "error", f"this text cannot be examined: {error!r}"),), None)


def _log_error(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a text could not be examined", exc_info=error)


def span(text: Text, of: Span) -> lsp.Range:
    """Return a span as a range of the protocol."""
    return lsp.Range(lsp.Position(*text.position(of[0])), lsp.Position(*text.position(of[1])))


def _edits(text: Text, edits: Iterable[navigation.Edit]) -> list[lsp.TextEdit]:
    return [lsp.TextEdit(span(text, edit.span), edit.text) for edit in edits]


def _offset(text: Text, position: lsp.Position) -> int:
    return text.offset((position.line, position.character))


# --- the protocol -------------------------------------------------------------------------------------------------------


def server(docs: str = "") -> Server:
    """Return a server with its features. `docs` is the address of the documentation, which ends with `/`."""
    made = Server(docs)
    for method, handle, options in _FEATURES:
        made.feature(method, *([options] if options is not None else []))(handle)
    return made


def run(docs: str) -> None:
    """Serve on standard input and output until the client closes them."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # the server closes it
    with redirect_stdout(sys.stderr):  # whatever is printed must not get between messages
        server(docs).start_io(sys.stdin.buffer, output)


def _opened(ls: Server, params: lsp.DidOpenTextDocumentParams | lsp.DidChangeTextDocumentParams) -> None:
    ls.changed(params.text_document.uri)


def _closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    if ls.opened.pop(params.text_document.uri, None) is not None:
        ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))


def _completion(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList | None:
    uri = params.text_document.uri
    if (text := ls.playbook(uri)) is None:
        return None
    items = completion.completions(text.source, _offset(text, params.position), ls.model_of(uri), ls.keys)
    return lsp.CompletionList(is_incomplete=False, items=[_item(ls, text, item) for item in items])


def _item(ls: Server, text: Text, item: completion.Item) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        item.label,
        kind=_ITEM_KINDS.get(item.what, lsp.CompletionItemKind.Variable),
        detail=item.detail or None,
        documentation=ls.markdown(item.doc, item.link) if item.doc else None,
        sort_text=f"{item.rank:05}",
        filter_text=item.label,
        text_edit=lsp.TextEdit(span(text, item.span), item.insert),
    )


def _hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    uri = params.text_document.uri
    if (text := ls.playbook(uri)) is None:
        return None
    found = hover.hover(text.source, _offset(text, params.position), ls.model_of(uri), ls.keys)
    return None if found is None else lsp.Hover(ls.markdown(found.doc, found.link), span(text, found.span))


def _definition(ls: Server, params: lsp.DefinitionParams) -> list[lsp.Location]:
    if (text := ls.playbook(params.text_document.uri)) is None:
        return []
    found = navigation.definitions(text.source, _offset(text, params.position))
    return [lsp.Location(params.text_document.uri, span(text, one)) for one in found]


def _references(ls: Server, params: lsp.ReferenceParams) -> list[lsp.Location]:
    if (text := ls.playbook(params.text_document.uri)) is None:
        return []
    wanted = params.context.include_declaration
    found = navigation.references(text.source, _offset(text, params.position), definitions=wanted)
    return [lsp.Location(params.text_document.uri, span(text, one)) for one in found]


def _highlight(ls: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
    if (text := ls.playbook(params.text_document.uri)) is None:
        return []
    found = navigation.references(text.source, _offset(text, params.position))
    return [lsp.DocumentHighlight(span(text, one)) for one in found]


def _prepare_rename(ls: Server, params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
    text = ls.playbook(params.text_document.uri)
    use = None if text is None else navigation.renamable(text.source, _offset(text, params.position))
    if text is None or use is None:
        return None
    return lsp.PrepareRenamePlaceholder(span(text, (use.start, use.end)), use.symbol.name)


async def _rename(ls: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
    uri = params.text_document.uri
    if (text := ls.playbook(uri)) is None:
        return None
    offset = _offset(text, params.position)
    try:
        edits = await ls.beside(uri, lambda: navigation.rename(text.source, offset, params.new_name))
    except navigation.NotRenamed as error:
        raise JsonRpcInvalidRequest(str(error)) from None
    use = navigation.renamable(text.source, offset)
    changes: dict[str, list[lsp.TextEdit]] = {uri: _edits(text, edits)}
    if use is not None and use.symbol.kind in ("step", "task") and (path := to_fs_path(uri)) is not None:
        for file in test_files.of_playbook(Path(path)):
            of_file = from_fs_path(str(file)) or file.as_uri()
            test = Text(ls.workspace.get_text_document(of_file).source, str(ls.server_capabilities.position_encoding))
            if found := test_files.renamed(test.source, use.symbol, params.new_name):
                changes[of_file] = _edits(test, found)
    return lsp.WorkspaceEdit(changes)


async def _formatting(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
    uri = params.text_document.uri
    if (text := ls.playbook(uri)) is None:
        return None
    try:
        new = await ls.beside(uri, lambda: formatted(text.source))
    except InvalidPlaybook:
        return None  # its findings are shown
    except NotFormatted as error:
        ls.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, str(error).removeprefix("<string>:")))
        return None
    return _edits(text, _difference(text, new))


def _difference(text: Text, new: str) -> list[navigation.Edit]:
    """Return the edit of the lines between the first and the last that differ."""
    before, after = text.source.splitlines(keepends=True), new.splitlines(keepends=True)
    if before == after:
        return []
    same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    most = min(len(before), len(after)) - same
    tail = next((n for n in range(most) if before[-1 - n] != after[-1 - n]), most)
    start = len("".join(before[:same]))
    end = len(text.source) - len("".join(before[len(before) - tail :]))
    return [navigation.Edit((start, end), "".join(after[same : len(after) - tail]))]


def _symbols(ls: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    text = ls.playbook(params.text_document.uri)
    return [] if text is None else [_symbol(text, part) for part in navigation.outline(text.source)]


def _symbol(text: Text, part: navigation.Outline) -> lsp.DocumentSymbol:
    return lsp.DocumentSymbol(
        part.name or "(no name)",
        _SYMBOL_KINDS.get(part.what, lsp.SymbolKind.Variable),
        span(text, part.span),
        span(text, part.name_span),
        detail=part.detail,
        children=[_symbol(text, below) for below in part.below],
    )


async def _actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri = params.text_document.uri
    opened, text = ls.opened.get(uri), ls.playbook(uri)
    if opened is None or text is None or opened.analysis is None or opened.version != ls.version_of(uri):
        return []
    start, end = _offset(text, params.range.start), _offset(text, params.range.end)
    here = [one for one in opened.analysis.diagnostics if _touches(fixes.span_of(text, one), (start, end))]
    actions = [
        lsp.CodeAction(
            fix.title,
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[ls._diagnostic(text, found)],
            edit=lsp.WorkspaceEdit({uri: _edits(text, fix.edits)}),
            is_preferred=fix.preferred,
        )
        for found in here
        for fix in fixes.fixes(text, found)
    ]
    if any(map(fixes.needs_migration, here)):
        migrated = await ls.beside(uri, lambda: migrate(text.source, uri))
        if not migrated.failed and migrated.text != text.source:
            edit = lsp.WorkspaceEdit({uri: _edits(text, _difference(text, migrated.text))})
            actions.append(lsp.CodeAction("Rewrite the playbook with noetl migrate", kind=lsp.CodeActionKind.QuickFix, edit=edit))
    return actions


def _touches(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


_FEATURES: Final[tuple[tuple[str, Callable[..., Any], Any], ...]] = (
    (lsp.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
    (lsp.TEXT_DOCUMENT_COMPLETION, _completion, lsp.CompletionOptions(trigger_characters=[".", "|", " ", "'", "{"])),
    (lsp.TEXT_DOCUMENT_HOVER, _hover, None),
    (lsp.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (lsp.TEXT_DOCUMENT_REFERENCES, _references, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlight, None),
    (lsp.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename, None),
    (lsp.TEXT_DOCUMENT_RENAME, _rename, lsp.RenameOptions(prepare_provider=True)),
    (lsp.TEXT_DOCUMENT_FORMATTING, _formatting, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, _actions, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])),
)
