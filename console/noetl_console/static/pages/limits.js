// Limits that executions share: who holds places and who waits; rates, and how far they are reserved.
import { html } from "../vendor/preact.js";
import { get } from "../core/api.js";
import { duration, number, oneLine } from "../core/format.js";
import { useData } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Busy, Empty, Refused, When } from "../components/parts.js";

const EVERY_MS = 4000;

export function Limits() {
  const { key } = route.value.query;
  const found = useData((signal) => get("limits", {}, { signal }), [], { every: EVERY_MS });
  const one = useData((signal) => (key ? get("limits", { key }, { signal }) : Promise.resolve(null)), [key], { every: key ? EVERY_MS : 0 });
  const { limits = [], rates = [] } = found.data ?? {};
  const shown = key ? one.data?.limits[0] : null;
  return html`<div class="page">
    <header class="page-head"><h1>Limits</h1><span class="soft">that executions share</span></header>
    ${[found, one].map((f) => (f.error ? html`<${Refused} error=${f.error} again=${f.again} />` : null))}
    <section class="card" aria-label="Places">${found.loading ? html`<${Busy} />` : !limits.length && !rates.length ? html`<${Empty} title="No limit is in use">They come from <code>spec.policy.concurrency</code> and <code>rate</code>.<//>` : html`<div class="scroll"><table>
      <thead><tr><th scope="col">Limit</th><th scope="col" class="right">Held</th><th scope="col" class="right">At most</th><th scope="col">Waiting</th></tr></thead>
      <tbody>${limits.map((l) => html`<tr key=${l.key}><td><button class="button plain" aria-pressed=${l.key === key} onClick=${() => put({ key: l.key === key ? "" : l.key })}><bdi>${oneLine(l.key, 100)}</bdi></button></td><td class="right number">${number(l.held)}</td><td class="right number">${number(l.max)}</td><td>${l.waiting ? html`<span class="chip wait">some wait</span>` : "none"}</td></tr>`)}</tbody></table></div>`}</section>
    ${shown ? html`<${Places} of=${shown} />` : null}
    ${rates.length ? html`<section class="card" aria-label="Rates"><header><h2>Rates</h2></header><div class="scroll"><table><thead><tr><th scope="col">Rate</th><th scope="col" class="right">A second</th><th scope="col" class="right">Reserved ahead</th></tr></thead>
      <tbody>${rates.map((r) => html`<tr key=${r.key}><td><bdi>${oneLine(r.key, 100)}</bdi></td><td class="right number">${r.per_second}</td><td class="right number">${r.behind_s ? duration(r.behind_s * 1000) : "nothing"}</td></tr>`)}</tbody></table></div></section>` : null}
  </div>`;
}

/** Who holds places of a limit, the oldest first, and who waits. */
function Places({ of }) {
  const rows = [...(of.holders ?? []).map((h) => ["holds", h]), ...(of.waiters ?? []).map((w) => ["waits", w])];
  return html`<section class="card" aria-label="Who"><header><h2 class="cut"><bdi>${oneLine(of.key, 100)}</bdi></h2></header><div class="scroll"><table><thead><tr><th scope="col">Does</th><th scope="col">Execution</th><th scope="col">Since</th></tr></thead>
    <tbody>${rows.map(([word, h]) => html`<tr key=${h.holder}><td><span class="chip ${word === "waits" ? "wait" : "run"}">${word}</span></td><td class="mono"><a href=${href(["executions", h.execution_id])}>${h.execution_id}</a></td><td><${When} at=${h.since} /></td></tr>`)}</tbody></table></div>
    ${of.more ? html`<p class="soft inside">More wait than are shown.</p>` : null}</section>`;
}
