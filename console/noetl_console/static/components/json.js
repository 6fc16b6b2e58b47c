// A value as a tree that opens where it is clicked. Long lists and texts are shown in parts.
import { html, useState } from "../vendor/preact.js";
import { number, oneLine, stored } from "../core/format.js";
import { bdi } from "./parts.js";

const PART = 100;
const LONG = 2000;

export function Json({ value, open = 2 }) {
  return html`<div class="json"><${Value} value=${value} open=${open} /></div>`;
}

function Value({ value, open }) {
  if (value === null || value === undefined) return html`<span class="literal">null</span>`;
  if (typeof value === "string") return html`<${Text} value=${value} />`;
  if (typeof value !== "object") return html`<span class="literal">${String(value)}</span>`;
  const list = Array.isArray(value);
  const entries = Object.entries(value);
  if (entries.length === 0) return html`<span class="soft">${list ? "[]" : "{}"}</span>`;
  return html`<${Entries} entries=${entries} list=${list} value=${value} open=${open} />`;
}

function Entries({ entries, list, value, open }) {
  const reference = stored(value);
  const [shown, setShown] = useState(PART);
  const [opened, setOpened] = useState(open > 0 && !reference);
  const word = reference || (list ? `${number(entries.length)} items` : oneLine(entries.slice(0, 60).map(([key, each]) => (opened || (each && typeof each === "object") ? key : `${key}: ${JSON.stringify(each?.slice?.(0, 60) ?? each)}`)).join(", "), 60));
  return html`<details open=${opened} onToggle=${(e) => setOpened(e.currentTarget.open)}>
    <summary><span class="soft">${list ? `[ ${word} ]` : html`{ <bdi>${word}</bdi> }`}</span></summary>
    ${opened
      ? html`<ul>${entries.slice(0, shown).map(([key, each]) => html`<li key=${key}><span class="key">${bdi(key, 200)}</span>: <${Value} value=${each} open=${open - 1} /></li>`)}
        ${entries.length > shown ? html`<li><button class="button plain" onClick=${() => setShown(shown + PART * 10)}>${number(entries.length - shown)} more</button></li>` : null}</ul>`
      : null}
  </details>`;
}

function Text({ value }) {
  const [whole, setWhole] = useState(false);
  const cut = value.length > LONG && !whole;
  return html`<span class="string"><bdi>${JSON.stringify(cut ? value.slice(0, LONG) : value)}</bdi></span>${cut
    ? html` <button class="button plain" onClick=${() => setWhole(true)}>all ${number(value.length)} characters</button>`
    : null}`;
}
