// Two executions beside each other; or one, decided again by another version of its playbook.
import { html, useState } from "../vendor/preact.js";
import { atPlaybook, atRun, post } from "../core/api.js";
import { ago, duration, number, oneLine, plural, shortId } from "../core/format.js";
import { useData, useGet } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Editor } from "../components/editor.js";
import { Choice } from "../components/fields.js";
import { Causes } from "./causes.js";
import { Icon } from "../components/icons.js";
import { bdi, Busy, Card, Empty, pending, Refused, Table, When } from "../components/parts.js";
import { Status } from "../components/status.js";

const OTHERS = 10;
const FAR = 2; // ratio of durations from which they count as different
const FAR_MS = 20; // and by at least this many milliseconds

/** The address has `a` and `b`, executions, or `a` and `version`. */
export function Compare() {
  const { a, b, version } = route.value.query;
  return html`<div class="page">
    <header class="page-head"><h1>Compare</h1><span class="soft">two executions, or one execution and the decisions of another version of its playbook</span></header>
    <${Compared} key=${a} a=${a} b=${b} version=${version} />
    ${a && b ? html`<${Two} key=${`${a} ${b}`} a=${a} b=${b} />` : a && version ? html`<${Again} key=${`${a} v${version}`} id=${a} version=${version} />` : a ? html`<${Others} key=${a} a=${a} />` : html`<${Card}><${Empty} title="Which ones?">Choose an execution here, or press Compare… on its page.<//><//>`}
  </div>`;
}

/** The choice of the two sides. */
function Compared({ a, b, version }) {
  const about = useGet(a && atRun(a));
  const playbook = about.data?.playbook;
  const runs = useGet(a && !playbook ? "" : "executions", { path: playbook?.path, limit: 50 });
  const versions = useGet(playbook?.version && atPlaybook(playbook.path, "versions"));
  const list = [...(versions.data?.versions ?? [])].sort((one, other) => other.version - one.version);
  const listed = (runs.data?.executions ?? []).filter((e) => e.execution_id !== a);
  return html`<form class="filters" aria-label="Choice of the two sides" onSubmit=${(e) => e.preventDefault()}>
    <${Id} id="compare-a" label="Execution" value=${a} listed=${runs.data?.executions} change=${(id) => put({ a: id }, { replace: false })} />
    ${a ? html`<${Id} id="compare-b" label="with" value=${b} listed=${listed} change=${(id) => put({ b: id, version: "" }, { replace: false })} />
      <button type="button" class="button" disabled=${!b} onClick=${() => put({ a: b, b: a }, { replace: false })}>Swap</button>` : null}
    ${a && list.length ? html`<${Choice} id="compare-version" label="or by" seen options=${[["", "a version…"], ...list.map((v) => [String(v.version), `version ${v.version}${v.version === playbook.version ? " (its own)" : ""}`])]} value=${version} change=${(v) => put({ version: v, b: "" }, { replace: false })} />` : null}
    ${about.error ? html`<${Refused} error=${about.error} again=${about.again} />` : null}</form>`;
}

/** The newest other executions of the playbook: a click compares with one. */
function Others({ a }) {
  const path = useGet(atRun(a)).data?.playbook.path;
  const found = useGet(path && "executions", { path, limit: OTHERS + 1 });
  const others = (found.data?.executions ?? []).filter((e) => e.execution_id !== a).slice(0, OTHERS);
  return html`<${Card} title="Other executions"><p class="inside soft">${others.length ? "With one of these, another execution, or a version of the playbook." : "Choose another execution, or a version of the playbook."}</p>
    ${others.length ? html`<${Table} heads=${["Status", "Execution", "Began"]}>${others.map((e) => html`<tr key=${e.execution_id}><td><${Status} value=${e.status} /></td><td><a href=${href(["compare"], { a, b: e.execution_id })}>${shortId(e.execution_id)}</a></td><td><${When} at=${e.started_at} /></td></tr>`)}<//>` : null}<//>`;
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
  const alike = [...new Set(durations.map((d) => d.step))].filter((step) => !steps.has(step));
  return html`${differences.length || found.data.a.playbook.digest !== found.data.b.playbook.digest ? html`<${Causes} of=${found.data} />` : null}<${Sides} of=${found.data} />
    ${differences.length ? null : html`<${Card} label="Differences"><div class="inside alike"><span class="tone-ok"><${Icon} name="check" /></span><div><h2>No difference</h2><p class="soft">Status, inputs, arguments, results, errors, ctx and the way taken are alike. Durations do not count.${partial ? " Only a part was compared." : ""}</p></div></div><//>`}
    ${whole.length ? html`<${Apart} title="As a whole" rows=${whole} />` : null}
    ${[...steps].map(([step, rows]) => html`<${Apart} key=${step} title=${step} step=${step} rows=${rows} sides=${found.data} loop=${Boolean(loops.data?.steps[step]?.loop)} />`)}
    ${alike.length && differences.length ? html`<${Folded} words=${`${plural(alike.length, "step")} ${alike.length === 1 ? "is" : "are"} alike`}><p>${alike.map((step, i) => html`${i ? ", " : ""}${bdi(step, 60)}`)}</p><//>` : null}
    ${more ? html`<p class="soft">There are more differences; these are the first ${number(differences.length)}.</p>` : null}
    ${partial ? html`<${Totals} of=${partial} />` : null}
    <${Durations} of=${durations} />`;
}

/** Totals over all visits of steps, if only some of them were compared one by one. */
function Totals({ of }) {
  const both = ({ a, b }, shown) => (shown(a) === shown(b) ? shown(a) : `${shown(a)} / ${shown(b)}`);
  return html`<${Card} title="All visits" more=${html`<span class="soft">${number(of.compared)} of ${plural(of.visits, "visit")} compared one by one: the first, the last and some failed ones</span>`}><${Table} label="All visits" heads=${["Step", ["Compared", "right"], ["Visits", "right"], ["Failed", "right"], ["On average", "right"], ["Longest", "right"]]}>
    ${of.steps.map((s) => html`<tr><td>${bdi(s.step, 60)}</td><td class="right number">${number(s.compared)}</td><td class="right number">${both(s, (x) => number(x.visits))}</td><td class="right number">${both(s, (x) => number(x.failed))}</td>
      <td class="right number nowrap">${both(s, (x) => duration(x.mean_ms))}</td><td class="right number nowrap">${both(s, (x) => duration(x.max_ms))}</td></tr>`)}<//><//>`;
}

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.step, (found.get(row.step) ?? []).concat(row));
  return found;
}

/** The two executions. */
function Sides({ of }) {
  return html`<${Card} label="The two"><${Table} heads=${[["Which", "unseen"], "Execution", "Status", "Playbook", ["Took", "right"]]}>
    ${["a", "b"].map((side) => html`<tr><th scope="row">${side.toUpperCase()}</th><td class="mono"><a href=${href(["executions", of[side].execution_id])}>${of[side].execution_id}</a></td><td><${Status} value=${of[side].status} /></td>
      <td class="nowrap">${bdi(of[side].playbook.path, 80)} <span class="soft" title=${of[side].playbook.digest}>v${of[side].playbook.version}, ${of[side].playbook.digest.slice(7, 15)}</span></td><td class="right number">${duration(of[side].duration_ms)}</td></tr>`)}<//><//>`;
}

/** Fields in which the two, or visits of a step in them, differ. */
function Apart({ title, step, rows, sides, loop }) {
  const to = (side) => href(["executions", sides[side].execution_id, "graph"], { step });
  return html`<${Card} class="card apart" label=${`Differences: ${title}`} title=${bdi(title, 80)} more=${html`<span class="soft">${plural(rows.length, "difference")}</span><span class="spring"></span>${step ? html`<a href=${to("a")}>in A</a><a href=${to("b")}>in B</a>` : null}`}>
    <${Table} label="Differing values" heads=${["Field", "A", "B"]}>${rows.map((d) => html`<tr><td class="mono">${d.visit > 1 ? html`<span class="tag">visit ${d.visit}</span> ` : null}<${Place} of=${d} loop=${loop} sides=${sides} /></td><${Value} of=${d.a} /><${Value} of=${d.b} /></tr>`)}<//><//>`;
}

/** A field. A result of a loop links to its iteration. */
function Place({ of, loop, sides }) {
  const found = loop ? /^result\[(\d+)\](.*)$/.exec(of.field) : null;
  if (!found) return html`${bdi(of.field, 120)}`;
  return html`<a href=${href(["executions", sides.a.execution_id, "iterations"], { step: of.step, i: found[1] })}>iteration ${found[1]}</a> <bdi>result${oneLine(found[2], 100)}</bdi>`;
}

const Value = ({ of }) => html`<td class="mono anywhere">${of === "(nothing)" ? html`<span class="soft">nothing</span>` : html`<bdi>${of}</bdi>`}</td>`;

/** Equal parts, folded until somebody opens them. */
const Folded = ({ words, children }) => html`<details class="fold"><summary>${words}</summary>${children}</details>`;

/** Durations of visits in both. Visits with similar durations are folded. */
function Durations({ of }) {
  if (!of.length) return null;
  const far = of.filter((d) => isFar(d));
  const near = of.filter((d) => !isFar(d));
  const slowest = Math.max(1, ...of.flatMap((d) => [d.a_ms ?? 0, d.b_ms ?? 0]));
  const table = (rows, label) => html`<${Table} label=${label} heads=${["Step", "A", "B", ["B against A", "right"]]}>
    ${rows.map((d) => html`<tr><td>${bdi(d.step, 60)}${d.visit > 1 ? html` <span class="soft">visit ${d.visit}</span>` : null}</td><${Took} ms=${d.a_ms} slowest=${slowest} /><${Took} ms=${d.b_ms} slowest=${slowest} />
      <td class="right number nowrap">${against(d)}</td></tr>`)}<//>`;
  return html`<${Card} title="Time" more=${html`<span class="soft">of each visit; not counted as a difference</span>`}>${far.length ? table(far, "Times") : null}
    ${near.length ? html`<${Folded} words=${`${plural(near.length, far.length ? "other" : "visit")} took about as long`}>${table(near, "Times that are alike")}<//>` : null}<//>`;
}

const Took = ({ ms, slowest }) => html`<td class="number nowrap took">${ms === null ? html`<span class="soft">did not end</span>` : html`<i style=${{ width: `${Math.max(1, (100 * ms) / slowest)}px` }}></i> ${duration(ms)}`}</td>`;

function against({ a_ms, b_ms }) {
  if (!a_ms || !b_ms) return "";
  const words = `${(b_ms / a_ms).toPrecision(2)} ×`;
  return isFar({ a_ms, b_ms }) ? html`<b>${words}</b>` : html`<span class="soft">${words}</span>`;
}

/** True if one took far longer, or did not end. */
function isFar({ a_ms, b_ms }) {
  if (a_ms === null || b_ms === null) return a_ms !== b_ms;
  return Math.max(b_ms / a_ms, a_ms / b_ms) >= FAR && Math.abs(a_ms - b_ms) >= FAR_MS;
}

/** An execution decided again by another version of its playbook, or by a text that is edited here: up to the first difference. */
function Again({ id, version }) {
  const [text, setText] = useState(null); // text to decide by; null: the version's own
  const [typed, setTyped] = useState(null); // text in the open editor; null: the editor is closed
  const about = useGet(atRun(id));
  const playbook = about.data?.playbook;
  const source = useGet(playbook && atPlaybook(playbook.path), { version });
  const by = text ?? source.data?.source;
  const found = useData((signal) => (by ? decided(id, by, signal) : null), [id, by], { fresh: true });
  const error = about.error ?? source.error;
  if (error) return html`<${Refused} error=${error} />`;
  const words = text === null ? `version ${version}` : "the edited text";
  const edit = typed === null ? html`<button class="button" disabled=${!by} onClick=${() => setTyped(by)}>Edit the text…</button>` : html`<button class="button" onClick=${() => { setTyped(null); setText(null); }}>Back to version ${version}</button><button class="button primary" disabled=${typed === by} onClick=${() => setText(typed)}>Decide by this text</button>`;
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
  if (!differences.length) return html`<div class="alike"><span class="tone-ok"><${Icon} name="check" /></span><div><h2>No difference</h2><p class="soft">${plural(commits, "commit")} decided again by ${words}, each with the same result.</p></div></div>`;
  return html`<p><b>${plural(commits - 1, "commit")}</b> decided alike, then the first that would differ. The commits after it cannot be compared: they would belong to another execution.</p>`;
}

/** The commit that would be another. */
function Commit({ of, id }) {
  const step = [...of.recorded, ...of.decided].find((e) => e.data?.step)?.data.step;
  return html`<${Card} class="card apart" label="First difference" title=${html`Commit ${of.seq}${step ? html` <span class="soft">of ${bdi(step, 60)}</span>` : null}`} more=${html`<span class="spring"></span><a href=${href(["executions", id, "graph"], { step, at: of.event_id })}>Go to that moment</a>`}>
    <${Table} label="Events" heads=${[["How", "unseen"], "Event", "Recorded", "Would be"]}>${of.changes.map((row) => html`<${Row} row=${row} />`)}<//><//>`;
}

function Row({ row }) {
  const [sign, tone, word] = row.path ? ["≠", "wait", "other"] : row.recorded ? ["−", "bad", "only recorded"] : ["+", "ok", "only decided"];
  return html`<tr><td class="tone-${tone}"><b aria-hidden="true">${sign}</b><span class="unseen">${word}</span></td><td>${row.event} <span class="soft mono">${row.path}</span></td>${[row.recorded, row.decided].map((v) => (v ? html`<${Value} of=${v} />` : html`<td class="soft">not there</td>`))}</tr>`;
}
