// The scale of a timeline: instants to places and back, idle time folded, ticks at round times. Instants are milliseconds from the beginning.

const SHARE = 0.04; // width of a folded idle time, as a share of the busy time
const LEAST_MS = 1000;
const UNITS = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
const STEPS = [
  ...[0.001, 0.01, 0.1, 1, 10, 100].flatMap((n) => [n, 2 * n, 5 * n]),
  ...[1000, 60000].flatMap((n) => [1, 2, 5, 10, 15, 30].map((m) => n * m)),
  ...[1, 2, 3, 6, 12].map((n) => n * 3600000),
  ...[1, 10, 100, 1000].flatMap((n) => [1, 2, 5].map((m) => n * m * 86400000)),
];

/** Idle times that are worth folding: where none of `spans` lies, `[[from, to]]`, for longer than half of the time that is not idle. */
export function idle(spans, whole) {
  const gaps = [];
  let end = 0;
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (from > end) gaps.push([end, from]);
    end = Math.max(end, to);
  }
  if (whole > end) gaps.push([end, whole]);
  const busy = whole - gaps.reduce((sum, [from, to]) => sum + to - from, 0);
  return gaps.filter(([from, to]) => to - from > Math.max(LEAST_MS, busy / 2));
}

/** A monotonic scale from instants to places: `at(instant)` and `instant(place)`; `whole` is the last place. */
export function scaleOf(whole, folds = []) {
  const busy = whole - folds.reduce((sum, [from, to]) => sum + to - from, 0);
  const width = Math.max(busy, LEAST_MS / 100) * SHARE;
  const knots = [[0, 0]];
  let less = 0;
  for (const [from, to] of folds) {
    knots.push([from, from - less], [to, from - less + width]);
    less += to - from - width;
  }
  knots.push([whole, whole - less]);
  const between = (value, a, b) => {
    let i = 1;
    while (i < knots.length - 1 && knots[i][a] < value) i++;
    const [one, other] = [knots[i - 1], knots[i]];
    return other[a] === one[a] ? one[b] : one[b] + ((value - one[a]) * (other[b] - one[b])) / (other[a] - one[a]);
  };
  return { at: (instant) => between(instant, 0, 1), instant: (place) => between(place, 1, 0), whole: whole - less, folds };
}

/** At most about `most` ticks between two places: `[{at, words}]`, and the folds there: `[{at, to, length}]`. */
export function ticks(scale, first, last, most) {
  const [from, to] = [scale.instant(first), scale.instant(last)];
  const folds = scale.folds.filter(([a, b]) => a < to && b > from);
  const seen = to - from - folds.reduce((sum, [a, b]) => sum + Math.min(b, to) - Math.max(a, from), 0);
  const step = STEPS.find((s) => s >= seen / most) ?? STEPS[STEPS.length - 1];
  const near = ((last - first) / most) * 0.55;
  const found = [];
  let begin = from;
  for (const [a, b] of [...folds, [to, to]]) {
    for (let n = Math.ceil(begin / step - 1e-9); n * step <= a + 1e-9 && found.length < 4 * most; n++) {
      const at = scale.at(n * step);
      if (at >= first && at <= last && !(at - found.at(-1)?.at < near)) found.push({ at, words: tickWords(n * step, step) });
    }
    begin = b;
  }
  const shown = folds.map(([a, b]) => ({ at: scale.at(a), to: scale.at(b), length: b - a }));
  for (const tick of found) if (shown.some((f) => Math.abs(tick.at - (f.at + f.to) / 2) < near)) tick.words = "";
  return { ticks: found, folds: shown };
}

/** A round time: `200 ms`, `1.5 s`, `2 min 30 s`. */
export function tickWords(ms, step) {
  if (ms === 0) return "0";
  if (step >= 1000) return UNITS.map(([unit, size], i) => [Math.floor((i ? ms % UNITS[i - 1][1] : ms) / size + 1e-9), unit]).filter(([n]) => n).map((p) => p.join(" ")).join(" ");
  return ms < 1000 ? `${Number(ms.toFixed(3))} ms` : `${Number((ms / 1000).toFixed(6))} s`;
}
