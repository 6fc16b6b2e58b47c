// A heat map of iterations: a cell for each part of a loop, red where some failed, else the darker the slower.
import { html, useMemo } from "../vendor/preact.js";
import { duration, number } from "../core/format.js";

/** The map of `buckets`, as the API returns them. A click calls `choose(n)` with the cell's number; `current` is marked. Arrows move the focus. */
export function Heat({ buckets, total, current, choose }) {
  const cells = useMemo(() => filled(buckets, total), [buckets, total]);
  const slowest = useMemo(() => Math.max(...cells.map((c) => c.mean ?? 0), 0.001), [cells]);
  const focus = current ?? Math.max(0, cells.findIndex((c) => c.failed));
  const key = (event) => {
    const box = event.currentTarget;
    const wide = Math.max(1, getComputedStyle(box).gridTemplateColumns.split(" ").length);
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = [...box.children].indexOf(document.activeElement) + by;
    box.children[Math.max(0, Math.min(box.children.length - 1, at))].focus();
  };
  return html`<div class="heat" role="group" aria-label="Parts of the loop" onKeyDown=${key}>${cells.map(
    (c, i) => html`<button key=${i} class=${c.failed ? "failed" : ""} tabindex=${i === focus ? 0 : -1} aria-current=${i === current ? "true" : undefined} aria-label=${words(c)} title=${words(c)} style=${{ backgroundColor: color(c, slowest) }} onClick=${() => choose(i)}></button>`,
  )}</div>`;
}

export function Legend() {
  return html`<span class="legend">${[["none", "not ended"], ["low", "fast"], ["high", "slow"], ["failed", "some failed"]].map(([look, words]) => html`<span><i class=${look}></i>${words}</span>`)}</span>`;
}

/** Every cell of the loop, including those without an ended iteration. */
function filled({ width, cells }, total) {
  const last = cells.length ? cells[cells.length - 1][0] : 0;
  const count = Math.max(Math.ceil(total / width), last + 1);
  const found = Array.from({ length: count }, (_, i) => ({ first: i * width, last: Math.max(i * width, Math.min((i + 1) * width, total) - 1), ended: 0, failed: 0, mean: null, max: null }));
  for (const [n, ended, failed, mean, max] of cells) Object.assign(found[n], { ended, failed, mean, max });
  return found;
}

function color(c, slowest) {
  if (c.failed) return `color-mix(in oklab, var(--heat-bad) ${Math.round(80 + 20 * (c.failed / c.ended))}%, var(--heat-low))`;
  if (!c.ended) return "var(--heat-none)";
  return `color-mix(in oklab, var(--heat-high) ${Math.round(100 * Math.sqrt(c.mean / slowest))}%, var(--heat-low))`;
}

function words(c) {
  const where = c.first === c.last ? `Iteration ${number(c.first)}` : `Iterations ${number(c.first)} to ${number(c.last)}`;
  if (!c.ended) return `${where}: none has ended`;
  return `${where}: ${c.failed ? `${number(c.failed)} of ${number(c.ended)} failed` : `${number(c.ended)} succeeded`}, ${duration(c.mean)} on average, at most ${duration(c.max)}`;
}
