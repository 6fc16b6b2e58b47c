"""The OpenAPI document as a page: no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from noetl_core.control.api.call import Answer

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { font: 600 15px ui-monospace, monospace; margin: 2rem 0 .3rem; border-top: 1px solid #ddd; padding-top: 1rem; }
h2 b { display: inline-block; min-width: 4.5rem; color: #2474c9; }
table { border-collapse: collapse; margin: .4rem 0; }
td, th { border: 1px solid #ddd; padding: .2rem .6rem; text-align: left; vertical-align: top; }
code { font-family: ui-monospace, monospace; }
"""


def page(document: Mapping[str, Any]) -> Answer:
    """HTML of an OpenAPI document."""
    info = document["info"]
    out = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{escape(info['title'])} API</title><style>{STYLE}</style>",
        f"<h1>{escape(info['title'])} API {escape(info['version'])}</h1>",
        "<p>The same as data: <a href='openapi.json'>openapi.json</a>.</p>",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            out += _operation(path, method, operation)
    return Answer(200, "\n".join([*out, "</html>"]) + "\n", "text/html; charset=utf-8")


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> list[str]:
    out = [f"<h2><b>{escape(method.upper())}</b> {escape(path)}</h2>", f"<p>{escape(operation['summary'])}.</p>"]
    rows = [(p["name"], p["in"], p.get("description", "")) for p in operation["parameters"] if p["in"] != "path"]
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        kind = field.get("type", "any") + (", required" if name in required else "")
        rows.append((name, f"body: {kind}", field.get("description", "")))
    if rows:
        cells = ["".join(f"<td>{escape(str(c))}</td>" for c in row) for row in rows]
        out.append("<table><tr><th>name</th><th>in</th><th></th></tr>" + "".join(f"<tr>{c}</tr>" for c in cells) + "</table>")
    answers = [f"<code>{status}</code> {escape(a['description'])}" for status, a in operation["responses"].items()]
    out.append("<p>" + ", ".join(answers) + "</p>")
    return out
