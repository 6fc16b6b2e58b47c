// Two lists of events, and two values, told apart field by field.

const MOST = 1000; // events of a commit that are aligned
const DERIVED = new Set(["token", "run", "tokens"]); // ids that follow from the rest: where that is another, they say nothing

/** Each place in which two values differ: `{path, a, b}`; what is not there is undefined. */
export function fields(a, b, path = "", found = []) {
  const lists = Array.isArray(a) && Array.isArray(b);
  const objects = !lists && isObject(a) && isObject(b);
  if (lists || objects) {
    const keys = lists ? [...Array(Math.max(a.length, b.length)).keys()] : [...new Set([...Object.keys(a), ...Object.keys(b)])];
    for (const key of keys) fields(a[key], b[key], lists ? `${path}[${key}]` : path ? `${path}.${key}` : key, found);
  } else if (a !== b) found.push({ path, a, b });
  return found;
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Events that were recorded and those that would be decided, beside each other by their names: `{event, change, fields}`, `change` being
 * `same`, `other`, `only recorded` or `only decided`. */
export function aligned(recorded, decided) {
  const [a, b] = [recorded.slice(0, MOST), decided.slice(0, MOST)];
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1)); // common names from there on
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) longest[i][j] = a[i].name === b[j].name ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i].name === b[j].name) {
      const apart = fields(a[i].data, b[j].data).filter(({ path }) => !derived(path));
      found.push({ event: a[i], change: apart.length ? "other" : "same", fields: apart });
      [i, j] = [i + 1, j + 1];
    } else if (j >= b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) found.push({ event: a[i++], change: "only recorded", fields: [] });
    else found.push({ event: b[j++], change: "only decided", fields: [] });
  }
  return found;
}

const derived = (path) => DERIVED.has(path.split(".").pop().split("[")[0]);

/** What an event says, without ids that follow from the rest. */
export const told = ({ data }) => Object.fromEntries(Object.entries(data ?? {}).filter(([key]) => !DERIVED.has(key)));
