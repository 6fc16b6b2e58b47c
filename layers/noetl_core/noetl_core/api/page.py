"""Shows the OpenAPI document as a page, without scripts or external resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { font: 600 15px ui-monospace, monospace; margin: 2rem 0 .3rem; border-top: 1px solid #ddd; padding-top: 1rem; }
h2 b { display: inline-block; min-width: 4.5rem; color: #2474c9; }
table { border-collapse: collapse; margin: .4rem 0; }
td, th { border: 1px solid #ddd; padding: .2rem .6rem; text-align: left; vertical-align: top; }
code { font-family: ui-monospace, monospace; }
"""


def page(document: Mapping[str, Any]) -> str:
    """Return the HTML of an OpenAPI document."""
    info = document["info"]
    out = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style>",
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1>",
        "<p>The same as data: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            out += _operation(path, method, operation, schemas)
    out.append("<h1>Types</h1>")
    for name, schema in schemas.items():
        out += _type(name, schema)
    return "\n".join([*out, "</html>"]) + "\n"


def _operation(path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> list[str]:
    out = [f"<h2><b>{escape(method.upper())}</b> {escape(path)}</h2>", f"<p>{escape(operation['summary'])}.</p>"]
    rows = [
        (p["name"], f"{p['in']}: {_kind(p['schema'])}", p.get("description", ""))
        for p in operation.get("parameters", ())
        if p["in"] != "path"
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    rows += _rows(schemas.get(body.get("$ref", "").rpartition("/")[2], body), "body: ")
    out += _table(("name", "in", ""), rows)
    answers = [
        f"<code>{status}</code> {escape(answer['description'])}{_answered(answer)}"
        for status, answer in operation["responses"].items()
    ]
    out.append("<p>" + ", ".join(answers) + "</p>")
    return out


def _answered(answer: Mapping[str, Any]) -> str:
    """Return the type of an answer, as a link; error responses are described once, among the types."""
    kinds = [_kind(content["schema"], link=True) for content in answer["content"].values() if "schema" in content]
    return "" if any("ErrorBody" in kind for kind in kinds) else f" ({' or '.join(dict.fromkeys(kinds))})"


def _type(name: str, schema: Mapping[str, Any]) -> list[str]:
    about = escape(" ".join(schema.get("description", "").split()))
    return [f"<h2 id='{escape(name)}'>{escape(name)}</h2>", f"<p>{about}</p>", *_table(("key", "type", ""), _rows(schema, ""))]


def _rows(schema: Mapping[str, Any], before: str) -> list[tuple[str, str, str]]:
    required = schema.get("required", ())
    return [
        (name, before + _kind(field) + (", required" if name in required else ""), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]


def _kind(schema: Mapping[str, Any], *, link: bool = False) -> str:
    """Return a type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"<a href='#{escape(name)}'>{escape(name)}</a>" if link else name
    if "anyOf" in schema:
        return " or ".join(_kind(part, link=link) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return " or ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), link=link)}"
    return str(schema.get("type", "any"))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    return [f"<table><tr>{titles}</tr>" + "".join(f"<tr>{c}</tr>" for c in cells) + "</table>"]
