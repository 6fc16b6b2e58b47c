"""Finds the registered playbooks that are tools: those with `metadata.mcp_tool`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from noetl_cli.errors import say
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.reading.diagnostics import InvalidPlaybook
from noetl_core.expr import is_template
from noetl_core.values.frozen import frozen

if TYPE_CHECKING:
    from noetl_core.api.requests import Api
    from noetl_core.dsl.model import Playbook

ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}
_About = tuple[str, str, Mapping[str, Any]]
_TYPES: Final = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}


@frozen
class Offered:
    """A playbook that is a tool: its latest version."""

    name: str
    path: str
    version: int
    description: str
    schema: Mapping[str, Any]


class Catalog:
    """The playbooks that are tools, for each caller those that its API lists. Texts are read once for each digest."""

    def __init__(self) -> None:
        self._known: dict[str, _About | None] = {}
        self._reported: set[str] = set()

    def offered(self, api: Api) -> dict[str, Offered]:
        """Return the tools by name. A name that several playbooks have names none of them."""
        found: dict[str, list[Offered]] = {}
        for listed in api.playbooks()["playbooks"]:
            about = self._about(api, listed["path"], listed["version"], listed["digest"])
            if about is not None:
                found.setdefault(about[0], []).append(Offered(about[0], listed["path"], listed["version"], *about[1:]))
        for name, several in found.items():
            if len(several) > 1 and name not in self._reported:
                self._reported.add(name)
                say(f"{name} is not served as a tool: {' and '.join(each.path for each in several)} have this mcp_tool")
        return {name: several[0] for name, several in sorted(found.items()) if len(several) == 1}

    def _about(self, api: Api, path: str, version: int, digest: str) -> _About | None:
        """Return name, description and input schema of a playbook; None if it is no tool, or if this version of NoETL rejects
        its text."""
        if digest not in self._known:
            try:
                playbook = parse_playbook(api.playbook(path, version)["source"], path, lenient=True)
            except InvalidPlaybook:
                self._known[digest] = None
                return None
            name = playbook.metadata.get("mcp_tool")
            about = str(playbook.metadata.get("description") or playbook.name)
            self._known[digest] = (name, about, input_schema(playbook)) if isinstance(name, str) else None
        return self._known[digest]


def input_schema(playbook: Playbook) -> Mapping[str, Any]:
    """Return the JSON Schema of the inputs of the tool.

    With `x-schema`, they are its properties: a model does not choose the other keys of the workload, such as an address to
    which a credential is sent. Without it, they are the keys of the workload, with the types of their defaults.
    """
    if not playbook.workload and playbook.inputs is None:
        return ANY_OBJECT  # a playbook without workload accepts anything
    return {"additionalProperties": False, **_of_object(playbook.workload, playbook.inputs)}


def _of_object(defaults: Mapping[str, Any], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the schema of an object whose keys may be left out where there is a default."""
    if schema is None:
        return {"type": "object", "properties": {name: _of_value(value, None) for name, value in defaults.items()}}
    parts: Mapping[str, Any] = schema.get("properties") or {}
    out = {**schema, "type": "object", "properties": {name: _of_value(defaults.get(name), parts[name]) for name in parts}}
    if "required" in schema:
        out["required"] = [name for name in schema["required"] if defaults.get(name) is None]
    return out


def _of_value(default: Any, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(default, Mapping):
        return _of_object(default, schema)
    known = type(default) in _TYPES and not is_template(default)  # null, or a template, may be anything
    out = dict(schema) if schema is not None else {"type": _TYPES[type(default)]} if known else {}
    if default is not None and not is_template(json.dumps(default)):
        out.setdefault("default", default)
    return out
