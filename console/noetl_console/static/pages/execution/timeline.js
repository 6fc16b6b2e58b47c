// Runs over time: queued, at work, waiting. Of very many runs those that failed and the slowest.
import { html, useMemo } from "../../vendor/preact.js";
import { atRun } from "../../core/api.js";
import { duration, number, plural } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { bdi, Empty, pending } from "../../components/parts.js";
import { tone } from "../../components/status.js";
import { Virtual } from "../../components/virtual.js";

const ROWS = 1000;
const HEIGHT = 26;
const TICKS = 6;

export function Timeline({ run }) {
  const found = useGet(atRun(run.id, "timeline"), { rows: ROWS }, { deps: [run.version] });
  const { data } = found;
  const rows = useMemo(() => (data ? rowsOf(data) : []), [data]);
  const wait = pending(found, "Reading the timeline");
  if (wait) return wait;
  if (!rows.length) return html`<div class="content"><${Empty} title="No step has run yet" /></div>`;
  const whole = Math.max(data.duration_ms, 0.001);
  const at = run.moment.event ? Date.parse(run.moment.event.timestamp) - Date.parse(run.head.started_at) : null;
  const row = (i, style) => html`<${Row} key=${i} row=${rows[i]} style=${style} whole=${whole} at=${at} run=${run} />`;
  return html`<div class="toolbar"><span class="legend">${[["queued", "queued"], ["ok", "at work"], ["wait", "waiting"], ["bad", "failed"]].map(([look, words]) => html`<span><i class=${look}></i>${words}</span>`)}</span>
      <span class="spring"></span>${data.rows && data.rows.shown < data.rows.total ? html`<span class="soft">${number(data.rows.shown)} of ${number(data.rows.total)} runs: failed, open and slowest ones</span>` : html`<span class="soft">${plural(rows.length, "run")}</span>`}</div>
    <div class="toolbar"><div class="scale" aria-hidden="true">${Array.from({ length: TICKS }, (_, i) => html`<span style=${{ left: `${(100 * (i + 0.5)) / TICKS}%` }}>${duration((whole * (i + 0.5)) / TICKS)}</span>`)}</div></div>
    <${Virtual} count=${rows.length} height=${HEIGHT} row=${row} tabindex="0" role="list" aria-label="Runs over time" />`;
}

const WAITS = new Set(["wait", "limit"]);

/** A row for each run, with what lies in it and the wait for its place in a limit before it. */
function rowsOf({ spans }) {
  const runs = spans.filter((s) => s.kind === "run" || s.kind === "chunk" || (s.kind === "limit" && s.parent === null)).map((s) => ({ ...s, inside: [] }));
  const byId = new Map(runs.map((r) => [r.id, r]));
  for (const s of spans) if (["queued", "attempt", "wait", "limit", "task"].includes(s.kind)) byId.get(s.parent)?.inside.push(s);
  return runs;
}

function Row({ row, style, whole, at, run }) {
  const part = (s, name) => html`<i class=${name} style=${{ left: `${(100 * s.offset_ms) / whole}%`, width: `${(100 * (s.duration_ms ?? whole - s.offset_ms)) / whole}%` }}></i>`;
  const took = row.duration_ms === null ? "open" : duration(row.duration_ms);
  const again = row.inside.filter((s) => s.attempt > 1).length;
  const tasks = row.inside.some((s) => s.kind === "task"); // then they are what was at work
  const look = (s) => (s.kind === "queued" ? "queued" : WAITS.has(s.kind) ? "wait" : s.kind === "task" ? tone(s.status) : tasks ? "whole" : tone(row.status));
  const failed = (again ? `, ${plural(again + 1, "attempt")}` : "") + (row.loop?.failed ? `, ${number(row.loop.failed)} of ${number(row.loop.total)} failed` : "");
  return html`<div class="line ${row.step === run.step ? "current" : ""}" role="listitem" style=${style} onClick=${() => run.select(row.step)}>
    <button class="button plain name tone-${tone(row.status)}"><span class="cut">${bdi(row.name, 40)}</span></button>
    <div class="lane" role="img" aria-label=${`${row.status}, from ${duration(row.offset_ms)}, ${took}${failed}`} title=${`${row.step}: ${row.status}, ${took}${failed}`}>
      ${row.inside.length ? part(row, "whole") : null}${row.inside.length ? row.inside.map((s) => part(s, look(s))) : part(row, WAITS.has(row.kind) ? "wait" : tone(row.status))}
      ${at === null ? null : html`<span class="cursor" style=${{ left: `${(100 * at) / whole}%` }}></span>`}</div>
    <span class="number soft took">${took}</span></div>`;
}
