// Formats values for people.

const whole = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "" : whole.format(value));

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Milliseconds: `85 ms`, `3.2 s`, `4 min 12 s`, `3 h 5 min`. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  const few = (n) => (n < 10 ? n.toFixed(1) : Math.round(n));
  if (ms < 1000) return `${few(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${few(s)} s`;
  const i = UNITS.findIndex(([size]) => s >= size);
  const [[size, unit], [less, below]] = UNITS.slice(i);
  return `${Math.floor(s / size)} ${unit} ${Math.floor((s % size) / less)} ${below}`;
}

/** An instant against now: `just now`, `3 min ago`, `2 h ago`, `5 d ago`, else its day. */
export function ago(instant, now = Date.now()) {
  const s = (now - Date.parse(instant)) / 1000;
  if (Number.isNaN(s)) return "";
  if (s < 0) return `in ${duration(-s * 1000)}`;
  if (s < 5) return "just now";
  if (s >= 86400 * 14) return instant.slice(0, 10);
  const [size, unit] = UNITS.find(([each]) => s >= each);
  return `${Math.floor(s / size)} ${unit} ago`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
/** The time of day, with milliseconds. */
export const time = (instant) => {
  const at = new Date(instant);
  return Number.isNaN(at.getTime()) ? "" : `${clock.format(at)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
};
export const dateTime = (instant) => (instant && !Number.isNaN(Date.parse(instant)) ? full.format(new Date(instant)) : "");

/** The end of an id, which tells executions apart. */
export const shortId = (id) => (id.length > 10 ? `…${id.slice(-8)}` : id);

export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) [n, i] = [n / 1024, i + 1];
  return `${n >= 10 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

/** The text shown instead of a value that is stored separately; empty for other values. */
export const stored = (value) => (value?.kind === "result_ref" && typeof value.size === "number" ? `stored value of ${bytes(value.size)}` : "");

/** An amount of money that may be very small. */
export const money = (amount) => (amount === 0 ? "$0" : amount < 0.01 ? `$${Number(amount.toPrecision(3))}` : `$${amount.toFixed(2)}`);

/** A value in one line, cut where it is long. */
export function oneLine(value, length = 120) {
  if (value === undefined) return "";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const line = text.replace(/\s+/g, " ");
  return line.length > length ? `${line.slice(0, length)}…` : line;
}

/** A template without its braces. */
export const guard = (text) => oneLine(text.replace(/^\s*\{\{\s*|\s*\}\}\s*$/g, ""), 34);

/** The index of an iteration as text: `617`, nested `3.14`. */
export const iteration = (index) => (Array.isArray(index) ? index.join(".") : String(index));

export const plural = (n, word, words = `${word}s`) => `${number(n)} ${n === 1 ? word : words}`;

/** A wait in words: `limit orders 5/5`, `the signal go`. */
export const waitWords = (w) =>
  w.signal ? `the signal ${w.signal}` : w.limit ? `limit ${w.limit} ${w.held}/${w.max}` : w.child ? `the execution ${w.child}` : { callback: "an answer", timer: "its time", retry: "the next attempt" }[w.kind] ?? w.kind;

/** The non-empty values of `{name: value}`, as pairs. */
export const given = (of) => Object.entries(of).filter(([, value]) => value !== undefined && value !== null && value !== "");
