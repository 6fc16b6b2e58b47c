"""Names the operand behind an exception of an author's line: `order["price"] is None`, `rates has: 'A', 'B'`, `item - 617 is 0`.

Python names the types that do not fit, or the key that is missing, and not the part of the line that has them. Only names,
constants and subscripts of plain lists and dictionaries are evaluated, so nothing of the author runs again. The texts have keys
and lengths, and no values. Standard library only, because it runs in the sandbox.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from noetl_core.python_code import FILENAME

if TYPE_CHECKING:
    import ast  # 2 ms: only an exception needs it

MOST_KEYS, KEY_CHARS = 8, 40
"""Maximum number of keys that are named, and of the characters of each."""
MOST_CHARS: Final = 80
"""Maximum length of an operand's text."""
LONGEST: Final = 100_000
"""Maximum number of characters of a code that is parsed again."""


def explained(error: BaseException, text: str, trace: TracebackType, source: str) -> str:
    """Return the text of an exception that a line of `source` raised with the operand behind it, or unchanged if that is not
    certain."""
    operand = _operand(error, text, trace, source)
    if not operand:
        return text
    return f"{operand}: {text}" if operand.endswith(" is None") else f"{text} ({operand})"


def _operand(error: BaseException, text: str, trace: TracebackType, source: str) -> str:
    if not isinstance(error, KeyError | IndexError | TypeError | AttributeError | ZeroDivisionError) or len(source) > LONGEST:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    if trace.tb_frame.f_code.co_filename != FILENAME:
        return ""
    try:
        node = _node_at(trace, source)
        return "" if node is None else _reason(error, text, node, trace.tb_frame)
    except Exception:  # it is an addition, and the objects of authors may raise anything
        return ""


def _reason(error: BaseException, text: str, node: ast.AST, frame: FrameType) -> str:
    import ast  # 2 ms: only an exception needs it

    if isinstance(error, KeyError | IndexError):
        if not isinstance(node, ast.Subscript):
            return ""
        value, name = _value(node.value, frame), _text(node.value)
        if isinstance(error, IndexError):
            return f"{name} has {len(value)} item{'' if len(value) == 1 else 's'}" if type(value) in (list, tuple) else ""
        return _keys(name, value) if isinstance(value, dict) else ""
    if isinstance(error, ZeroDivisionError):
        match node:
            case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=divisor) if not isinstance(divisor, ast.Constant):
                return f"{_text(divisor)} is 0"
        return ""
    if "NoneType" not in text:
        return ""
    nothing = [_text(each) for each in _operands(node) if not isinstance(each, ast.Constant) and _is_none(each, frame)]
    return f"{nothing[0]} is None" if len(nothing) == 1 else ""


def _keys(text: str, value: dict[Any, Any]) -> str:
    keys = [repr(key) for key in islice(dict.__iter__(value), MOST_KEYS) if type(key) in (str, int)]
    more = len(value) - len(keys)
    names = ", ".join(key if len(key) <= KEY_CHARS else key[: KEY_CHARS - 1] + "…" for key in keys)
    return f"{text} has: {names}" + (f", and {more:,} more" if more else "") if keys else f"{text} is empty"


def _node_at(trace: TracebackType, source: str) -> ast.AST | None:
    """Return what the last entry of the traceback marks: an expression, or a loop whose values cannot be had."""
    import ast  # 2 ms: only an exception needs it

    position = next(islice(trace.tb_frame.f_code.co_positions(), trace.tb_lasti // 2, None))
    for node in ast.walk(_parsed(source)):
        if (
            isinstance(node, ast.expr | ast.For)
            and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == position
        ):
            return node
    return None


@lru_cache(1)
def _parsed(source: str) -> ast.Module:
    import ast  # 2 ms: only an exception needs it

    return ast.parse(source)


def _operands(node: ast.AST) -> list[ast.expr]:
    import ast  # 2 ms: only an exception needs it

    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=others):
            return [left, *others]
        case ast.UnaryOp(operand=value) | ast.Subscript(value=value) | ast.Attribute(value=value) | ast.Call(func=value):
            return [value]
        case ast.For(iter=value):
            return [value]
        case ast.expr():
            return [node]  # in later versions of Python, the values of a loop
    return []


def _is_none(node: ast.expr, frame: FrameType) -> bool:
    try:
        return _value(node, frame) is None
    except LookupError:
        return False


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name, a constant or a subscript; raises `LookupError` for all else."""
    import ast  # 2 ms: only an exception needs it

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return frame.f_locals[name] if name in frame.f_locals else frame.f_globals[name]
        case ast.Subscript(value=of, slice=at):
            value, key = _value(of, frame), _value(at, frame)
            if type(key) in (str, int):
                if isinstance(value, dict):
                    return dict.__getitem__(value, key)
                if type(value) in (list, tuple):
                    return value[key]
    raise LookupError


def _text(node: ast.expr) -> str:
    import ast  # 2 ms: only an exception needs it

    text = ast.unparse(node)
    return text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + "…"
