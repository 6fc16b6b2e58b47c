// Small parts: names, cards, tables, messages for empty lists and failures, facts, buttons.
import { html } from "../vendor/preact.js";
import { ago, dateTime, given, oneLine } from "../core/format.js";
import { notify } from "../core/notices.js";
import { href, route } from "../core/router.js";
import { Icon } from "./icons.js";

/** A name or value from outside: on one line, shortened, and isolated in its text direction. */
export const bdi = (value, length) => html`<bdi>${oneLine(value, length)}</bdi>`;

/** The message of an empty page or list: its meaning, and the next step. */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;
}

/** A request that was refused. */
export function Refused({ error, again }) {
  const details = (error.details ?? []).map((d) => html`<li><code>${d.loc}</code> ${d.message}${d.hint ? ` (${d.hint})` : ""}</li>`);
  return html`<div class="failure" role="alert">
    <div class="what"><strong>${error.status === 0 ? "No answer" : error.status === 404 ? "Not there" : "Refused"}</strong>
      <p class="anywhere">${error.message}</p>${details.length ? html`<ul>${details}</ul>` : null}</div>
    ${again ? html`<button class="button" onClick=${again}>Try again</button>` : null}
  </div>`;
}

export const Busy = ({ what = "Loading" }) => html`<div class="empty" role="status"><span class="busy" aria-hidden="true"></span> ${what}…</div>`;

/** A placeholder while data (`useData`) are loading or after an error; null once they have arrived. */
export const pending = ({ data, error, again }, what) => (error ? html`<${Refused} error=${error} again=${again} />` : data ? null : html`<${Busy} what=${what} />`);

/** A part of a page; `more` stands beside its heading. */
export const Card = ({ title, label = title, more, children, ...rest }) => html`<section class="card" aria-label=${label} ...${rest}>${title ? html`<header><h2>${title}</h2>${more}</header>` : null}${children}</section>`;

/** A table. A column is its words, or `[words, look]`: `right` for numbers, `unseen` if the cells need no heading. A table
 * without buttons or links needs a `label`; the keyboard can reach it to scroll. */
export function Table({ heads, children, look, label }) {
  const head = (words, how) => (how === "unseen" ? html`<th scope="col"><span class="unseen">${words}</span></th>` : html`<th scope="col" class=${how}>${words}</th>`);
  return html`<div class="scroll" ...${label ? { tabindex: 0, role: "group", "aria-label": label } : {}}><table class=${look}><thead><tr>${heads.map((one) => head(...[one].flat()))}</tr></thead><tbody>${children}</tbody></table></div>`;
}

/** The age of an instant; its date is the tooltip. */
export const When = ({ at }) => (at ? html`<time datetime=${at} title=${dateTime(at)} class="nowrap">${ago(at)}</time>` : null);

/** `{name: value}` under each other; empty values are left out. */
export function Facts({ of }) {
  return html`<dl class="facts">${given(of).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

/** A label of an execution; it leads to all that have it. */
export function Label({ name, value }) {
  const { parts, query } = route.value;
  const label = value.includes(",") ? name : `${name}:${value}`; // a comma is an "and"
  const kept = parts.length === 1 ? { ...query, cursor: "" } : {}; // the present filters of the list
  return html`<a class="tag" href=${href(["executions"], { ...kept, label })} title=${`All with ${label}`}><span class="cut"><bdi>${name}: ${value}</bdi></span></a>`;
}

export function Copy({ text, what }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      notify(`${what} copied`);
    } catch {
      notify(`The browser does not let this page copy: ${text}`, "bad");
    }
  };
  return html`<button class="button plain" onClick=${copy} aria-label=${`Copy ${what}`} title=${`Copy ${what}`}><${Icon} name="copy" /></button>`;
}
