// Iterations of a loop: a heat map of all, failures by error, and a list.
import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { duration, iteration, number, oneLine, plural } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { put, route } from "../../core/router.js";
import { Choice, Filter } from "../../components/fields.js";
import { Heat, Legend } from "../../components/heat.js";
import { bdi, Busy, Card, Empty, Refused, Table } from "../../components/parts.js";
import { Status } from "../../components/status.js";

const BUCKETS = 256;
const PAGE = 100;

/** Names of steps with a loop. */
const looping = (steps) => Object.entries(steps).filter(([, s]) => s.loop).map(([name]) => name);

/** The results of a step with a loop. */
export function useSummary(run, step) {
  return useGet(step && atRun(run.id, "steps", step, "summary"), { buckets: BUCKETS }, { deps: [run.version] });
}

export function Iterations({ run }) {
  const loops = looping(run.steps);
  const step = run.step && run.steps[run.step]?.loop ? run.step : loops.find((s) => run.steps[s].loop.failed) ?? loops[0];
  const summary = useSummary(run, step);
  const { query } = route.value;
  if (!step) return html`<div class="content"><${Empty} title="No step has a loop">Only steps with <code>loop:</code> have iterations.<//></div>`;
  const shown = summary.data;
  const counts = run.steps[step].loop;
  return html`<div class="toolbar">
      <${Choice} id="loop-step" label="Step" options=${loops.map((s) => [s, oneLine(s, 60)])} value=${step} change=${run.select} />
      <b class="number">${number(counts.total)}</b> iterations
      ${counts.failed ? html`<a class="tone-bad" href="#" onClick=${(e) => { e.preventDefault(); put({ of: "error" }); }}><b>${number(counts.failed)} failed</b></a>` : null}
      ${shown?.iterations ? html`<span class="soft">half of them within ${duration(shown.iterations.duration_ms.p50)}, 95 % within ${duration(shown.iterations.duration_ms.p95)}, the slowest ${duration(shown.iterations.duration_ms.max)}${shown.iterations.retries ? `, ${plural(shown.iterations.retries, "retry", "retries")}` : ""}</span>` : null}
    </div>
    <div class="content padded">
      ${summary.error ? html`<${Refused} error=${summary.error} again=${summary.again} />` : null}
      ${shown?.buckets ? html`<${Card} title="Heat map" more=${html`<span class="spring"></span><${Legend} />`}><div class="inside">
        <${Heat} buckets=${shown.buckets} total=${counts.total} current=${query.from ? Math.floor(query.from / shown.buckets.width) : null} choose=${(n) => put({ from: n * shown.buckets.width, of: "" })} /></div><//>` : null}
      ${shown?.iterations ? html`<${Errors} of=${shown.iterations} choose=${(i) => put({ step, i: iteration(i) })} />` : null}
      <${List} key=${`${step} ${query.of} ${query.from} ${query.q}`} run=${run} step=${step} query=${query} />
    </div>`;
}

/** Errors of the same kind and message, the most frequent first; each leads to its first iteration. */
function Errors({ of, choose }) {
  if (!of.errors.length) return null;
  return html`<${Card} title="Errors"><${Table} heads=${[["Count", "right"], "Kind", "Message", "First"]}>
    ${of.errors.map((e) => html`<tr><td class="right number">${number(e.count)}</td><td>${e.kind}${e.task ? html` <span class="soft">in ${bdi(e.task, 40)}</span>` : null}</td>
      <td class="anywhere">${bdi(e.message, 240)}</td><td>${e.first ? html`<button class="button" onClick=${() => choose(e.first)}>Iteration ${iteration(e.first)}</button>` : null}</td></tr>`)}<//>
    ${of.other_errors ? html`<p class="inside soft">and ${plural(of.other_errors, "error")} of other kinds</p>` : null}<//>`;
}

function List({ run, step, query }) {
  const [pages, set] = useState({ rows: [], cursor: null, more: false, error: null, busy: true });
  const ask = async (after) => {
    set((p) => ({ ...p, busy: true }));
    try {
      const page = await get(atRun(run.id, "steps", step, "iterations"), { status: query.of, from: query.from, q: query.q, after, limit: PAGE });
      set((p) => ({ rows: [...(after ? p.rows : []), ...page.iterations], cursor: page.cursor, more: page.more, error: null, busy: false }));
    } catch (error) {
      set((p) => ({ ...p, error, busy: false }));
    }
  };
  useEffect(() => void ask(), [run.version]);
  const { rows } = pages;
  const words = useMemo(() => (query.from ? `from ${number(Number(query.from))} on` : "from the first on"), [query.from]);
  const filters = html`<span class="soft">${words}</span><span class="spring"></span>
    <${Choice} id="iteration-status" label="Status" options=${[["", "All"], ["error", "Failed"], ["ok", "Succeeded"], ["running", "In progress"]]} value=${query.of ?? ""} change=${(of) => put({ of })} />
    <${Filter} id="iteration-search" label="Search" placeholder="Index or error…" value=${query.q} change=${(q) => put({ q, from: "" })} />
    ${query.from || query.q ? html`<button class="button plain" onClick=${() => put({ from: "", q: "" })}>From the first</button>` : null}`;
  return html`<${Card} label="List of iterations" title="Iterations" more=${filters}>
    ${pages.error ? html`<${Refused} error=${pages.error} again=${() => ask()} />` : null}
    ${rows.length ? html`<${Table} look="tight" heads=${[["Index", "right"], "Status", ["Took", "right"], ["Attempts", "right"], "Error"]}>
      ${rows.map((row) => { const name = iteration(row.path ?? row.index); return html`<tr key=${name} aria-selected=${run.i === name} onClick=${() => put({ step, i: name })}>
        <td class="right number"><button class="button plain" onClick=${() => put({ step, i: name })}>${name}</button></td><td><${Status} value=${row.status} /></td>
        <td class="right number nowrap">${duration(row.duration_ms)}</td><td class="right number">${row.attempts > 1 ? number(row.attempts) : ""}</td>
        <td class="soft">${row.error ? bdi(row.error.message, 140) : ""}</td></tr>`; })}<//>`
      : pages.busy ? html`<${Busy} />` : html`<${Empty} title="None fits" />`}
    ${pages.more ? html`<div class="inside"><button class="button" disabled=${pages.busy} onClick=${() => ask(pages.cursor)}>More</button></div>` : null}<//>`;
}
