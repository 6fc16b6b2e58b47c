// Small parts: what is empty, what failed, facts, buttons.
import { html } from "../vendor/preact.js";
import { notify } from "../core/notices.js";
import { ago, dateTime } from "../core/format.js";
import { Icon } from "./icons.js";

/** What a page shows where there is nothing: what that means, and what to do. */
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

/** An instant: how long ago, with its date to hover. */
export const When = ({ at }) => (at ? html`<time datetime=${at} title=${dateTime(at)} class="nowrap">${ago(at)}</time>` : null);

/** `{name: value}` under each other; what is empty is left out. */
export function Facts({ of }) {
  const rows = Object.entries(of).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
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
