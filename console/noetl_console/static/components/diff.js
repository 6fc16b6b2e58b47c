// Differences of two texts by line, with the lines around them.
import { html } from "../vendor/preact.js";
import { plural } from "../core/format.js";

const AROUND = 2;
const CELLS = 4e6; // maximum size of the table of common lines: larger differences are shown as a whole replacement

/** `[sign, line]` of each line: " " is in both, "-" only in the first, "+" only in the second. */
export function differences(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let first = 0;
  while (first < a.length && first < b.length && a[first] === b[first]) first += 1;
  let last = 0;
  while (last < a.length - first && last < b.length - first && a[a.length - 1 - last] === b[b.length - 1 - last]) last += 1;
  const between = changed(a.slice(first, a.length - last), b.slice(first, b.length - last));
  const same = (line) => [" ", line];
  return [...a.slice(0, first).map(same), ...between, ...a.slice(a.length - last).map(same)];
}

function changed(a, b) {
  if (a.length * b.length > CELLS) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width); // the length of the longest common part of the rests
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1) common[i * width + j] = a[i] === b[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) (found.push([" ", a[i]]), (i += 1), (j += 1));
    else if (i < a.length && (j === b.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) (found.push(["-", a[i]]), (i += 1));
    else (found.push(["+", b[j]]), (j += 1));
  }
  return found;
}

export function Diff({ before, after, label }) {
  const all = differences(before, after);
  const near = (at) => all.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(([sign]) => sign !== " ");
  const rows = [];
  let skipped = 0;
  all.forEach(([sign, line], at) => {
    if (!near(at)) return void (skipped += 1);
    if (skipped) rows.push(["…", plural(skipped, "equal line")]);
    skipped = 0;
    rows.push([sign, line]);
  });
  if (!rows.length) return html`<p class="soft">The text is the same.</p>`;
  if (skipped) rows.push(["…", plural(skipped, "equal line")]);
  const count = (sign) => all.filter(([each]) => each === sign).length;
  const looks = { "+": "added", "-": "removed", "…": "soft" };
  return html`<p>${plural(count("+"), "line")} added, ${plural(count("-"), "line")} removed.</p>
    <pre class="diff" tabindex="0" role="group" aria-label=${label}>${rows.map(([sign, line]) => html`<span class=${looks[sign] ?? ""}>${sign} <bdi>${line}</bdi>${"\n"}</span>`)}</pre>`;
}
