"""Shows the question of a callback as a page, for people who open its link in a mail or a chat: a form without scripts, and an
explanation if the link is no longer valid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from html import escape
from typing import Any, Final

from noetl_core.values.answer_forms import FormField, decision_of, fields_of, is_instant
from noetl_core.values.instants import from_text

FIELD: Final = "field."
"""Prefix of the names of inputs."""
STYLE: Final = """
:root { color-scheme: light dark; --ground: #f3f5f8; --card: #fff; --text: #1a2230; --soft: #566073; --line: #8a93a3;
  --yes: #17703f; --no: #b3261e; --on: #fff; --bad: #fce8e6; }
@media (prefers-color-scheme: dark) { :root { --ground: #11151c; --card: #1a202a; --text: #e4e8ef; --soft: #a0a9b8;
  --line: #6f7a8d; --yes: #63d396; --no: #ff8a80; --on: #0d1420; --bad: #3d1a18; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; padding: 24px 16px; }
main { max-width: 34rem; margin: 0 auto; background: var(--card); border-radius: 14px; padding: 24px;
  box-shadow: 0 1px 3px rgb(0 0 0 / 15%); }
.from, .until, .hint { color: var(--soft); font-size: 14px; margin: 0; overflow-wrap: anywhere; }
h1 { font-size: 22px; line-height: 1.3; margin: 6px 0 10px; overflow-wrap: anywhere; }
.more { margin: 0 0 10px; overflow-wrap: anywhere; white-space: pre-wrap; }
label, legend { display: block; font-weight: 600; margin: 18px 0 4px; }
input, select, textarea { width: 100%; min-height: 44px; padding: 8px 10px; font: inherit; color: inherit;
  background: transparent; border: 1px solid var(--line); border-radius: 8px; }
select option { color: #1a2230; background: #fff; }
textarea { min-height: 96px; }
.wrong { background: var(--bad); border-radius: 8px; padding: 10px 14px; margin: 14px 0 0; } .wrong ul { margin: 0;
  padding-left: 18px; }
.buttons { display: flex; gap: 12px; margin-top: 24px; flex-wrap: wrap; }
button { flex: 1 1 9rem; min-height: 48px; padding: 10px 16px; font: inherit; font-weight: 650; border-radius: 10px;
  cursor: pointer; border: 2px solid var(--yes); background: var(--yes); color: var(--on); overflow-wrap: anywhere; }
button.no { border-color: var(--no); background: transparent; color: var(--no); }
:focus-visible { outline: 3px solid var(--soft); outline-offset: 2px; }
"""


class Page(str):
    """The HTML of a page, with the status of the answer that it is."""

    status: int

    def __new__(cls, title: str, body: str, status: int) -> Page:
        made = super().__new__(
            cls,
            "<!doctype html><html lang=en><head><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width, initial-scale=1'>"
            f"<meta name=robots content=noindex><title>{escape(title)}</title><style>{STYLE}</style></head>"
            f"<body><main>{body}</main></body></html>\n",
        )
        made.status = status
        return made


def notice(title: str, words: str, status: int) -> Page:
    """Return a page with a message only."""
    return Page(title, f"<h1>{escape(title)}</h1><p>{escape(words)}</p>", status)


def question(
    asked: Mapping[str, Any], action: str, texts: Mapping[str, str] | None = None, wrong: Sequence[str] = (), status: int = 200
) -> Page:
    """Return the page of a question: `asked` has `description`, `schema`, `path`, `step` and perhaps `until`. The form is sent to
    `action`. After a refused answer, `texts` are the typed texts, and `wrong` lists their errors."""
    schema, description = asked.get("schema"), asked.get("description")
    title = description if isinstance(description, str) and description else f"{asked['path']} asks for an answer"
    decision = decision_of(schema)
    title, _, more = title.strip().partition("\n")
    out = [f"<p class=from><bdi>{escape(asked['path'])}</bdi> · {escape(asked['step'])}</p><h1><bdi>{escape(title)}</bdi></h1>"]
    if more:
        out.append(f"<p class=more><bdi>{escape(more)}</bdi></p>")
    if "until" in asked:
        out.append(f"<p class=until>Please answer before {_instant(asked['until'])}.</p>")
    if wrong:
        out.append("<div class=wrong role=alert><ul>" + "".join(f"<li>{escape(each)}" for each in wrong) + "</ul></div>")
    out.append(f"<form method=post action='{escape(action, quote=True)}'>")
    out += [_field(f, (texts or {}).get(f.name)) for f in fields_of(schema) if decision is None or f.name != decision["key"]]
    if decision is None:
        buttons = "<button>Answer</button>"
    else:
        yes, no = escape(decision["yes"]), escape(decision["no"])
        buttons = f"<button name=decision value=yes>{yes}</button><button class=no name=decision value=no>{no}</button>"
    out.append(f"<div class=buttons>{buttons}</div></form>")
    return Page(title, "".join(out), status)


def typed(form: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of a form by the names of its fields."""
    return {name.removeprefix(FIELD): text for name, text in form.items() if name.startswith(FIELD)}


def _field(field: FormField, text: str | None) -> str:
    schema, name = field.schema, escape(FIELD + field.name, quote=True)
    if text is None and "default" in schema and not (field.type == "boolean" and field.required):
        text = _text(field, schema["default"])
    needed = " required" if field.required and field.type != "json" else ""
    about = escape(str(schema["description"])) if schema.get("description") else "JSON" if field.type == "json" else ""
    about = f"{about} In UTC.".lstrip() if is_instant(field) else about
    hint = f"<p class=hint id='{name}-hint'>{about}</p>" if about else ""
    common = f"id='{name}' name='{name}'{needed}" + (f" aria-describedby='{name}-hint'" if about else "")
    label = f"<label for='{name}'>{escape(field.title or 'Your answer')}{'' if field.required else ' (optional)'}</label>{hint}"
    match field.type:
        case "boolean" | "enum":
            options = [("true", "Yes"), ("false", "No")]
            if field.type == "enum":
                options = [(str(n), v if isinstance(v, str) else json.dumps(v)) for n, v in enumerate(schema["enum"])]
            rows = [f"<option value='{v}'{' selected' if v == text else ''}>{escape(words)}</option>" for v, words in options]
            return f"{label}<select {common}><option value=''>Choose…</option>{''.join(rows)}</select>"
        case "integer" | "number":
            step = 1 if field.type == "integer" else "any"
            bounds = "".join(
                f" {a}='{escape(str(schema[k]), quote=True)}'" for a, k in (("min", "minimum"), ("max", "maximum")) if k in schema
            )
            return f"{label}<input type=number step={step}{bounds} {common} value='{escape(text or '', quote=True)}'>"
        case "string" if schema.get("format") != "multiline" and schema.get("maxLength", 0) <= 200:
            kind = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email"}.get(
                schema.get("format", ""), "text"
            )
            bounds = "".join(
                f" {k.lower()}='{escape(str(schema[k]), quote=True)}'" for k in ("minLength", "maxLength") if k in schema
            )
            return f"{label}<input type={kind}{bounds} {common} value='{escape(text or '', quote=True)}'>"
        case _:
            return f"{label}<textarea {common}>\n{escape(text or '')}</textarea>"


def _text(field: FormField, value: Any) -> str:
    if field.type == "enum":
        return str(field.schema["enum"].index(value)) if value in field.schema["enum"] else ""
    if is_instant(field) and isinstance(value, str):
        with suppress(ValueError):  # the page is shown also if the default is not an instant
            return from_text(value).astimezone(UTC).isoformat()[:19]
    return value if field.type == "string" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _instant(text: str) -> str:
    return f"<time datetime='{escape(text, quote=True)}'>{escape(text[:16].replace('T', ' '))} UTC</time>"
