// What it would cost at list prices, by step.
import { html } from "../../vendor/preact.js";
import { get, path } from "../../core/api.js";
import { money, number, oneLine } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { Busy, Refused } from "../../components/parts.js";

export function Cost({ run }) {
  const cost = useData((signal) => get(`${path("executions", run.id)}/cost`, {}, { signal }), [run.id, run.head.ended]);
  if (cost.error) return html`<${Refused} error=${cost.error} again=${cost.again} />`;
  if (!cost.data) return html`<${Busy} what="Metering" />`;
  const { total, steps, prices, partial } = cost.data;
  const rows = Object.entries(steps).sort(([, a], [, b]) => b.cost - a.cost);
  const most = Math.max(...rows.map(([, s]) => s.cost), 1e-12);
  return html`<div class="content padded">
    <section class="card" aria-label="By step"><header><h2>${money(total.cost)}</h2><span class="soft">at AWS list prices, no free tiers${partial ? "; of the beginning only: the history is long" : ""}</span></header>
      <table><thead><tr><th scope="col">Step</th><th scope="col" class="right">Runs</th><th scope="col" class="right">Cost</th><th scope="col" class="right">Share</th><th scope="col" style=${{ width: "30%" }}><span class="unseen">Share as a bar</span></th></tr></thead>
        <tbody>${rows.slice(0, 500).map(([name, s]) => html`<tr><td><bdi>${oneLine(name, 60)}</bdi></td><td class="right number">${s.runs ? number(s.runs) : ""}</td><td class="right number">${money(s.cost)}</td>
          <td class="right number">${total.cost ? `${((100 * s.cost) / total.cost).toFixed(1)} %` : ""}</td><td><div class="bars"><i style=${{ display: "block", height: "8px", borderRadius: "2px", background: "var(--accent)", width: `${(100 * s.cost) / most}%` }}></i></div></td></tr>`)}</tbody></table></section>
    <section class="card" aria-label="By unit"><header><h2>Units</h2></header><table><thead><tr><th scope="col">Unit</th><th scope="col" class="right">Count</th><th scope="col" class="right">Price of one</th></tr></thead>
      <tbody>${Object.entries(total.units).map(([name, n]) => html`<tr><td>${name}</td><td class="right number">${number(Math.round(n * 100) / 100)}</td><td class="right number">${prices[name] === undefined ? "" : money(prices[name])}</td></tr>`)}</tbody></table></section>
  </div>`;
}
