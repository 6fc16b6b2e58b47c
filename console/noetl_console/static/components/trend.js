// The trend of a playbook's executions: their number, failures and durations.
import { html, useMemo } from "../vendor/preact.js";
import { ago, duration, number } from "../core/format.js";
import { useGet } from "../core/poll.js";
import { ENDED } from "./status.js";

const NEWEST = 200;
const SLICES = 30;
const WIDE = 240;
const HIGH = 32;

/** The newest executions of `path` as bars by time, with the failed ones marked in them, and the median and 95th percentile. */
export function Trend({ path }) {
  const found = useGet("executions", { path, limit: NEWEST });
  const of = useMemo(() => found.data && trend(found.data.executions), [found.data]);
  if (!of?.ended) return null;
  const all = found.data.cursor ? `of the newest ${number(found.data.executions.length)}, ` : "";
  const words = `${all}${number(of.ended)} ended, the oldest began ${ago(of.since)}, ${number(of.failed)} failed, half took at most ${duration(of.p50)} (p50), 95 of 100 at most ${duration(of.p95)} (p95)`;
  const most = Math.max(...of.slices.map((s) => s.count));
  const x = (i) => (i * WIDE) / SLICES;
  const bar = (i, count, look) => (count ? html`<rect class=${look} x=${x(i)} y=${HIGH - (HIGH * count) / most} width=${WIDE / SLICES - 1} height=${(HIGH * count) / most} />` : null);
  const marks = (key) => html`<path class=${key} d=${of.slices.map((s, i) => (s.count ? `M${x(i)} ${HIGH - 1 - ((HIGH - 2) * s[key]) / of.longest}h${WIDE / SLICES - 1}` : "")).join("")} />`;
  return html`<section class="trend" aria-label="Trend">
    <svg role="img" aria-label=${words} viewBox=${`0 0 ${WIDE} ${HIGH}`} width=${WIDE} height=${HIGH}>${of.slices.map((s, i) => [bar(i, s.count, "count"), bar(i, s.failed, "failed")])}${marks("p95")}${marks("p50")}</svg>
    <span class="soft">${all}<b>${number(of.ended)}</b> ended, the oldest began ${ago(of.since)}</span><span class=${of.failed ? "tone-bad" : "soft"}><b>${number(of.failed)}</b> failed</span>
    <span class="soft"><i class="p50"></i> p50 <b>${duration(of.p50)}</b></span><span class="soft"><i class="p95"></i> p95 <b>${duration(of.p95)}</b></span></section>`;
}

const took = (row) => (row.redrive ?? row).duration_ms;
/** The quantile of sorted numbers. */
const share = (sorted, part) => sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;

function trend(executions) {
  const rows = executions.filter((row) => ENDED.has(row.status));
  const at = rows.map((row) => Date.parse(row.started_at));
  const first = Math.min(...at);
  const width = (Math.max(...at) - first) / SLICES || 1;
  const within = Array.from({ length: SLICES }, () => []);
  rows.forEach((row, n) => within[Math.min(SLICES - 1, Math.floor((at[n] - first) / width))].push(row));
  const account = (of) => {
    const sorted = of.map(took).sort((a, b) => a - b);
    return { count: of.length, failed: of.filter((row) => row.status === "failed").length, p50: share(sorted, 0.5), p95: share(sorted, 0.95) };
  };
  const slices = within.map(account);
  const { count: ended, ...whole } = account(rows);
  return { ended, ...whole, slices, longest: Math.max(1, ...slices.map((s) => s.p95)), since: rows.length ? new Date(first).toISOString() : "" };
}
