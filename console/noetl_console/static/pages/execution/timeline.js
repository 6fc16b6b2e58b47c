// Runs over time as a Gantt chart: attempts, waits, iterations and called executions below them, the critical path, and idle time folded.
// If there are very many runs, only the failed and the slowest ones are shown.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { duration, number, plural } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { go, put, route } from "../../core/router.js";
import { Check } from "../../components/fields.js";
import { Icon } from "../../components/icons.js";
import { bdi, Empty, pending } from "../../components/parts.js";
import { iconOf, tone } from "../../components/status.js";
import { Virtual } from "../../components/virtual.js";
import { busy, iterationRows, rowsOf, rowWords, seen } from "./timeline-rows.js";
import { idle, scaleOf, ticks } from "./timescale.js";

const ROWS = 1000;
const CHILD_ROWS = 200;
const PAGE = 1000; // iterations that are drawn
const BUCKETS = 256; // parts of a longer loop; the slowest iterations are requested from SLOWEST of them
const SLOWEST = 5;
const HEIGHT = 26;
const APART = 110; // pixels between ticks
const DRAGGED = 5; // minimum movement of a drag in pixels; less is a click
const CLOSEST = 1e-5; // share of the whole time
const LEGEND = [["queued", "queued"], ["ok", "worked"], ["run", "at work"], ["wait", "waiting"], ["bad", "failed"], ["critical", "critical path"]];

export function Timeline({ run }) {
  const { query } = route.value;
  const [first, last] = (query.z ?? "").split("-").map(Number);
  const zoomed = last > first ? [first, last] : null;
  const cut = useRef(false); // not all runs are shown: request those of the visible time
  const found = useGet(atRun(run.id, "timeline"), { rows: ROWS, ...(cut.current && zoomed ? { from: Math.floor(first), to: Math.ceil(last) } : {}) }, { deps: [run.version] });
  const { data } = found;
  if (data && !zoomed) cut.current = data.rows.shown < data.rows.total;
  const wait = pending(found, "Reading the timeline");
  if (wait) return wait;
  if (!data.spans.length) return html`<div class="content"><${Empty} title=${zoomed ? "No step ran in this time" : "No step has run yet"}>${zoomed ? html`<button class="button" onClick=${() => put({ z: "" })}>All of it</button>` : null}<//></div>`;
  return html`<${Chart} run=${run} data=${data} zoomed=${zoomed} unfold=${query.idle === "1"} critical=${query.critical === "1"} />`;
}

function Chart({ run, data, zoomed, unfold, critical }) {
  const [open, setOpen] = useState({});
  const [active, setActive] = useState(null);
  const [drag, setDrag] = useState(null);
  const [wide, setWide] = useState(800);
  const grid = useRef(null);
  const grab = useRef(null);
  const found = useBelow(run, data);
  const rows = useMemo(() => rowsOf(data, { id: run.id, steps: run.steps }), [data, run.steps]);
  const { list, asks } = seen(critical ? rows.filter((r) => r.critical) : rows, open, found.rows);
  useEffect(() => found.look(asks), [asks.map((r) => r.key).join(), run.version]);
  const whole = Math.max(data.duration_ms, 0.001);
  const folds = useMemo(() => idle(busy(data), whole), [data]);
  const scale = useMemo(() => scaleOf(whole, unfold ? [] : folds), [folds, unfold, whole]);
  const [begin, end] = zoomed ? [scale.at(zoomed[0]), scale.at(Math.min(zoomed[1], whole))] : [0, scale.whole];
  const place = (instant) => (100 * (scale.at(Math.max(0, Math.min(instant, whole))) - begin)) / (end - begin);
  const marks = ticks(scale, begin, end, Math.max(2, Math.floor(wide / APART)));
  const at = run.moment.event ? Date.parse(run.moment.event.timestamp) - Date.parse(run.head.started_at) : null;
  const current = list.findIndex((r) => r.key === active);

  useEffect(() => {
    const observer = new ResizeObserver(() => grid.current && setWide(grid.current.clientWidth));
    observer.observe(grid.current);
    return () => observer.disconnect();
  }, []);

  /** Show the time between two places. */
  const show = (a, b) => {
    const size = Math.max(CLOSEST * scale.whole, Math.min(b - a, scale.whole));
    const from = Math.max(0, Math.min(a, scale.whole - size));
    const round = (n) => Number(n.toFixed(3));
    put({ z: size > scale.whole * 0.999 ? "" : `${round(scale.instant(from))}-${round(scale.instant(from + size))}` });
  };
  const zoom = (factor) => {
    const row = list[current];
    const middle = row && row.parts.length ? scale.at(Math.min(whole, row.from + (row.took ?? 0) / 2)) : (begin + end) / 2;
    const center = middle >= begin && middle <= end ? middle : (begin + end) / 2;
    const half = ((end - begin) * factor) / 2;
    show(center - half, center + half);
  };
  const pan = (share) => show(begin + share * (end - begin), end + share * (end - begin));
  const toRow = ({ from, took }) => {
    const [a, b] = [scale.at(from), scale.at(took === null ? whole : from + took)];
    show(a - (b - a) * 0.1, b + (b - a) * 0.1);
  };
  const fold = (row, to) => row.below.length && setOpen((o) => ({ ...o, [row.key]: to ?? !(o[row.key] ?? row.unfolded) }));
  const enter = (row) => {
    if (!row.own) go(["executions", row.execution ?? row.calls, "timeline"], { step: row.execution ? row.step : "" });
    else if (row.calls) go(["executions", row.calls, "timeline"]);
    else if (row.rest === "iterations") run.open("iterations", { step: row.step, i: "" });
    else if (row.iteration !== undefined) put({ step: row.step, i: row.iteration });
    else run.select(row.step);
  };
  const key = (event) => {
    const row = list[current];
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -list.length, End: list.length }[event.key];
    if (by) setActive(list[Math.max(0, Math.min(list.length - 1, current < 0 ? 0 : current + by))].key);
    else if (event.shiftKey && event.key === "ArrowRight") pan(0.25);
    else if (event.shiftKey && event.key === "ArrowLeft") pan(-0.25);
    else if (event.key === "ArrowRight" && row) fold(row, true);
    else if (event.key === "ArrowLeft" && row) {
      if (row.below.length && (open[row.key] ?? row.unfolded)) fold(row, false);
      else setActive(list.slice(0, current).findLast((r) => r.level < row.level)?.key ?? row.key);
    } else if (event.key === "+" || event.key === "=") zoom(0.5);
    else if (event.key === "-") zoom(2);
    else if (event.key === "f") put({ z: "" });
    else if (event.key === "z" && row) toRow(row);
    else if ((event.key === "Enter" || event.key === " ") && row) enter(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const x = (event) => event.clientX - grid.current.getBoundingClientRect().left;
  const down = (event) => {
    if (event.button === 0 && x(event) >= 0 && x(event) <= wide) grab.current = { x: x(event), moved: false };
  };
  const move = (event) => {
    const g = grab.current;
    if (!g || (!g.moved && Math.abs(x(event) - g.x) < DRAGGED)) return;
    if (!g.moved) event.currentTarget.setPointerCapture(event.pointerId);
    g.moved = true;
    const to = Math.max(0, Math.min(wide, x(event)));
    setDrag([Math.min(g.x, to), Math.max(g.x, to)]);
  };
  const up = () => {
    if (drag) show(...drag.map((each) => begin + (each / wide) * (end - begin)));
    setDrag(null);
    setTimeout(() => (grab.current = null)); // after the click that may follow
  };
  const press = (row, event) => {
    if (grab.current?.moved) return;
    setActive(row.key);
    if (event.target.closest(".twist")) fold(row);
    else enter(row);
  };
  const row = (i, style) => (i === 0 ? null : html`<${Row} key=${list[i - 1].key} id=${`row-${i}`} row=${list[i - 1]} style=${style} place=${place} whole=${whole} active=${i - 1 === current} chosen=${list[i - 1].own && list[i - 1].step === run.step} unfolded=${open[list[i - 1].key] ?? list[i - 1].unfolded} press=${press} />`);
  const box = (a, b) => ({ left: `${(100 * (a - begin)) / (end - begin)}%`, width: `${(100 * (b - a)) / (end - begin)}%` });
  const left = (a) => ({ left: `${(100 * (a - begin)) / (end - begin)}%` });

  return html`<div class="toolbar"><span class="legend">${LEGEND.map(([look, words]) => html`<span><i class=${look}></i>${words}</span>`)}</span>
      <span class="spring"></span><span class="soft">${data.rows.shown < data.rows.total ? `${number(data.rows.shown)} of ${number(data.rows.total)} runs: failed, open and slowest ones` : plural(rows.length, "run")}</span></div>
    <div class="toolbar tools">
      ${rows.some((r) => r.critical) ? html`<${Check} label="Critical path only" checked=${critical} change=${(on) => put({ critical: on ? "1" : "" })} />` : null}
      ${folds.length ? html`<${Check} label="Fold idle time" checked=${!unfold} change=${(on) => put({ idle: on ? "" : "1" })} />` : null}
      <span class="soft" role="status">${zoomed ? `${duration(zoomed[0]) || "0"} to ${duration(Math.min(zoomed[1], whole))}` : `all of ${duration(whole)}`}</span><span class="spring"></span>
      ${[["plus", "Closer", "+", () => zoom(0.5)], ["minus", "Farther", "-", () => zoom(2)], ["left", "Earlier", "Shift ←", () => pan(-0.25)], ["right", "Later", "Shift →", () => pan(0.25)], ["fit", "All of it", "f", () => put({ z: "" })]].map(
        ([icon, words, keys, act]) => html`<button class="button plain" aria-label=${words} title=${`${words} (${keys})`} onClick=${act}><${Icon} name=${icon} /></button>`,
      )}</div>
    <${Virtual} count=${list.length + 1} height=${HEIGHT} under=${HEIGHT} row=${row} current=${current < 0 ? -1 : current + 1} class="virtual gantt" role="tree" tabindex="0" aria-label="Runs over time: arrows move and unfold, + and - zoom" aria-activedescendant=${current < 0 ? undefined : `row-${current + 1}`}
      onKeyDown=${key} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${() => { grab.current = null; setDrag(null); }} onDblClick=${(e) => x(e) >= 0 && put({ z: "" })}>
      <div class="axis" aria-hidden="true"><div class="grid">${marks.ticks.map((t) => html`<span style=${left(t.at)}>${t.words}</span>`)}${marks.folds.map((f) => html`<span class="idle" style=${left((f.at + f.to) / 2)}>${duration(f.length)}</span>`)}</div></div>
      <div class="grid" ref=${grid} aria-hidden="true">${marks.folds.map((f) => html`<i class="idle" style=${box(f.at, f.to)}></i>`)}${marks.ticks.map((t) => html`<i style=${left(t.at)}></i>`)}${at === null ? null : html`<i class="cursor" style=${{ left: `${place(at)}%` }}></i>`}
        ${drag ? html`<i class="pick" style=${{ left: `${drag[0]}px`, width: `${drag[1] - drag[0]}px` }}></i>` : null}</div>
    <//>`;
}

function Row({ id, row, style, place, whole, active, chosen, unfolded, press }) {
  const bar = ({ from, took, look }) => {
    const [a, b] = [Math.max(-1, place(from)), Math.min(101, place(took === null ? whole : from + took))];
    return b < 0 || a > 100 ? null : html`<i class=${look} style=${{ left: `${a}%`, width: `${b - a}%` }}></i>`;
  };
  const words = rowWords(row);
  const look = row.status ? tone(row.status === "waited" ? "waiting" : row.status) : "idle";
  return html`<div id=${id} class="line ${active ? "active" : ""} ${chosen ? "current" : ""} ${row.critical ? "critical" : ""}" role="treeitem" aria-level=${row.level} aria-selected=${active} aria-expanded=${row.below.length ? Boolean(unfolded) : undefined} title=${`${row.name}: ${words}`} style=${style} onClick=${(e) => press(row, e)}>
    <span class="name" style=${{ paddingLeft: `${Math.min(row.level - 1, 6) * 14}px` }}><span class="twist ${unfolded ? "down" : ""}">${row.below.length ? html`<${Icon} name="right" />` : null}</span><span class="tone-${look}"><${Icon} name=${row.status ? iconOf(row.status === "waited" ? "waiting" : row.status) : "dot"} /></span><span class="cut">${bdi(row.name, 60)}</span></span><span class="unseen">${words}</span>
    <div class="lane">${row.parts.map(bar)}${row.critical ? bar({ ...row, look: "critical" }) : null}</div>
    <span class="number soft took">${row.parts.length ? (row.took === null ? "open" : duration(row.took)) : ""}</span></div>`;
}

/** The rows below others that have to be requested: runs of called executions, and iterations. */
function useBelow(run, data) {
  const [found, set] = useState({});
  const asked = useRef({});
  const began = Date.parse(data.started_at);
  const load = async ({ ask }) => {
    if (ask.child) return get(atRun(ask.child, "timeline"), { rows: CHILD_ROWS });
    const path = atRun(run.id, "steps", ask.iterations, "iterations");
    const page = await get(path, { limit: PAGE });
    if (!page.more) return { page };
    const [failed, { buckets }] = await Promise.all([get(path, { status: "error", limit: SLOWEST }), get(atRun(run.id, "steps", ask.iterations, "summary"), { buckets: BUCKETS })]);
    const parts = [...(buckets?.cells ?? [])].sort((a, b) => b[4] - a[4]).slice(0, SLOWEST);
    const slow = await Promise.all(parts.map(([n]) => get(path, { from: n * buckets.width, limit: Math.min(PAGE, buckets.width) })));
    return { page, failed: failed.iterations, slow: slow.flatMap((s) => s.iterations) };
  };
  const look = (asks) => {
    for (const row of asks) {
      if (asked.current[row.key] === run.version) continue;
      asked.current[row.key] = run.version;
      load(row).then((value) => set((f) => ({ ...f, [row.key]: { value } })), (error) => set((f) => ({ ...f, [row.key]: { error } })));
    }
  };
  const rows = (row) => {
    const { value, error } = found[row.key] ?? {};
    const note = (name) => [{ ...row, ask: null, own: true, name, words: "", parts: [], below: [], from: 0, took: 0 }];
    if (error) return note(`not read: ${error.message}`);
    if (!value) return note("Reading…");
    if (row.ask.child) {
      const below = rowsOf(value, { id: row.ask.child, from: Date.parse(value.started_at) - began, level: row.level, own: false });
      return below.length ? below : note("nothing has run yet");
    }
    if (value.page.run !== row.ask.run) return [];
    return iterationRows(value, { began, row: row.row, level: row.level });
  };
  return { rows, look };
}
