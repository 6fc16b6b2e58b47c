// Steps as a table, now or then.
import { html } from "../../vendor/preact.js";
import { number, stored } from "../../core/format.js";
import { bdi, Empty, Table } from "../../components/parts.js";
import { Status } from "../../components/status.js";

const MOST = 1000;

export function Steps({ run }) {
  const { steps, state, summary, moment } = run;
  const rows = moment.at && state
    ? Object.entries(state.steps).map(([name, s]) => ({ name, ...s }))
    : Object.entries(steps).map(([name, s]) => ({ name, ...s, result: summary?.steps[name]?.result }));
  if (!rows.length) return html`<div class="content"><${Empty} title="No step was reached">${moment.at ? "At this moment nothing had run." : "Nothing has run yet."}<//></div>`;
  return html`<div class="content"><${Table} heads=${["Step", "Status", ["Runs", "right"], ["Open", "right"], ["Tokens", "right"], "Loop", "Result"]}>
    ${rows.slice(0, MOST).map((row) => html`<tr key=${row.name} aria-selected=${row.name === run.step} onClick=${() => run.select(row.name)}>
      <td><button class="button plain" onClick=${() => run.select(row.name)}>${bdi(row.name, 60)}</button></td>
      <td><${Status} value=${row.status} warnings=${row.loop?.failed} /></td>
      <td class="right number">${number(row.visits)}</td><td class="right number">${row.open ? number(row.open) : ""}</td><td class="right number">${row.tokens ? number(row.tokens) : ""}</td>
      <td class="nowrap">${row.loop ? html`${number(row.loop.succeeded + row.loop.failed)}/${number(row.loop.total)}${row.loop.failed ? html` <b class="tone-bad">${number(row.loop.failed)} failed</b>` : null}` : ""}</td>
      <td class="mono soft anywhere">${row.result === undefined || row.result === null ? "" : bdi(stored(row.result) || row.result, 80)}</td></tr>`)}<//>
    ${rows.length > MOST ? html`<p class="empty">The first ${number(MOST)} of ${number(rows.length)}; the tree beside the graph has all of them.</p>` : null}
  </div>`;
}
