// Rows of a timeline: runs, and below each its attempts, waits, chunks, iterations and the executions that it called.
import { duration, iteration, number, oneLine, plural, shortId, waitWords } from "../../core/format.js";
import { tone } from "../../components/status.js";

const APART = 5; // rows for failed iterations, and for the slowest ones
const MOST = 50; // rows below a run
const UNFOLDED = 3; // failed runs whose rows below are shown at once
const WAITS = new Set(["wait", "limit"]);
const RUNS = new Set(["run", "undo", "chunk"]);

/** The rows of an execution's timeline, each with its `below`: rows, or `ask` where they have to be asked for. `from` is where it began,
 * of the execution whose page this is; `steps` are the steps of that, to know its loops by. */
export function rowsOf(data, { id, from = 0, level = 1, steps = {}, own = true }) {
  const rows = [];
  const byId = new Map();
  for (const s of data.spans) {
    if (RUNS.has(s.kind) || (s.kind === "limit" && s.parent === null)) {
      const row = { key: `${id}/${s.id}`, level, execution: id, own, step: s.step, name: s.kind === "undo" ? `undo ${s.name}` : s.kind === "chunk" ? `chunk ${number(s.chunk)}` : s.name, run: s.step_run_id, kind: s.kind, status: s.status, from: from + s.offset_ms, took: s.duration_ms, loop: s.loop, critical: s.critical, spans: [], chunks: [] };
      byId.set(s.id, row);
      if (s.kind === "chunk" && byId.has(s.parent)) byId.get(s.parent).chunks.push(row);
      else rows.push(row);
    } else if (!s.iteration && s.kind !== "iteration") byId.get(s.parent)?.spans.push({ ...s, offset_ms: from + s.offset_ms });
  }
  let failed = 0;
  for (const row of byId.values()) {
    finish(row, own && row.kind === "run" && (row.loop ?? steps[row.step]?.loop));
    row.unfolded = own && row.status === "error" && row.kind !== "chunk" && failed++ < UNFOLDED;
  }
  return rows;
}

/** Give a run the parts of its bar, its words and its rows below. */
function finish(row, loop) {
  const spans = withDelays(row.spans.sort((a, b) => a.offset_ms - b.offset_ms));
  const tasks = spans.some((s) => s.kind === "task"); // then the tasks are the working spans, not the attempts
  const first = spans.find((s) => s.kind === "attempt");
  const parts = spans.filter((s) => !tasks || s.kind !== "attempt").map((s) => ({ from: s.offset_ms, took: s.duration_ms, look: s.kind === "queued" ? "queued" : WAITS.has(s.kind) ? "wait" : tone(worked(s)) }));
  if (first && !spans.some((s) => s.kind === "queued") && first.offset_ms > row.from) parts.unshift({ from: row.from, took: first.offset_ms - row.from, look: "queued" });
  row.parts = parts.length ? [{ from: row.from, took: row.took, look: "whole" }, ...parts] : [{ from: row.from, took: row.took, look: WAITS.has(row.kind) ? "wait" : tone(row.status) }];
  const shown = spans.filter((s) => WAITS.has(s.kind) || s.kind === (tasks ? "task" : "attempt"));
  const calls = spans.some((s) => s.waits?.some((w) => w.child));
  const level = row.level + 1;
  row.below = shown.length > 1 || calls ? shown.slice(0, MOST).flatMap((s) => detail(row, s, level)) : [];
  const attempts = Math.max(1, ...spans.map((s) => s.attempt ?? 1));
  const counts = row.loop ?? loop;
  row.words = [attempts > 1 ? plural(attempts, "attempt") : "", counts?.failed ? `${number(counts.failed)} of ${number(counts.total)} failed` : "", row.critical ? "on the critical path" : ""].filter(Boolean).join(", ");
  if (loop) row.below.push({ key: `${row.key}/i`, level, ask: { iterations: row.step, run: row.run }, row });
  const chunks = [...row.chunks].sort((a, b) => (b.status === "error") - (a.status === "error") || (b.took ?? Infinity) - (a.took ?? Infinity)).slice(0, MOST);
  for (const chunk of chunks.sort((a, b) => a.from - b.from)) row.below.push({ ...chunk, level });
  if (row.chunks.length > chunks.length) row.below.push(rest(row, level, row.chunks.length - chunks.length, "chunks"));
}

/** Spans with the delays before attempts, which a worker that only waits a little does not state. */
function withDelays(spans) {
  const out = [];
  const ended = new Map();
  for (const s of spans) {
    const from = s.attempt > 1 ? ended.get(s.name) : undefined;
    if (from < s.offset_ms && !spans.some((w) => w.kind === "wait" && w.offset_ms + w.duration_ms > from && w.offset_ms < s.offset_ms))
      out.push({ id: `d${s.id}`, kind: "wait", waits: [{ kind: "retry" }], status: "ok", offset_ms: from, duration_ms: s.offset_ms - from });
    if (s.kind === "task") ended.set(s.name, s.offset_ms + s.duration_ms);
    out.push(s);
  }
  return out;
}

/** The outcome of a working span. A span suspended by a wait did not fail. */
const worked = (s) => (s.duration_ms === null ? "running" : ["suspended", "released"].includes(s.status) ? "ok" : s.status);

/** An attempt or a wait as a row; of a wait for executions that were called a row for each. */
function detail(row, s, level) {
  const one = { key: `${row.key}/${s.id}`, level, own: row.own, step: row.step, status: s.status, from: s.offset_ms, took: s.duration_ms, below: [] };
  const bar = (look) => [{ from: one.from, took: one.took, look }];
  if (!WAITS.has(s.kind)) return [{ ...one, status: worked(s), name: s.kind === "task" ? (s.attempt > 1 ? `${s.name}, attempt ${s.attempt}` : s.name) : "at work", words: s.attempt > 1 ? `attempt ${s.attempt}` : "", parts: bar(tone(worked(s))) }];
  const waiting = { ...one, status: s.duration_ms === null ? "waiting" : "waited", parts: bar("wait"), words: "" };
  const calls = (s.waits ?? []).filter((w) => w.child);
  if (!calls.length) return [{ ...waiting, name: s.kind === "limit" ? s.name : s.waits?.[0] ? `waits for ${waitWords(s.waits[0])}` : s.name }];
  return calls.map((w) => ({ ...waiting, key: `${one.key}/${w.child}`, name: `calls ${w.path ?? shortId(w.child)}`, calls: w.child, below: [{ key: `${one.key}/${w.child}/c`, level: level + 1, ask: { child: w.child } }] }));
}

const rest = (row, level, count, what) => ({ key: `${row.key}/rest-${what}`, level, own: row.own, step: row.step, name: `${number(count)} more ${what}`, rest: what, words: "", from: row.from, took: 0, parts: [], below: [] });

/** Rows of the iterations of a loop: all of them in one, then those that failed and the slowest by themselves, which of a long loop are
 * asked for apart. */
export function iterationRows({ page, failed = page.iterations, slow = page.iterations }, { began, row, level }) {
  const timed = (list) => list.filter((i) => i.started_at).map((i) => ({ ...i, from: Date.parse(i.started_at) - began, took: i.duration_ms ?? null })).sort((a, b) => a.from - b.from);
  const all = timed(page.iterations);
  const bad = timed(failed).filter((i) => i.status === "error").slice(0, APART);
  const slowest = timed(slow).filter((i) => i.status === "ok").sort((a, b) => b.took - a.took).slice(0, APART);
  const parts = [];
  for (const i of all) {
    const before = parts.at(-1);
    const end = i.took === null ? Infinity : i.from + i.took;
    if (before && i.from <= before.from + before.took + 1) before.took = Math.max(before.took, end - before.from);
    else parts.push({ from: i.from, took: end - i.from, look: "ok" });
  }
  for (const part of parts) part.took = part.took === Infinity ? null : part.took;
  parts.push(...all.filter((i) => i.status === "error").map((i) => ({ from: i.from, took: i.took, look: "bad" })));
  const one = { level, own: row.own, step: row.step, below: [] };
  const group = { ...one, key: `${row.key}/all`, name: page.more ? `first ${number(all.length)} of ${number(page.total)} iterations` : plural(page.total, "iteration"), rest: "iterations", status: bad.length ? "error" : "ok", from: all[0]?.from ?? row.from, took: null, parts, words: "" };
  const last = Math.max(...all.map((i) => i.from + (i.took ?? 0)), group.from);
  group.took = all.some((i) => i.took === null) ? null : last - group.from;
  const apart = (i, words) => ({ ...one, key: `${row.key}/${i.path.join(".")}`, name: `@${iteration(i.path)} ${words}`, iteration: iteration(i.path), status: i.status, from: i.from, took: i.took, parts: [{ from: i.from, took: i.took, look: tone(i.status) }], words: [i.attempts > 1 ? plural(i.attempts, "attempt") : "", i.error ? `${i.error.kind}: ${oneLine(i.error.message, 120)}` : ""].filter(Boolean).join(", ") });
  return [group, ...bad.map((i) => apart(i, "failed")), ...slowest.map((i) => apart(i, "slow"))];
}

/** `{list, asks}`: the rows that are seen, with those below a row where it is unfolded (`open`, by keys); and the rows that have to be
 * asked for, which `found` has as soon as they are there. */
export function seen(rows, open, found) {
  const [list, asks] = [[], []];
  const walk = (row) => {
    if (row.ask) {
      asks.push(row);
      return found(row).forEach(walk);
    }
    list.push(row);
    if (row.below.length && (open[row.key] ?? row.unfolded)) row.below.forEach(walk);
    return undefined;
  };
  rows.forEach(walk);
  return { list, asks };
}

/** The times in which something worked: without waits, and without runs and attempts that have more detailed rows. */
export function busy({ spans, duration_ms }) {
  const parents = new Set(spans.map((s) => s.parent));
  const told = new Set(spans.filter((s) => s.kind === "task").map((s) => s.step_run_id));
  const at = spans.filter((s) => s.kind === "task" || (s.kind === "attempt" ? s.duration_ms === null || !told.has(s.step_run_id) : RUNS.has(s.kind) && !parents.has(s.id)));
  return at.map((s) => [s.offset_ms, s.offset_ms + (s.duration_ms ?? duration_ms - s.offset_ms)]);
}

/** A row in words, for people who do not see its bar. */
export const rowWords = (row) => (row.parts.length ? [row.status, `from ${duration(row.from)}`, row.words].filter(Boolean).join(", ") : row.words);
