"""Completions, hovers, definitions and renamings over the protocol: a text with the cursor at `¦`, a request, its answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from noetl_core.dsl.parse import check
from tests.unit.lsp.client import DOCS, Client, Refused, edited, position, spanned
from tests.unit.lsp.texts import ORDERS


class Completion(NamedTuple):
    """`new`, with the cursor, takes the place of `old`. The labels offered have all of `offered`, in this order, and none of
    `refused`."""

    name: str
    old: str
    new: str
    offered: tuple[str, ...]
    refused: tuple[str, ...] = ()


COMPLETIONS = (
    Completion("keys of the root", "workbook:\n", "trac¦\nworkbook:\n", ("tracing",), ("workbook", "workload", "step")),
    Completion("keys of a step", "    desc: 取得 📦📦\n", "    sp¦\n", ("desc", "spec", "set_ctx"), ("step", "tool", "kind")),
    Completion(
        "keys of a task by its kind", "        auth: shop_api\n", "        he¦\n", ("headers", "json", "cookies"), ("url", "code")
    ),
    Completion(
        "keys of a task without a kind", "      - name: keep\n", "      - na¦\n      - name: keep\n", ("kind", "name"), ("url",)
    ),
    Completion("keys in braces", "{ do: retry, attempts: 3 }", "{ do: retry, ba¦ }", ("backoff", "delay"), ("do", "when")),
    Completion("keys in braces that are not closed", "{ do: retry, attempts: 3 }", "{ do: retry, ba¦", ("backoff",), ("do",)),
    Completion(
        "keys of an arc", "          args: { rows", "          wh¦\n          args: { rows", ("when", "set_ctx"), ("step", "args")
    ),
    Completion("keys of a credential by its kind", "    scope: global\n", "    sc¦\n", ("scope",), ("kind", "token_url")),
    Completion("words of a value", "do: retry,", "do: ¦,", ("continue", "retry", "jump", "break", "fail")),
    Completion("kinds of tools", "        kind: noop", "        kind: ¦", ("http", "python", "workbook")),
    Completion("true and false", "    entry_step: fetch", "    strict: ¦\n    entry_step: fetch", ("true", "false")),
    Completion("steps for an arc", "        - step: count", "        - step: ¦", ("fetch", "count", "done"), ("page",)),
    Completion("steps for the entry", "entry_step: fetch", "entry_step: f¦", ("fetch", "count", "done")),
    Completion("tasks for a jump", "to: page", "to: ¦", ("page", "keep"), ("fetch",)),
    Completion("credentials", "auth: shop_api", "auth: ¦", ("shop_api",)),
    Completion("shared tasks", "task: notify", "task: ¦", ("notify",)),
    Completion("inputs", "{{ workload.limits.rows }}", "{{ workload.¦ }}", ("region", "limits", "days")),
    Completion("fields of an input", "{{ workload.limits.rows }}", "{{ workload.limits.¦", ("pages", "rows")),
    Completion("fields of an iterator", "{{ iter.day.date }}", "{{ iter.day.¦ }}", ("date", "open")),
    Completion("variables of an iteration", "{{ iter.seen > 3 }}", "{{ iter.¦ > 3 }}", ("day", "seen", "index")),
    Completion(
        "names in a task", '"{{ page.data }}"', '"{{ ¦ }}"', ("page", "keep", "iter", "workload", "len"), ("event", "outcome")
    ),
    Completion("names in a policy", "{{ iter.seen > 3 }}", "{{ ¦ }}", ("outcome", "iter"), ("event",)),
    Completion("names in an arc", "{{ event.result }}", "{{ ¦ }}", ("event", "steps"), ("outcome", "iter", "page")),
    Completion("names without quotes", '"{{ page.data }}"', "{{ pa¦", ("page",)),
    Completion(
        "fields of an outcome", "{{ outcome.status == 'error' }}", "{{ outcome.¦ }}", ("status", "result", "error", "http")
    ),
    Completion("fields of the outcome before", "{{ page.data }}", "{{ _outcome.¦ }}", ("status", "result", "error")),
    Completion("fields of a step", "{{ steps.count.result.total }}", "{{ steps.count.¦ }}", ("result", "status", "loop")),
    Completion(
        "fields of a result by its kind", "{{ outcome.result.data }}", "{{ outcome.result.¦ }}", ("data", "headers", "url")
    ),
    Completion("fields of a task's result", "{{ page.data }}", "{{ page.¦ }}", ("data", "headers", "status")),
    Completion("steps in a template", "{{ steps.count.result.total }}", "{{ steps.¦ }}", ("fetch", "count", "done")),
    Completion("fields of a program's result", "{{ steps.count.result.total }}", "{{ steps.count.result.¦ }}", ("total",)),
    Completion("steps in a subscript", "steps['fetch']", "steps['¦']", ("fetch", "count", "done")),
    Completion("keys of ctx", "{{ ctx.pages }}", "{{ ctx.¦ }}", ("pages",)),
    Completion("arguments of a step", "{{ args.rows }}", "{{ args.¦ }}", ("rows",)),
    Completion("filters", "map(attribute='open') | list", "ma¦", ("map", "selectattr", "tojson", "date_add"), ("workload",)),
    Completion("tests", "count.total > 0 and", "count.total is ¦ and", ("defined", "odd"), ("map",)),
    Completion(
        "names bound by the template", "{{ page.data }}", "{% for d in workload.days %}{{ d.¦ }}{% endfor %}", ("date", "open")
    ),
    Completion("arguments in a program", "total = len(rows)", "total = len(r¦)", ("rows", "region", "open", "st"), ("workload",)),
)


def typed(case: Any) -> tuple[str, int]:
    """Return the text of a case and the offset of its cursor."""
    assert ORDERS.count(case.old) >= 1
    text = ORDERS.replace(case.old, case.new, 1)
    return text.replace("¦", "", 1), text.index("¦")


def labels(answer: Any) -> list[str]:
    return [item["label"] for item in sorted(answer["items"], key=lambda item: item["sortText"])]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", COMPLETIONS, ids=lambda case: case.name)
def test_completion(client: Client, case: Completion) -> None:
    client.open(ORDERS)
    assert client.found() == []
    text, offset = typed(case)
    client.change(text)
    answer = client.at("completion", offset, text)
    found = labels(answer)
    assert [label for label in found if label in case.offered] and set(case.offered) <= set(found), found
    assert not set(case.refused) & set(found)
    for item in answer["items"]:
        start, end = item["textEdit"]["range"]["start"], item["textEdit"]["range"]["end"]
        assert start["line"] == end["line"] == position(text, offset)["line"]
        assert start["character"] <= position(text, offset)["character"] <= end["character"]


def test_a_completion_has_documentation_and_replaces_the_word(client: Client) -> None:
    text = ORDERS.replace("attempts: 3", "att")
    client.open(text)
    answer = client.at("completion", text.index("att }") + 2, text)
    item = next(item for item in answer["items"] if item["label"] == "attempts")
    assert edited(text, [item["textEdit"]]) == ORDERS.replace("attempts: 3", "attempts: ")
    assert item["documentation"]["value"].endswith(f"[Documentation]({DOCS}language/policies.md#retry)")


@pytest.mark.parametrize("place", ["# 📦 ¦注文", "desc: 取得 ¦", "# 📦 ¦数", "region: eu # ¦"])
def test_nothing_is_offered_in_comments_and_prose(client: Client, place: str) -> None:
    client.open(ORDERS)
    assert not {"kind", "step", "workload", "fetch"} & set(labels(client.at("completion", placed(place), ORDERS)))


class Hover(NamedTuple):
    """The hover at the cursor contains `says`, and its range is `of`."""

    name: str
    place: str
    says: str
    of: str


HOVERS = (
    Hover("a key", "    lo¦op: {", "Repeats the tasks", "loop"),
    Hover("a key of a kind", "        par¦ams:", "Query parameters", "params"),
    Hover("a value of a few", "do: re¦try", "What happens next", "retry"),
    Hover("a kind", "kind: ht¦tp\n", "Tool `http`", "http"),
    Hover("an input after an emoji", '/{{ workload.reg¦ion }}"\n        params', "by default `eu`", "region"),
    Hover("a namespace", "{{ out¦come.status", "The outcome of the task", "outcome"),
    Hover("a field of a namespace", "{{ event.res¦ult }}", "The result of the step", "result"),
    Hover("a task in a template", "{{ pa¦ge.data }}", "Task `page` (kind `http`)", "page"),
    Hover("a step in an arc", "- step: cou¦nt\n          args", "Step `count`", "count"),
    Hover("a step by its bare name", "{{ cou¦nt.total", "Step `count`", "count"),
    Hover("a filter", "| ma¦p(", "a field of each item", "map"),
    Hover("a function", "total = len(ro¦ws)", "Argument `rows`", "rows"),
    Hover("an argument of a step", "{{ args.ro¦ws }}", "`args.rows`", "rows"),
    Hover("a key of ctx", "{{ ctx.pa¦ges }}", "written by step `fetch`", "pages"),
    Hover("a credential", "auth: shop¦_api", "Credential `shop_api`", "shop_api"),
)


def placed(place: str) -> int:
    at = ORDERS.index(place.replace("¦", "", 1))
    return at + place.index("¦")


@pytest.mark.parametrize("case", HOVERS, ids=lambda case: case.name)
def test_hover(client: Client, case: Hover) -> None:
    client.open(ORDERS)
    client.found()
    found = client.at("hover", placed(case.place), ORDERS)
    assert case.says in found["contents"]["value"], found
    assert spanned(ORDERS, found["range"]) == case.of


class Definition(NamedTuple):
    """The definitions of the name at the cursor begin at these places, each marked by `¦`."""

    name: str
    place: str
    defined: tuple[str, ...]


DEFINITIONS = (
    Definition("of a step from an arc", "{ step: do¦ne", ("- step: ¦done\n",)),
    Definition("of a step from the entry", "entry_step: fet¦ch", ("- step: ¦fetch\n",)),
    Definition("of a step from a subscript", "steps['fet¦ch']", ("- step: ¦fetch\n",)),
    Definition("of a step from its bare name", "{{ cou¦nt.total", ("- step: ¦count\n    tool",)),
    Definition("of a task from a jump", "to: pa¦ge", ("- name: ¦page",)),
    Definition("of a task from a template", "{{ pa¦ge.data", ("- name: ¦page",)),
    Definition("of an input", "workload.li¦mits", ("  ¦limits: {",)),
    Definition("of a key of ctx", "{{ ctx.pa¦ges", ("set_ctx: { ¦pages",)),
    Definition("of an iterator", "{{ iter.da¦y.date", ("iterator: ¦day",)),
    Definition("of a variable", "{{ iter.se¦en", ("set_iter: { ¦seen",)),
    Definition("of an argument", "{{ args.ro¦ws", ('args: { ¦rows: "{{ event',)),
    Definition("of a credential", "auth: shop¦_api", ("- name: ¦shop_api",)),
    Definition("of a shared task", "task: not¦ify", ("  ¦notify: {",)),
    Definition("of an argument of a program", "mean(op¦en)", (', ¦open: "{{',)),
    Definition("of a word that names nothing", "desc: 取¦得", ()),
)


@pytest.mark.parametrize("case", DEFINITIONS, ids=lambda case: case.name)
def test_definition(client: Client, case: Definition) -> None:
    client.open(ORDERS)
    found = client.at("definition", placed(case.place), ORDERS)
    assert [one["range"]["start"] for one in found] == [position(ORDERS, placed(place)) for place in case.defined]


class Renaming(NamedTuple):
    """The new text has `name` in place of `old` at all of `times` places; or the message has `refused`."""

    name: str
    place: str
    new: str
    old: str = ""
    times: int = 0
    refused: str = ""


RENAMINGS = (
    Renaming("a step at its definition", "- step: cou¦nt\n    tool", "tally", "count", 4),
    Renaming("a step at an arc", "{ step: do¦ne", "finish", "done", 2),
    Renaming("a step in a template", "steps['fet¦ch']", "get", "fetch", 3),
    Renaming("a task", "- name: pa¦ge", "get_page", "page", 3),
    Renaming("a task at a jump", "to: pa¦ge", "get_page", "page", 3),
    Renaming("an input", 'workload.reg¦ion }}" }\n\n', "area", "region", 4),
    Renaming("a key of ctx", "{{ ctx.pa¦ges", "sheets", "pages", 2),
    Renaming("an iterator", "iterator: da¦y", "date", "day", 2),
    Renaming("a credential", "auth: shop¦_api", "shop", "shop_api", 2),
    Renaming("a name that is taken", "- step: cou¦nt\n    tool", "done", refused='there is a step "done" already'),
    Renaming("a name that is none", "- step: cou¦nt\n    tool", "a b", refused="is not a name"),
    Renaming("a name that templates mean otherwise", "- name: pa¦ge", "ctx", refused="templates mean something else"),
    Renaming("a bare name that is no identifier", "- step: cou¦nt\n    tool", "a-b", refused="by its bare name"),
    Renaming("a place without a name", "desc: 取¦得", "x", refused="there is no name here"),
)


@pytest.mark.parametrize("case", RENAMINGS, ids=lambda case: case.name)
def test_renaming(client: Client, case: Renaming) -> None:
    uri = client.open(ORDERS)
    if case.refused:
        with pytest.raises(Refused, match=case.refused):
            client.at("rename", placed(case.place), ORDERS, newName=case.new)
        return
    prepared = client.at("prepareRename", placed(case.place), ORDERS)
    assert (prepared["placeholder"], spanned(ORDERS, prepared["range"])) == (case.old, case.old)
    edits = client.at("rename", placed(case.place), ORDERS, newName=case.new)["changes"][uri]
    assert [spanned(ORDERS, edit["range"]) for edit in edits] == [case.old] * case.times
    playbook, found = check(edited(ORDERS, edits))
    assert playbook is not None
    assert found == []


def test_a_name_that_is_no_identifier_is_read_by_subscript(client: Client) -> None:
    text = ORDERS.replace("steps['fetch'].status", "steps.fetch.status")
    uri = client.open(text)
    edits = client.at("rename", text.index("- step: fetch") + 9, text, newName="fetch-it")["changes"][uri]
    assert "steps['fetch-it'].status" in edited(text, edits)
    assert check(edited(text, edits))[1] == []


def test_a_subscript_within_single_quotes_has_double_ones(client: Client) -> None:
    text = ORDERS.replace('"{{ steps.count.result.total }}"', "'{{ steps.count.result.total }}'").replace(
        "count.total > 0 and ", ""
    )
    uri = client.open(text)
    edits = client.at("rename", text.index("- step: count\n    tool") + 9, text, newName="a-b")["changes"][uri]
    assert """'{{ steps["a-b"].result.total }}'""" in edited(text, edits)
    assert check(edited(text, edits))[1] == []


def test_references_are_all_uses_of_a_name(client: Client) -> None:
    client.open(ORDERS)
    found = client.at("references", placed("- name: pa¦ge"), ORDERS, context={"includeDeclaration": False})
    assert [spanned(ORDERS, one["range"]) for one in found] == ["page", "page"]
    assert len(client.at("references", placed("- name: pa¦ge"), ORDERS, context={"includeDeclaration": True})) == 3
    assert len(client.at("documentHighlight", placed("to: pa¦ge"), ORDERS)) == 3
