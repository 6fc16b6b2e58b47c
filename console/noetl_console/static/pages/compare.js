// Two executions beside each other; or one, decided again by another version of its playbook.
import { html, useState } from "../vendor/preact.js";
import { atPlaybook, atRun, post } from "../core/api.js";
import { ago, duration, number, oneLine, plural } from "../core/format.js";
import { useData, useGet } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Editor } from "../components/editor.js";
import { Choice } from "../components/fields.js";
import { Icon } from "../components/icons.js";
import { bdi, Busy, Card, Empty, pending, Refused, Table } from "../components/parts.js";
import { Status } from "../components/status.js";

const FAR = 2; // times as long: told apart
const FAR_MS = 20; // and by so much at least
const SIGNS = { "only recorded": ["−", "bad"], "only decided": ["+", "ok"], other: ["≠", "wait"], same: ["", "idle"] };
const MOST = 1000; // events of a commit that are aligned
const DERIVED = new Set(["token", "run", "tokens"]); // ids that follow from the rest: where that is another, they say nothing

/** The address has `a` and `b`, executions, or `a` and `version`. */
export function Compare() {
  const { a, b, version } = route.value.query;
  return html`<div class="page">
    <header class="page-head"><h1>Compare</h1><span class="soft">two executions, or one with what another version of its playbook would have decided</span></header>
    <${Compared} key=${a} a=${a} b=${b} version=${version} />
    ${a && b ? html`<${Two} key=${`${a} ${b}`} a=${a} b=${b} />` : a && version ? html`<${Again} key=${`${a} v${version}`} id=${a} version=${version} />` : html`<${Card}><${Empty} title=${a ? "With what?" : "Which ones?"}>${a ? "Choose another execution, or a version of the playbook." : "Choose an execution here, or press Compare… on its page."}<//><//>`}
  </div>`;
}

/** What is compared with what. */
function Compared({ a, b, version }) {
  const about = useGet(a && atRun(a));
  const playbook = about.data?.playbook;
  const runs = useGet(a && !playbook ? "" : "executions", { path: playbook?.path, limit: 50 });
  const versions = useGet(playbook?.version && atPlaybook(playbook.path, "versions"));
  const list = [...(versions.data?.versions ?? [])].sort((one, other) => other.version - one.version);
  const listed = (runs.data?.executions ?? []).filter((e) => e.execution_id !== a);
  return html`<form class="filters" aria-label="What is compared" onSubmit=${(e) => e.preventDefault()}>
    <${Id} id="compare-a" label="Execution" value=${a} listed=${runs.data?.executions} change=${(id) => put({ a: id }, { replace: false })} />
    ${a ? html`<${Id} id="compare-b" label="with" value=${b} listed=${listed} change=${(id) => put({ b: id, version: "" }, { replace: false })} />
      <button type="button" class="button" disabled=${!b} onClick=${() => put({ a: b, b: a }, { replace: false })}>Swap</button>` : null}
    ${a && list.length ? html`<${Choice} id="compare-version" label="or by" seen options=${[["", "a version…"], ...list.map((v) => [String(v.version), `version ${v.version}${v.version === playbook.version ? " (its own)" : ""}`])]} value=${version} change=${(v) => put({ version: v, b: "" }, { replace: false })} />` : null}
    ${about.error ? html`<${Refused} error=${about.error} again=${about.again} />` : null}</form>`;
}

/** An execution by its id, or one of those listed. */
function Id({ id, label, value, listed = [], change }) {
  const [typed, setTyped] = useState(null);
  const chosen = (e) => (setTyped(null), change(e.currentTarget.value.trim()));
  return html`<label for=${id}>${label}</label><input id=${id} type="text" class="mono" size="24" autocomplete="off" placeholder="id" list=${`${id}-list`} value=${typed ?? value ?? ""} onInput=${(e) => setTyped(e.currentTarget.value)} onChange=${chosen} />
    <datalist id=${`${id}-list`}>${listed.map((e) => html`<option value=${e.execution_id} label=${`${oneLine(e.playbook.path, 60)} ${e.status} ${ago(e.started_at)}`}></option>`)}</datalist>`;
}

function Two({ a, b }) {
  const found = useGet(atRun(a, "diff"), { other: b });
  const loops = useGet(atRun(a, "changes"), { limit: 0 });
  const wait = pending(found, "Comparing");
  if (wait) return wait;
  const { differences, durations, more, partial } = found.data;
  const whole = differences.filter((d) => !d.step);
  const steps = grouped(differences.filter((d) => d.step));
  return html`<${Sides} of=${found.data} />
    ${differences.length ? null : html`<${Card} label="Differences"><div class="inside alike"><span class="tone-ok"><${Icon} name="check" /></span><div><h2>No difference</h2><p class="soft">Status, inputs, arguments, results, errors, ctx and the way taken are alike. How long it took is none.${partial ? " That is of what was compared." : ""}</p></div></div><//>`}
    ${whole.length ? html`<${Apart} title="As a whole" rows=${whole} />` : null}
    ${[...steps].map(([step, rows]) => html`<${Apart} key=${step} title=${step} step=${step} rows=${rows} sides=${found.data} loop=${Boolean(loops.data?.steps[step]?.loop)} />`)}
    ${more ? html`<p class="soft">There are more differences; these are the first ${number(differences.length)}.</p>` : null}
    ${partial ? html`<${Totals} of=${partial} />` : null}
    <${Durations} of=${durations} />`;
}

/** What all visits of steps came to, where some of them were compared one by one. */
function Totals({ of }) {
  const both = ({ a, b }, shown) => (shown(a) === shown(b) ? shown(a) : `${shown(a)} / ${shown(b)}`);
  return html`<${Card} title="All visits" more=${html`<span class="soft">${number(of.compared)} of ${plural(of.visits, "visit")} compared one by one: those at the beginning and at the end, and some that failed</span>`}><${Table} label="All visits" heads=${["Step", ["Compared", "right"], ["Visits", "right"], ["Failed", "right"], ["On average", "right"], ["Longest", "right"]]}>
    ${of.steps.map((s) => html`<tr><td>${bdi(s.step, 60)}</td><td class="right number">${number(s.compared)}</td><td class="right number">${both(s, (x) => number(x.visits))}</td><td class="right number">${both(s, (x) => number(x.failed))}</td>
      <td class="right number nowrap">${both(s, (x) => duration(x.mean_ms))}</td><td class="right number nowrap">${both(s, (x) => duration(x.max_ms))}</td></tr>`)}<//><//>`;
}

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.step, (found.get(row.step) ?? []).concat(row));
  return found;
}

/** What the two are. */
function Sides({ of }) {
  return html`<${Card} label="The two"><${Table} heads=${[["Which", "unseen"], "Execution", "Status", "Playbook", ["Took", "right"]]}>
    ${["a", "b"].map((side) => html`<tr><th scope="row">${side.toUpperCase()}</th><td class="mono"><a href=${href(["executions", of[side].execution_id])}>${of[side].execution_id}</a></td><td><${Status} value=${of[side].status} /></td>
      <td>${bdi(of[side].playbook.path, 80)} <span class="soft" title=${of[side].playbook.digest}>v${of[side].playbook.version}, ${of[side].playbook.digest.slice(7, 15)}</span></td><td class="right number">${duration(of[side].duration_ms)}</td></tr>`)}<//><//>`;
}

/** Fields in which the two, or visits of a step in them, differ. */
function Apart({ title, step, rows, sides, loop }) {
  const to = (side) => href(["executions", sides[side].execution_id, "graph"], { step });
  return html`<${Card} class="card apart" label=${`Differences: ${title}`} title=${bdi(title, 80)} more=${html`<span class="soft">${plural(rows.length, "difference")}</span><span class="spring"></span>${step ? html`<a href=${to("a")}>in A</a><a href=${to("b")}>in B</a>` : null}`}>
    <${Table} label="What differs" heads=${["What", "A", "B"]}>${rows.map((d) => html`<tr><td class="mono">${d.visit > 1 ? html`<span class="tag">visit ${d.visit}</span> ` : null}<${Place} of=${d} loop=${loop} sides=${sides} /></td><${Value} of=${d.a} /><${Value} of=${d.b} /></tr>`)}<//><//>`;
}

/** A field; of results of a loop its iteration, which can be looked at. */
function Place({ of, loop, sides }) {
  const found = loop ? /^result\[(\d+)\](.*)$/.exec(of.field) : null;
  if (!found) return html`${bdi(of.field, 120)}`;
  return html`<a href=${href(["executions", sides.a.execution_id, "iterations"], { step: of.step, i: found[1] })}>iteration ${found[1]}</a> <bdi>result${oneLine(found[2], 100)}</bdi>`;
}

const Value = ({ of }) => html`<td class="mono anywhere">${of === "(nothing)" ? html`<span class="soft">nothing</span>` : html`<bdi>${of}</bdi>`}</td>`;

/** How long visits took in both; those that are far apart stand out. */
function Durations({ of }) {
  if (!of.length) return null;
  const slowest = Math.max(1, ...of.flatMap((d) => [d.a_ms ?? 0, d.b_ms ?? 0]));
  return html`<${Card} title="Time" more=${html`<span class="soft">of each visit; no difference</span>`}><${Table} label="Times" heads=${["Step", "A", "B", ["B against A", "right"]]}>
    ${of.map((d) => html`<tr><td>${bdi(d.step, 60)}${d.visit > 1 ? html` <span class="soft">visit ${d.visit}</span>` : null}</td><${Took} ms=${d.a_ms} slowest=${slowest} /><${Took} ms=${d.b_ms} slowest=${slowest} />
      <td class="right number nowrap">${against(d)}</td></tr>`)}<//><//>`;
}

const Took = ({ ms, slowest }) => html`<td class="number nowrap took">${ms === null ? html`<span class="soft">did not end</span>` : html`<i style=${{ width: `${Math.max(1, (100 * ms) / slowest)}px` }}></i> ${duration(ms)}`}</td>`;

function against({ a_ms, b_ms }) {
  if (!a_ms || !b_ms) return "";
  const times = b_ms / a_ms;
  const far = Math.max(times, 1 / times) >= FAR && Math.abs(a_ms - b_ms) >= FAR_MS;
  return far ? html`<b>${times.toPrecision(2)} ×</b>` : html`<span class="soft">${times.toPrecision(2)} ×</span>`;
}

/** An execution decided again by another version of its playbook, or by a text that is edited here: up to the first difference. */
function Again({ id, version }) {
  const [text, setText] = useState(null); // that it is decided by; null: as the version has it
  const [typed, setTyped] = useState(null); // in the editor, which is open
  const about = useGet(atRun(id));
  const playbook = about.data?.playbook;
  const source = useGet(playbook && atPlaybook(playbook.path), { version });
  const by = text ?? source.data?.source;
  const found = useData((signal) => (by ? decided(id, by, signal) : null), [id, by], { fresh: true });
  const error = about.error ?? source.error;
  if (error) return html`<${Refused} error=${error} />`;
  const words = text === null ? `version ${version}` : "the edited text";
  const edit = typed === null ? html`<button class="button" disabled=${!by} onClick=${() => setTyped(by)}>Edit the text…</button>` : html`<button class="button" onClick=${() => { setTyped(null); setText(null); }}>As version ${version} has it</button><button class="button primary" disabled=${typed === by} onClick=${() => setText(typed)}>Decide by this text</button>`;
  return html`<${Card} label="Decided again" title=${`Decided again by ${words}`} more=${html`<span class="spring"></span>${edit}`}>
    <div class="inside form" role="status">${found.error ? html`<${Refused} error=${found.error} />` : !found.data ? html`<${Busy} what="Deciding again" />` : html`<${Outcome} id=${id} found=${found.data} words=${words} />`}</div>
    ${typed === null ? null : html`<${Editor} value=${by} label="Playbook to decide by" height="420px" onChange=${setTyped} />`}<//>
    ${found.data?.differences.map((d) => html`<${Commit} key=${d.seq} of=${d} id=${id} />`)}`;
}

/** All parts of the answer together; with another playbook the first difference ends it. */
async function decided(id, playbook, signal) {
  const sum = { commits: 0, differences: [], missing: [] };
  for (let after = null; ; ) {
    const part = await post(`${atRun(id, "replay")}${after ? `?after=${encodeURIComponent(after)}` : ""}`, { playbook }, { signal });
    sum.commits += part.commits;
    sum.differences.push(...part.differences);
    sum.missing.push(...part.missing);
    after = part.cursor;
    if (!after || sum.differences.length) return sum;
  }
}

function Outcome({ found, words }) {
  const { commits, differences } = found;
  if (!differences.length) return html`<div class="alike"><span class="tone-ok"><${Icon} name="check" /></span><div><h2>No difference</h2><p class="soft">${plural(commits, "commit")} decided again by ${words}: each came to the same.</p></div></div>`;
  return html`<p><b>${plural(commits - 1, "commit")}</b> decided alike, then the first that would be another. What comes after it cannot be compared: it would be another execution.</p>`;
}

/** The commit that would be another. */
function Commit({ of, id }) {
  const rows = aligned(of.recorded, of.decided);
  const step = [...of.recorded, ...of.decided].find((e) => e.data?.step)?.data.step;
  return html`<${Card} class="card apart" label="First difference" title=${html`Commit ${of.seq}${step ? html` <span class="soft">of ${bdi(step, 60)}</span>` : null}`} more=${html`<span class="spring"></span><a href=${href(["executions", id, "graph"], { step, at: of.event_id })}>Go to that moment</a>`}>
    <${Table} label="Events" heads=${[["How", "unseen"], "Event", "Recorded", "Would be"]}>${rows.filter((r) => r.change !== "same").map((row) => html`<${Row} row=${row} />`)}<//><//>`;
}

function Row({ row: { event, change, fields } }) {
  const [sign, tone] = SIGNS[change];
  const whole = html`<td class="mono anywhere">${bdi(told(event), 300)}</td>`;
  const none = html`<td class="soft">not there</td>`;
  if (!fields.length) return html`<tr><td class="tone-${tone}"><b aria-hidden="true">${sign}</b><span class="unseen">${change}</span></td><td>${event.name}</td>${change === "only recorded" ? html`${whole}${none}` : html`${none}${whole}`}</tr>`;
  return fields.map((f, i) => html`<tr><td class="tone-${tone}"><b aria-hidden="true">${sign}</b><span class="unseen">${change}</span></td><td>${i ? null : event.name} <span class="soft mono">${f.path}</span></td>${[f.a, f.b].map((v) => html`<td class="mono anywhere">${v === undefined ? html`<span class="soft">nothing</span>` : html`${bdi(v, 300)}`}</td>`)}</tr>`);
}

/** Each place in which two values differ: `{path, a, b}`; what is not there is undefined. */
function fields(a, b, path = "", found = []) {
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
function aligned(recorded, decided) {
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
const told = ({ data }) => Object.fromEntries(Object.entries(data ?? {}).filter(([key]) => !DERIVED.has(key)));
