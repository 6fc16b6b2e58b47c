// The cost at list prices, by step.
import { html } from "../../vendor/preact.js";
import { atRun } from "../../core/api.js";
import { money, number } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { bdi, Card, pending, Table } from "../../components/parts.js";

export function Cost({ run }) {
  const cost = useGet(atRun(run.id, "cost"), {}, { deps: [run.head.ended] });
  const wait = pending(cost, "Metering");
  if (wait) return wait;
  const { total, steps, prices, estimated: sample } = cost.data;
  const rows = Object.entries(steps).sort(([, a], [, b]) => b.cost - a.cost);
  const most = Math.max(...rows.map(([, s]) => s.cost), 1e-12);
  return html`<div class="content padded">
    <${Card} label="By step" title=${money(total.cost)} more=${html`<span class="soft">at AWS list prices, no free tiers${sample ? `; estimated: ${number(sample.read)} of ${number(sample.commits)} commits were read` : ""}</span>`}>
      <${Table} label="Costs" heads=${["Step", ["Runs", "right"], ["Cost", "right"], ["Share", "right"], ["Share as a bar", "unseen"]]}>
        ${rows.slice(0, 500).map(([name, s]) => html`<tr><td>${bdi(name, 60)}</td><td class="right number">${s.runs ? number(s.runs) : ""}</td><td class="right number">${money(s.cost)}</td>
          <td class="right number">${total.cost ? `${((100 * s.cost) / total.cost).toFixed(1)} %` : ""}</td><td class="share"><i style=${{ width: `${(100 * s.cost) / most}%` }}></i></td></tr>`)}<//><//>
    <${Card} title="Units"><${Table} label="Prices" heads=${["Unit", ["Count", "right"], ["Price of one", "right"]]}>
      ${Object.entries(total.units).map(([name, n]) => html`<tr><td>${name}</td><td class="right number">${number(Math.round(n * 100) / 100)}</td><td class="right number">${prices[name] === undefined ? "" : money(prices[name])}</td></tr>`)}<//><//>
  </div>`;
}
