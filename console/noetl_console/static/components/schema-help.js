// Completion and documentation in the editor of playbooks: from the language server's analysis on a local console, else from their
// JSON schema. Loaded with an editor of a playbook.
import { get, post } from "../core/api.js";

const LONGEST = 262144; // characters of a text that the local console analyses
const LINK = /\n\S+\.md\S*$/; // the last line of a description
const KEY = /^("[^"]*"|'[^']*'|[^\s"'[\]{}#&*!|>%@\x60,][^:]*?)\s*:(?:\s+|$)/;
const DEEPEST = 12;
let schema = null; // loaded with the first question

const load = () =>
  (schema ??= fetch(new URL("../playbook.schema.json", import.meta.url))
    .then((response) => (response.ok ? response.json() : null))
    .catch(() => null));

/** The position of the end of a text in its YAML: `{path, map, key, word, value, free}`. `path` are keys and `[]` of items, each
 * with the scalars beside it (`of`), `map` the scalars beside the end, `word` the text since the last separator; `value`: it is the value of `key`. `free`: within a text of several lines. */
export function place(text) {
  const frames = [{ col: -1, name: null, map: {} }]; // enclosing blocks, each with its scalars
  const flow = []; // brackets around, within the innermost block
  let free = -1; // the column of the key whose value is a text of several lines
  let state = {};
  const top = () => frames[frames.length - 1];
  const lines = text.split("\n");
  for (const [at, line] of lines.entries()) {
    const indent = line.search(/\S|$/);
    const blank = indent === line.length || (line[indent] === "#" && at < lines.length - 1);
    const end = at === lines.length - 1;
    if (free >= 0 && (indent > free || (blank && !end))) {
      state = { free: true };
      continue;
    }
    if (blank && !end) continue;
    free = -1;
    let rest = line.slice(indent);
    let col = indent;
    state = {};
    if (!flow.length) {
      for (let dash = /^-(\s+|$)/.exec(rest); dash; dash = /^-(\s+|$)/.exec(rest)) {
        while (top().col > col || (top().col === col && top().name === "[]")) frames.pop();
        frames.push({ col, name: "[]", map: {} });
        col += dash[0].length;
        rest = rest.slice(dash[0].length);
      }
      const key = KEY.exec(rest);
      while (frames.length > 1 && top().col >= col && (key || end)) frames.pop();
      if (!key) {
        state = { word: rest, value: false };
        if (/^["'#]/.test(rest)) state.free = true;
        if (!/^[[{]/.test(rest)) continue;
      } else {
        const name = bare(key[1]);
        rest = rest.slice(key[0].length);
        const { map } = top();
        map[name] = scalar(rest);
        frames.push({ col, name, map: {}, of: map });
        if (/^[|>]/.test(rest)) free = col;
        state = { word: rest, value: true, key: name };
        if (/^["'#]/.test(rest) || (rest && !key[0].endsWith(" ") && !/\s$/.test(key[0]))) state.free = true;
        if (!/^[[{]/.test(rest)) continue;
      }
    }
    state = scan(rest, flow);
    if (!flow.length && state.value === undefined) state = { free: true };
  }
  const path = [...frames.slice(1), ...flow].filter((frame) => frame.name !== null).map(({ name, of = {} }) => ({ name, of }));
  if (flow.length) {
    const last = flow[flow.length - 1];
    return { ...state, path: last.open === "[" ? [...path, { name: "[]", of: {} }] : path, map: last.map };
  }
  if (state.value) return { ...state, path: path.slice(0, -1), map: top().of ?? {} };
  return { ...state, path, map: top().map };
}

/** Read a line within brackets, which it opens and closes. */
function scan(rest, flow) {
  let word = "";
  let key = null;
  let quoted = "";
  const open = () => flow[flow.length - 1];
  key = open()?.pending ?? null;
  const ended = () => {
    if (open() && key !== null && word.trim()) open().map[key] = scalar(word);
  };
  for (let i = 0; i < rest.length; i += 1) {
    const c = rest[i];
    if (quoted) {
      word += c;
      if (c === "\\" && quoted === '"') word += rest[(i += 1)] ?? "";
      else if (c === quoted) quoted = "";
    } else if ((c === '"' || c === "'") && !word.trim()) {
      quoted = c;
      word += c;
    } else if (c === "#" && /(^|\s)$/.test(rest.slice(0, i))) break;
    else if (c === "{" || c === "[") {
      flow.push({ open: c, name: key ?? (open()?.open === "[" ? "[]" : null), map: {}, of: open()?.map });
      word = "";
      key = null;
    } else if (c === "}" || c === "]") {
      ended();
      flow.pop();
      word = "";
      key = null;
      if (!flow.length) return {};
    } else if (c === ",") {
      ended();
      word = "";
      key = null;
    } else if (c === ":" && /^(\s|$)/.test(rest.slice(i + 1))) {
      key = bare(word.trim());
      word = "";
    } else word += c;
  }
  if (open()) open().pending = key;
  return { word: word.trimStart(), value: key !== null, key, ...(quoted ? { free: true } : {}) };
}

const bare = (text) => text.replace(/^(["'])(.*)\1$/, "$2");
const scalar = (text) => bare(text.replace(/\s+#.*$/, "").trim());

/** The parts of a schema that hold for a mapping with these scalars: references and alternatives are followed. */
function* parts(root, node, map, depth = 0) {
  if (!node || typeof node !== "object" || depth > DEEPEST) return;
  yield node;
  if (node.$ref) yield* parts(root, root.$defs[node.$ref.slice("#/$defs/".length)], map, depth + 1);
  for (const each of [...(node.allOf ?? []), ...(node.anyOf ?? []), ...(node.oneOf ?? [])]) yield* parts(root, each, map, depth + 1);
  if (!node.if) return;
  const open = !node.if.properties && (node.if.required ?? []).some((name) => !(name in map));
  const fits = fitting(node.if, map);
  if (fits || open) yield* parts(root, node.then, map, depth + 1);
  if (!fits) yield* parts(root, node.else, map, depth + 1);
}

function fitting(wanted, map) {
  const has = (wanted.required ?? []).every((name) => name in map);
  return has && Object.entries(wanted.properties ?? {}).every(([name, each]) => !(name in map) || (each.enum ?? [each.const]).map(String).includes(map[name]));
}

/** The schemas of a key below these. */
function below(root, nodes, name, map) {
  const found = [];
  for (const node of nodes.flatMap((each) => [...parts(root, each, map)])) {
    if (name === "[]") found.push(node.items);
    else if (node.properties?.[name]) found.push(node.properties[name]);
    else if (typeof node.additionalProperties === "object") found.push(node.additionalProperties);
  }
  return found.filter((each) => typeof each === "object");
}

/** The schemas of a mapping at the end of `path`. */
const at = (root, path) => path.reduce((nodes, { name, of }) => below(root, nodes, name, of), [root]);

const about = (node) => (node.description ?? "").replace(LINK, "");

/** The words that may stand at the end of a text: `{from, options}`; null: none is known. */
export function words(root, text) {
  const here = place(text);
  if (here.free) return null;
  const word = here.word ?? "";
  if (/[\s"']/.test(word)) return null;
  const nodes = at(root, here.path);
  const options = new Map();
  if (here.value) {
    for (const node of below(root, nodes, here.key, here.map).flatMap((each) => [...parts(root, each, {})])) {
      const types = [node.type].flat();
      for (const value of [...(node.enum ?? []), ...("const" in node ? [node.const] : []), ...(types.includes("boolean") ? [true, false] : [])]) if (typeof value !== "object") options.set(String(value), { label: String(value), type: "enum" });
    }
    if (here.key === "step" && here.path.some(({ name }) => name === "arcs")) for (const [, name] of text.matchAll(/^\s*-\s*(?:\{\s*)?step:\s*([\w-]+)/gm)) options.set(name, { label: name, type: "constant" });
  } else {
    for (const node of nodes.flatMap((each) => [...parts(root, each, here.map)]))
      for (const [name, each] of Object.entries(node.properties ?? {}))
        if (!(name in here.map)) options.set(name, { label: name, type: "property", apply: `${name}: `, info: about(each) || undefined, boost: node.required?.includes(name) ? 2 : 0 });
  }
  return options.size ? { from: text.length - word.length, options: [...options.values()] } : null;
}

/** The documentation of the key at a position of a line, `{from, to, name, text}` in the line; null: none is known. With `near` that of
 * the last key before it, too. */
export function explained(root, before, line, column, near = false) {
  const keys = [...line.matchAll(/["']?([\w.$-]+)["']?(?=\s*:(\s|$))/g)].filter(({ index, 0: { length } }) => index <= column && (near || column <= index + length));
  if (!keys.length) return null;
  const { index: from, 0: { length }, 1: name } = keys[keys.length - 1];
  const here = place(before + line.slice(0, from + length));
  if (here.free || here.value) return null;
  const text = below(root, at(root, here.path), name, scalars(before + line, here)).map(about).find(Boolean);
  return text ? { from, to: from + length, name, text } : null;
}

/** The scalars beside a key, with those on the rest of its line. */
function scalars(text, here) {
  const whole = place(`${text} `);
  return { ...whole.map, ...here.map };
}

let local = null; // true if the console is local; null: not known yet
let last = {}; // the newest question

/** The local console's analysis at a position: `{offered, about}`; nothing on other consoles. A question cancels the one before. */
function analysed(doc, at) {
  if (last.doc !== doc || last.at !== at) {
    last.abort?.abort();
    const abort = new AbortController();
    local ??= get("health").then(({ wiring }) => wiring.name === "local", () => (local = null));
    const found = local.then((is) => (is && doc.length <= LONGEST && !abort.signal.aborted ? post("console/help", { source: doc.toString(), at }, abort) : {}));
    last = { doc, at, abort, found: found.catch(() => ({})) };
  }
  return last.found;
}

/** Extensions of CodeMirror (`m`). `tell(text)` receives the documentation of the key at the cursor, or empty text. */
export function extensions(m, tell) {
  const asked = async ({ doc }, pos, near) => {
    const { about } = await analysed(doc, pos);
    if (about) return about;
    const root = await load();
    const { from, text } = doc.lineAt(pos);
    const found = root && explained(root, doc.sliceString(0, from), text, pos - from, near);
    return found && { from: from + found.from, to: from + found.to, text: `${found.name}: ${found.text}` };
  };
  const complete = async ({ state: { doc }, pos, explicit }) => {
    const { offered } = await analysed(doc, pos);
    const root = !offered && (await load());
    const found = offered ?? (root && words(root, doc.sliceString(0, pos)));
    if (!found || (!explicit && found.from === pos && found.options[0].type === "property")) return null;
    return { ...found, validFor: offered ? /^[\w-]*$/ : /^[\w.-]*$/ };
  };
  const hover = async (view, pos) => {
    const found = await asked(view.state, pos);
    if (!found) return null;
    const dom = document.createElement("div");
    dom.textContent = found.text;
    dom.className = "about";
    return { pos: found.from, end: found.to, above: true, create: () => ({ dom }) };
  };
  let timer = 0;
  const moved = (update) => {
    if (!update.selectionSet && !update.docChanged) return;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const found = await asked(update.state, update.state.selection.main.head, true);
      tell(found?.text ?? "");
    }, 150);
  };
  return [
    m.EditorState.languageData.of(() => [{ autocomplete: complete }]),
    m.hoverTooltip(hover),
    m.EditorView.updateListener.of(moved),
    m.EditorView.theme({ ".about, .cm-completionInfo": { maxWidth: "420px", padding: "6px 8px", whiteSpace: "pre-wrap", fontFamily: "var(--sans)" }, ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" } }),
  ];
}
