"""`--payload` and `--set`: the inputs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl_cli.errors import USAGE, Exit
from noetl_core.values import strict_json

if TYPE_CHECKING:
    from noetl_core.dsl.model import Playbook


def payload_of(payload: str | None) -> dict[str, Any]:
    """Return the payload of `--payload JSON|@file`. Raises `Exit(2)`."""
    if payload is None:
        return {}
    value = json_of(payload, "--payload")
    if not isinstance(value, dict):
        raise Exit(USAGE, f"--payload is a JSON {type(value).__name__}; an object is expected")
    return value


def check_sets(sets: Sequence[str], playbook: Playbook) -> None:
    """Refuse `--set` with a key that the workload does not know. Raises `Exit(2)`."""
    from noetl_core.engine.workload import unknown  # 190 ms: needed only to set values

    for entry in sets:
        workload: dict[str, Any] = {}
        put(workload, entry)
        for _, near, message in unknown(playbook, workload):
            remedy = "" if near else "; to add a new input, use --payload"
            raise Exit(USAGE, f"--set {entry!r}: {message}{remedy}")


def json_of(text: str, option: str) -> Any:
    """Return the value of JSON text, or of the file named after `@`. Raises `Exit(2)`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Exit(USAGE, f"{option}: {error}") from None
    try:
        return strict_json.loads(text)
    except ValueError as error:
        raise Exit(USAGE, f"{option} is not JSON: {error}") from None


def put(out: dict[str, Any], entry: str) -> None:
    """Set `a.b=value` in `out`."""
    import yaml  # 37 ms, with the next: needed only to set values

    from noetl_cli.inputs.yaml_value import yaml_value

    path, sign, text = entry.partition("=")
    keys = path.removeprefix("workload.").split(".")
    if not sign or not all(keys):
        raise Exit(USAGE, f"--set {entry!r}: expected a.b=value")
    try:
        value = yaml_value(text) if text else ""
        strict_json.check(value)
    except yaml.MarkedYAMLError as error:
        at = "" if error.problem_mark is None else f" (column {len(path) + error.problem_mark.column + 2})"
        raise Exit(USAGE, f"--set {entry!r}: {error.problem}{at}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Exit(USAGE, f"--set {entry!r}: {error}") from None
    for key in keys[:-1]:
        inner = out.setdefault(key, {})
        if not isinstance(inner, dict):
            raise Exit(USAGE, f"--set {entry!r}: {key} is not an object")
        out = inner
    out[keys[-1]] = value
