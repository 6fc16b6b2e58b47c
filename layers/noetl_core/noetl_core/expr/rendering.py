"""`render` and `truthy`: from templates to plain values (resolution 15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jinja2.exceptions import TemplateError as JinjaError
from jinja2.exceptions import UndefinedError
from jinja2.runtime import Undefined

from noetl_core.expr.compiled import Compiled, compile_text, is_template
from noetl_core.expr.errors import CredentialFailed, LimitExceeded, NoSuchName, TemplateError, UndefinedValue
from noetl_core.expr.evaluation import Evaluation
from noetl_core.expr.evaluation_limits import DATA_DEPTH, Limits, MissingEntry, MissingName
from noetl_core.expr.reading import DEFAULT_LIMITS
from noetl_core.expr.scope import Scope
from noetl_core.expr.secret import Secret
from noetl_core.expr.values import SCALARS
from noetl_core.values.outlines import Part

NO_ENVIRONMENT: Final = (
    "no template reads the environment: a secret is a credential (keychain, auth), anything else an input (workload)"
)
"""The hint for `env`, a name in other workflow languages."""

DEFAULT: Final = "if the value may be missing, use default(...)"
WITHHELD: Final = "details withheld: the template read a secret"

_QUOTED: Final = 120
"""The most characters of a template that an error message quotes."""

MOST_BLANKS: Final = 20
"""The most blanks that a scope receives."""

_FALSE_TEXT: Final = frozenset({"", "false", "none", "null", "no", "off", "0"})


def render(
    value: Any,
    scope: Scope | Mapping[str, Any],
    *,
    undefined_ok: bool = False,
    whole: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Any:
    """Evaluate every template in `value`, also inside mappings and lists; keys and other values stay unchanged.

    A text that is one `{{ expression }}` becomes the value of the expression with its type; other text with templates becomes
    text. An undefined whole value raises `UndefinedValue`, or is None with `undefined_ok` in a scope that is not strict. A
    value whose evaluation read a secret is a `Secret`. References are passed on; with `whole` they are loaded. `limits` apply
    to the whole call.

    Raises `TemplateError` and its subclasses, and the exceptions of the scope's `resolve`.
    """
    if type(value) in SCALARS and not (type(value) is str and is_template(value)):
        return value
    if type(value) is dict and not value:
        return {}
    evaluation = Evaluation(_scope(scope), limits)
    rendered = _render(value, evaluation, undefined_ok and not evaluation.scope.strict, 0)
    return _whole(rendered, evaluation) if whole and type(rendered) not in SCALARS else rendered


def load(value: Any, scope: Scope | Mapping[str, Any], *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Return `value`, which contains no templates, with every reference replaced by its value. Raises as `render`."""
    return value if type(value) in SCALARS else _whole(value, Evaluation(_scope(scope), limits))


def _whole(value: Any, evaluation: Evaluation) -> Any:
    try:
        return evaluation.plain(value, keep_secrets=True)
    except RecursionError:
        raise LimitExceeded("a value loaded from a reference nests too deeply") from None


def _scope(scope: Scope | Mapping[str, Any]) -> Scope:
    return scope if isinstance(scope, Scope) else Scope(scope)


def _render(value: Any, evaluation: Evaluation, undefined_ok: bool, depth: int) -> Any:
    if isinstance(value, str):
        return _text(compile_text(value), evaluation, undefined_ok) if is_template(value) else value
    if type(value) in SCALARS:
        return value
    if depth > DATA_DEPTH:
        raise LimitExceeded(f"a value nested deeper than {DATA_DEPTH}")
    if isinstance(value, dict | Mapping):
        return {k: _render(v, evaluation, undefined_ok, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_render(v, evaluation, undefined_ok, depth + 1) for v in value]
    return value


def _text(compiled: Compiled, evaluation: Evaluation, undefined_ok: bool) -> Any:
    result = evaluate(compiled, evaluation, undefined_ok=undefined_ok)
    if isinstance(result, Undefined):
        if undefined_ok:
            evaluation.count_empty(result)
            _report_blanks(compiled, evaluation)
            return None
        why = _why(result, evaluation)
        raise UndefinedValue(f"{_quote(compiled.source)} is undefined ({why}); {_remedy(result)}")
    return Secret(result, evaluation.opened) if evaluation.tainted else result


def _why(undefined: Undefined, evaluation: Evaluation) -> str:
    return WITHHELD if evaluation.tainted else undefined._undefined_message


def _remedy(undefined: Undefined) -> str:
    return NO_ENVIRONMENT if undefined._undefined_name == "env" else DEFAULT


def truthy(value: Any, scope: Scope | Mapping[str, Any], *, limits: Limits = DEFAULT_LIMITS) -> bool:
    """Return whether a `when` is true: a template, or a plain boolean or number. Undefined is false (resolution 15).

    Text that is not a template is refused unless it is `true` or `false`. Raises as `render`.
    """
    if type(value) is not str:
        return bool(value)
    if not is_template(value):
        word = value.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        raise TemplateError(f"a condition must be a {{{{ template }}}}, not the text {_quote(value)}")
    compiled = compile_text(value)
    evaluation = Evaluation(_scope(scope), limits)
    evaluation.is_condition = True
    result = evaluate(compiled, evaluation, checked=False)
    if type(result) is MissingName:
        raise UndefinedValue(f"{_quote(value)}: {_why(result, evaluation)}; {_remedy(result)}")
    if not compiled.is_expression and type(result) is str:
        return result.strip().lower() not in _FALSE_TEXT
    return evaluation.truth(result)


def evaluate(compiled: Compiled, evaluation: Evaluation, *, checked: bool = True, undefined_ok: bool = False) -> Any:
    """Run a template. The result is plain data or undefined; `checked=False` skips the check of its content. `tainted` is
    reset.

    Undefined values inside a list or mapping that the template built become None with `undefined_ok`, otherwise
    `UndefinedValue` is raised.
    """
    if evaluation.scope.check is not None:
        evaluation.scope.check()
    if evaluation.tainted:
        evaluation.tainted, evaluation.opened = False, []
    failure: TemplateError | None = None
    try:
        result = _run(compiled, evaluation)
        result = _checked(compiled, evaluation, result, undefined_ok) if checked else result
    except TemplateError as error:
        failure = error
    except UndefinedError as error:
        failure = UndefinedValue(str(error))
    except (RecursionError, MemoryError):
        failure = LimitExceeded("it nests too deeply or needs too much memory")
    except (JinjaError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        failure = TemplateError(str(error) or type(error).__name__)
    if evaluation.blank is not None:
        _report_blanks(compiled, evaluation)
    if evaluation.raised is not None:  # raised by the scope's resolve, and the cause of any later error
        raise evaluation.raised
    if failure is None:
        return result
    withheld = evaluation.tainted and not isinstance(failure, NoSuchName | CredentialFailed)
    message = f"failed ({WITHHELD})" if withheld else failure.message
    if evaluation.scope.strict and type(failure) is UndefinedValue:
        message += f"; {DEFAULT}"
    raise failure.saying(f"{_quote(compiled.source)}: {message}")


def _report_blanks(compiled: Compiled, evaluation: Evaluation) -> None:
    """Tell the scope which undefined names counted as empty: as the template reads them, if that is known."""
    for undefined in evaluation.blank or ():
        name = "" if evaluation.tainted else str(undefined._undefined_name or undefined._undefined_message)[:_QUOTED]
        paths = sorted(read.path for read in compiled.reads if name in read.path)
        if paths:
            name = ".".join(paths[0][: paths[0].index(name) + 1])
        if evaluation.scope.blanks is not None and len(evaluation.scope.blanks) < MOST_BLANKS:
            evaluation.scope.blanks[(name, _quote(compiled.source))] = None
    evaluation.blank = None


def _run(compiled: Compiled, evaluation: Evaluation) -> Any:
    if compiled.is_expression:
        return compiled.root(evaluation, evaluation)
    evaluation.vars = {}
    evaluation.exported_vars = set()
    pieces = []
    for piece in compiled.root(evaluation, evaluation):
        evaluation.charge(len(piece))
        pieces.append(piece)
    return "".join(pieces)


def _checked(compiled: Compiled, evaluation: Evaluation, result: Any, undefined_ok: bool) -> Any:
    """Return `result` as plain data. Data that comes from the scope is not traversed, unless it may contain pointers."""
    if isinstance(result, Part):
        result = evaluation.read(result)
    kind = type(result)
    if kind is str or kind is int or kind is bool or kind is float or result is None or isinstance(result, Undefined):
        return evaluation.read(result) if kind is MissingEntry else result
    if (kind is dict or kind is list) and not compiled.builds_value and "steps" not in compiled.names:
        return result
    result = evaluation.plain(result, undefined_ok=undefined_ok, keep_secrets=True, keep_references=True)
    if compiled.builds_value:
        evaluation.charge(evaluation.weight)  # shared parts are written repeatedly
    return result


def _quote(source: str) -> str:
    text = " ".join(source.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."
