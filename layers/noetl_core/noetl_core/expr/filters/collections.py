"""Filters on lists and mappings. All return plain lists, and count every item."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

from noetl_core.expr.errors import TemplateError
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.evaluation_limits import Missing
from noetl_core.expr.filters.registry import FILTERS, TESTS, filter_, is_undefined
from noetl_core.expr.methods import bounded, join
from noetl_core.expr.values import SCALARS, Group
from noetl_core.values.outlines import Part

GROUP_ITEMS: Final = 12
"""The size of a group of `groupby`, besides its items, in list items."""


def getter(ev: Evaluation, attribute: Any, default: Any = None) -> Callable[[Any], Any]:
    """Return a function that reads a dotted path (`'a.b.0'`) or an index of an item."""
    steps: list[Any] = [int(p) if p.isdigit() else p for p in attribute.split(".")] if type(attribute) is str else [attribute]

    def get(item: Any) -> Any:
        for step in steps:
            item = ev.getattr(item, step) if type(step) is str else ev.getitem(item, step)
        return default if default is not None and is_undefined(item) else item

    return get


def _maybe(ev: Evaluation, attribute: Any) -> Callable[[Any], Any]:
    return (lambda item: item) if attribute is None else getter(ev, attribute)


def _listed(ev: Evaluation, items: Iterable[Any]) -> list[Any]:
    out = list(items)
    ev.charge_items(len(out))
    return out


@filter_("length", "count", parts=True)
def length(ev: Evaluation, value: Any) -> int:
    value = ev.as_list(value)
    if type(value) in (str, list, tuple, Group, dict, range) or isinstance(value, Part):
        return len(value)
    return len(ev.items(value))


@filter_("list")
def list_(ev: Evaluation, value: Any) -> list[Any]:
    ev.charge_items(len(ev.items(value)))
    return list(ev.each(value))


@filter_("first", parts=True)
def first(ev: Evaluation, value: Any) -> Any:
    value = ev.as_list(value)
    if isinstance(value, Part) and len(value):
        return _at(ev, value, 0)
    return next(ev.each(value), Missing("the list is empty"))


def _at(ev: Evaluation, value: Part, index: int) -> Any:
    """Return the item of a list, or the key of a mapping, at an index."""
    return ev.getitem(value, index) if value.kind is list else list(value.keys())[index]


@filter_("last", parts=True)
def last(ev: Evaluation, value: Any) -> Any:
    value = ev.as_list(value)
    if isinstance(value, Part) and len(value):
        return _at(ev, value, -1)
    items = ev.items(value)
    return ev.enter(items[-1]) if items else Missing("the list is empty")


@filter_("reverse")
def reverse(ev: Evaluation, value: Any) -> Any:
    if type(value) is str:
        ev.charge(len(value))
        return value[::-1]
    return list_(ev, value)[::-1]


@filter_("join")
def join_(ev: Evaluation, value: Any, d: Any = "", attribute: Any = None) -> str:
    get = _maybe(ev, attribute)
    return join(ev, (get(item) for item in ev.each(value)), ev.text(d))


@filter_("sum")
def sum_(ev: Evaluation, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    get = _maybe(ev, attribute)
    total = start
    for item in ev.each(value):
        total = ev.call_binop(ev, "+", total, get(item))
    return total


@filter_("items")
def items_(ev: Evaluation, value: Any) -> list[Any]:
    if is_undefined(value):
        return []
    return [[k, v] for k, v in _mapping(ev, value, "items").items()]


def _mapping(ev: Evaluation, value: Any, name: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise TemplateError(f"{name} needs a mapping")
    ev.charge_items(len(value) * 4)
    return {k: ev.enter(v) for k, v in value.items()}


def sort_key(ev: Evaluation, value: Any, case_sensitive: bool) -> Any:
    """Return the sort key of `value`, after counting it, because comparisons traverse it."""
    value = ev.read(value)
    if type(value) is str:
        if not case_sensitive:
            ev.charge_text(value, 2)
        ev.tick(len(value) >> 6)
        return value if case_sensitive else value.lower()
    if type(value) in SCALARS:
        return value
    if is_undefined(value):
        raise TemplateError("an undefined value cannot be sorted")
    value = ev.plain(value)
    ev.tick(ev.weight >> 6)
    return value


def sorted_(ev: Evaluation, items: list[Any], key: Callable[[Any], Any], reverse: Any = False) -> list[Any]:
    """`items` in the order of their keys, counted."""
    ev.tick(len(items) * len(items).bit_length() >> 3)
    ev.charge_items(len(items) * 4)
    keys = [key(item) for item in items]
    try:
        return [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=bool(reverse))]
    except TypeError as error:
        raise TemplateError(f"these values have no common order: {error}") from None


@filter_("sort")
def sort(ev: Evaluation, value: Any, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None) -> list[Any]:
    getters = [_maybe(ev, a) for a in (attribute.split(",") if type(attribute) is str else [attribute])]
    if len(getters) == 1:
        return sorted_(ev, list_(ev, value), lambda item: sort_key(ev, getters[0](item), case_sensitive), reverse)
    return sorted_(ev, list_(ev, value), lambda item: [sort_key(ev, get(item), case_sensitive) for get in getters], reverse)


@filter_("dictsort")
def dictsort(ev: Evaluation, value: Any, case_sensitive: Any = False, by: str = "key", reverse: Any = False) -> list[Any]:
    if by not in ("key", "value"):
        raise TemplateError("dictsort: by must be 'key' or 'value'")
    position = 0 if by == "key" else 1
    pairs = [[k, v] for k, v in _mapping(ev, value, "dictsort").items()]
    return sorted_(ev, pairs, lambda pair: sort_key(ev, pair[position], case_sensitive), reverse)


@filter_("unique")
def unique(ev: Evaluation, value: Any, case_sensitive: Any = False, attribute: Any = None) -> list[Any]:
    get = _maybe(ev, attribute)
    seen = set()
    kept = []
    for item in ev.each(value):
        key = sort_key(ev, get(item), case_sensitive)
        if type(key) not in SCALARS:
            key = (json.dumps(key, sort_keys=True),)
        if key not in seen:
            seen.add(key)
            kept.append(item)
    ev.charge_items(len(kept) * 4)
    return kept


def _extreme(ev: Evaluation, value: Any, pick: Callable[..., Any], case_sensitive: Any, attribute: Any) -> Any:
    get = _maybe(ev, attribute)
    items = list_(ev, value)
    if not items:
        return Missing("the list is empty")
    keys = [sort_key(ev, get(item), case_sensitive) for item in items]
    try:
        return items[pick(range(len(items)), key=keys.__getitem__)]
    except TypeError as error:
        raise TemplateError(f"these values have no common order: {error}") from None


@filter_("min")
def min_(ev: Evaluation, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(ev, value, min, case_sensitive, attribute)


@filter_("max")
def max_(ev: Evaluation, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _extreme(ev, value, max, case_sensitive, attribute)


@filter_("groupby")
def groupby(ev: Evaluation, value: Any, attribute: Any, default: Any = None, case_sensitive: Any = False) -> list[Any]:
    """Groups in the order of their `grouper`, each `{grouper, list}` that also unpacks as `for grouper, list in ...`."""
    get = getter(ev, attribute, default)
    ordered = sorted_(ev, list_(ev, value), lambda item: sort_key(ev, get(item), case_sensitive))
    groups: list[Group] = []
    previous: Any = None
    for item in ordered:
        key = sort_key(ev, get(item), case_sensitive)
        if not groups or key != previous:
            ev.charge_items(GROUP_ITEMS)
            groups.append(Group((get(item), [])))
            previous = key
        groups[-1][1].append(item)
    return groups


@filter_("batch")
def batch(ev: Evaluation, value: Any, linecount: int, fill_with: Any = None) -> list[Any]:
    items = list_(ev, value)
    if bounded(linecount) < 1:
        raise TemplateError("batch: the size must be at least 1")
    groups = [items[i : i + linecount] for i in range(0, len(items), linecount)]
    ev.charge_items(len(items) + len(groups) * 4 + linecount)
    if groups and fill_with is not None:
        groups[-1] += [fill_with] * (linecount - len(groups[-1]))
    return groups


@filter_("slice")
def slice_(ev: Evaluation, value: Any, slices: int, fill_with: Any = None) -> list[Any]:
    items = list_(ev, value)
    if bounded(slices) < 1:
        raise TemplateError("slice: the count must be at least 1")
    per, extra = divmod(len(items), slices)
    ev.charge_items(len(items) + slices * 4)
    parts, position = [], 0
    for index in range(slices):
        size = per + (index < extra)
        part = items[position : position + size]
        position += size
        if fill_with is not None and extra and index >= extra:
            part.append(fill_with)
        parts.append(part)
    return parts


@filter_("attr")
def attr(ev: Evaluation, value: Any, name: Any) -> Any:
    """Return the data under `name`: the same as `value.name`, which differs from Jinja2."""
    return ev.getattr(value, name) if type(name) is str else ev.getitem(value, name)


@filter_("map")
def map_(ev: Evaluation, value: Any, *args: Any, attribute: Any = None, default: Any = None, **kwargs: Any) -> list[Any]:
    """`map('upper')`, or `map(attribute='a.b', default=0)`."""
    if attribute is not None:
        if args or kwargs:
            raise TemplateError("map takes either a filter or attribute=")
        get = getter(ev, attribute, default)
        return _listed(ev, (get(item) for item in ev.each(value)))
    run, rest = _lookup(args, FILTERS, "map", "filter")
    if default is not None:
        kwargs["default"] = default
    return _listed(ev, (run(ev, item, *rest, **kwargs) for item in ev.each(value)))


def _lookup(args: tuple[Any, ...], known: dict[str, Any], user: str, what: str) -> tuple[Any, tuple[Any, ...]]:
    if not args:
        raise TemplateError(f"{user} needs the name of a {what}")
    name, *rest = args
    if type(name) is not str or name not in known:
        raise TemplateError(f"{user}: there is no {what} {name!r}")
    return known[name], tuple(rest)


def _itself(item: Any) -> Any:
    return item


def _selected(ev: Evaluation, value: Any, args: tuple[Any, ...], user: str, *, by: bool, keep: bool) -> list[Any]:
    get: Callable[[Any], Any] = _itself
    if by:
        if not args:
            raise TemplateError(f"{user} needs an attribute")
        get, args = getter(ev, args[0]), args[1:]
    if args:
        run, rest = _lookup(args, TESTS, user, "test")
        return _listed(ev, (item for item in ev.each(value) if bool(run(ev, get(item), *rest)) is keep))
    return _listed(ev, (item for item in ev.each(value) if ev.truth(get(item)) is keep))


@filter_("select")
def select(ev: Evaluation, value: Any, *args: Any) -> list[Any]:
    return _selected(ev, value, args, "select", by=False, keep=True)


@filter_("reject")
def reject(ev: Evaluation, value: Any, *args: Any) -> list[Any]:
    return _selected(ev, value, args, "reject", by=False, keep=False)


@filter_("selectattr")
def selectattr(ev: Evaluation, value: Any, *args: Any) -> list[Any]:
    return _selected(ev, value, args, "selectattr", by=True, keep=True)


@filter_("rejectattr")
def rejectattr(ev: Evaluation, value: Any, *args: Any) -> list[Any]:
    return _selected(ev, value, args, "rejectattr", by=True, keep=False)
