// Iterations of a loop: all of them as a heat map, what failed by its errors, and each one in a list.
import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { get, path } from "../../core/api.js";
import { duration, iteration, number, oneLine, plural } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { put, route } from "../../core/router.js";
import { Heat, Legend } from "../../components/heat.js";
import { Busy, Empty, Refused } from "../../components/parts.js";
import { Status } from "../../components/status.js";

export const BUCKETS = 256;
const PAGE = 100;

/** Names of steps with a loop. */
export const looping = (steps) => Object.entries(steps).filter(([, s]) => s.loop).map(([name]) => name);

/** What a step with a loop came to. */
export function useSummary(run, step) {
  return useData((signal) => (step ? get(`${path("executions", run.id, "steps", step)}/summary`, { buckets: BUCKETS }, { signal }) : Promise.resolve(null)), [run.id, step, run.version]);
}

export function Iterations({ run }) {
  const loops = looping(run.steps);
  const step = run.step && run.steps[run.step]?.loop ? run.step : loops.find((s) => run.steps[s].loop.failed) ?? loops[0];
  const summary = useSummary(run, step);
  const { query } = route.value;
  const [cell, setCell] = useState(null);
  if (!step) return html`<div class="content"><${Empty} title="No step has a loop">Iterations are those of steps with <code>loop:</code>.<//></div>`;
  const shown = summary.data;
  const counts = run.steps[step].loop;
  return html`<div class="toolbar">
      <label class="unseen" for="loop-step">Step</label>
      <select id="loop-step" onChange=${(e) => run.select(e.currentTarget.value)}>${loops.map((s) => html`<option value=${s} selected=${s === step}>${oneLine(s, 60)}</option>`)}</select>
      <b class="number">${number(counts.total)}</b> iterations
      ${counts.failed ? html`<a class="tone-bad" href="#" onClick=${(e) => { e.preventDefault(); put({ of: "error" }); }}><b>${number(counts.failed)} failed</b></a>` : null}
      ${shown?.iterations ? html`<span class="soft">half of them within ${duration(shown.iterations.duration_ms.p50)}, 95 % within ${duration(shown.iterations.duration_ms.p95)}, the slowest ${duration(shown.iterations.duration_ms.max)}${shown.iterations.retries ? `, ${plural(shown.iterations.retries, "retry", "retries")}` : ""}</span>` : null}
    </div>
    <div class="content padded">
      ${summary.error ? html`<${Refused} error=${summary.error} again=${summary.again} />` : null}
      ${shown?.buckets ? html`<section class="card" aria-label="Heat map"><header><h2>Heat map</h2><span class="spring"></span><${Legend} /></header><div class="inside">
        <${Heat} buckets=${shown.buckets} total=${counts.total} current=${cell} choose=${(n) => { setCell(n); put({ from: n * shown.buckets.width, of: "" }); }} /></div></section>` : null}
      ${shown?.iterations ? html`<${Errors} of=${shown.iterations} choose=${(i) => put({ step, i: iteration(i) })} />` : null}
      <${List} key=${`${step} ${query.of} ${query.from} ${query.q}`} run=${run} step=${step} query=${query} />
    </div>`;
}

/** Errors of the same kind and message, the most frequent first; each leads to its first iteration. */
export function Errors({ of, choose }) {
  if (!of.errors.length) return null;
  return html`<section class="card" aria-label="Errors"><header><h2>Errors</h2></header><table>
    <thead><tr><th scope="col" class="right">Count</th><th scope="col">Kind</th><th scope="col">Message</th><th scope="col">First</th></tr></thead>
    <tbody>${of.errors.map((e) => html`<tr><td class="right number">${number(e.count)}</td><td>${e.kind}${e.task ? html` <span class="soft">in <bdi>${oneLine(e.task, 40)}</bdi></span>` : null}</td>
      <td class="anywhere"><bdi>${oneLine(e.message, 240)}</bdi></td><td>${e.first ? html`<button class="button" onClick=${() => choose(e.first)}>Iteration ${iteration(e.first)}</button>` : null}</td></tr>`)}</tbody></table>
    ${of.other_errors ? html`<p class="inside soft">and ${plural(of.other_errors, "error")} of other kinds</p>` : null}</section>`;
}

function List({ run, step, query }) {
  const [pages, set] = useState({ rows: [], cursor: null, more: false, error: null, busy: true });
  const ask = async (after) => {
    set((p) => ({ ...p, busy: true }));
    try {
      const page = await get(`${path("executions", run.id, "steps", step)}/iterations`, { status: query.of, from: query.from, q: query.q, after, limit: PAGE });
      set((p) => ({ rows: [...(after ? p.rows : []), ...page.iterations], cursor: page.cursor, more: page.more, error: null, busy: false }));
    } catch (error) {
      set((p) => ({ ...p, error, busy: false }));
    }
  };
  useEffect(() => void ask(), [run.version]);
  const { rows } = pages;
  const words = useMemo(() => (query.from ? `from ${number(Number(query.from))} on` : "from the first on"), [query.from]);
  return html`<section class="card" aria-label="List of iterations">
    <header><h2>Iterations</h2><span class="soft">${words}</span><span class="spring"></span>
      <label class="unseen" for="iteration-status">Status</label>
      <select id="iteration-status" onChange=${(e) => put({ of: e.currentTarget.value })}>${[["", "All"], ["error", "Failed"], ["ok", "Succeeded"], ["running", "Under way"]].map(([v, w]) => html`<option value=${v} selected=${v === (query.of ?? "")}>${w}</option>`)}</select>
      <label class="unseen" for="iteration-search">Search</label>
      <input id="iteration-search" type="search" placeholder="Index or error…" value=${query.q ?? ""} onChange=${(e) => put({ q: e.currentTarget.value.trim(), from: "" })} />
      ${query.from || query.q ? html`<button class="button plain" onClick=${() => put({ from: "", q: "" })}>From the first</button>` : null}
    </header>
    ${pages.error ? html`<${Refused} error=${pages.error} again=${() => ask()} />` : null}
    ${rows.length ? html`<table class="tight"><thead><tr><th scope="col" class="right">Index</th><th scope="col">Status</th><th scope="col" class="right">Took</th><th scope="col" class="right">Attempts</th><th scope="col">Error</th></tr></thead>
      <tbody>${rows.map((row) => { const name = row.path ? row.path.join(".") : String(row.index); return html`<tr key=${name} aria-selected=${run.i === name} onClick=${() => put({ step, i: name })}>
        <td class="right number"><button class="button plain" onClick=${() => put({ step, i: name })}>${name}</button></td><td><${Status} value=${row.status} /></td>
        <td class="right number nowrap">${duration(row.duration_ms)}</td><td class="right number">${row.attempts > 1 ? number(row.attempts) : ""}</td>
        <td class="soft"><bdi>${row.error ? oneLine(row.error.message, 140) : ""}</bdi></td></tr>`; })}</tbody></table>`
      : pages.busy ? html`<${Busy} />` : html`<${Empty} title="None fits" />`}
    ${pages.more ? html`<div class="inside"><button class="button" disabled=${pages.busy} onClick=${() => ask(pages.cursor)}>More</button></div>` : null}
  </section>`;
}
