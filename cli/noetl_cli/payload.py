"""`--payload` and `--set`: what a run is given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from noetl_cli.errors import USAGE, Exit


def payload_of(payload: str | None, sets: Sequence[str]) -> dict[str, Any]:
    """The payload of `--payload JSON|@file`, with each `--set a.b=value` (typed as YAML) put in. Raises `Exit(2)`."""
    out: dict[str, Any] = {}
    if payload is not None:
        value = json_of(payload, "--payload")
        if not isinstance(value, dict):
            raise Exit(USAGE, f"--payload is a JSON {type(value).__name__}; an object is expected")
        out = value
    for entry in sets:
        put(out, entry)
    return out


def json_of(text: str, option: str) -> Any:
    """The value of JSON text, or of the file named after `@`. Raises `Exit(2)`."""
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Exit(USAGE, f"{option}: {error}") from None
    from noetl_core import strict_json

    try:
        return strict_json.loads(text)
    except ValueError as error:
        raise Exit(USAGE, f"{option} is not JSON: {error}") from None


def put(out: dict[str, Any], entry: str) -> None:
    """Set `a.b=value` in `out`."""
    import yaml

    from noetl_core import strict_json

    path, sign, text = entry.partition("=")
    keys = path.removeprefix("workload.").split(".")
    if not sign or not all(keys):
        raise Exit(USAGE, f"--set {entry!r}: expected a.b=value")
    try:
        value = yaml.safe_load(text) if text else ""
        if isinstance(value, date):
            value = text  # JSON has no dates: the text as it was written
        strict_json.check(value)
    except (yaml.YAMLError, ValueError) as error:
        raise Exit(USAGE, f"--set {entry!r}: {error}") from None
    for key in keys[:-1]:
        inner = out.setdefault(key, {})
        if not isinstance(inner, dict):
            raise Exit(USAGE, f"--set {entry!r}: {key} is not an object")
        out = inner
    out[keys[-1]] = value


def merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` on top of `under`, deep."""
    out = dict(under)
    for key, value in over.items():
        mine = out.get(key)
        out[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return out
