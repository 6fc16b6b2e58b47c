// Two executions beside each other; or one, decided again by another version of its playbook.
import { html, useState } from "../vendor/preact.js";
import { get, path } from "../core/api.js";
import { ago, duration, number, oneLine, plural } from "../core/format.js";
import { useData } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Icon } from "../components/icons.js";
import { Busy, Empty, Refused } from "../components/parts.js";
import { Status } from "../components/status.js";
import { Again } from "./compare-again.js";

const FAR = 2; // times as long: told apart
const FAR_MS = 20; // and by so much at least

/** The address has `a` and `b`, executions, or `a` and `version`. */
export function Compare() {
  const { a, b, version } = route.value.query;
  return html`<div class="page">
    <header class="page-head"><h1>Compare</h1><span class="soft">two executions, or one with what another version of its playbook would have decided</span></header>
    <${Choice} key=${a} a=${a} b=${b} version=${version} />
    ${a && b ? html`<${Two} key=${`${a} ${b}`} a=${a} b=${b} />` : a && version ? html`<${Again} key=${`${a} v${version}`} id=${a} version=${version} />` : html`<section class="card"><${Empty} title=${a ? "With what?" : "Which ones?"}>${a ? "Choose another execution, or a version of the playbook." : "Choose an execution here, or press Compare… on its page."}<//></section>`}
  </div>`;
}

/** What is compared with what. */
function Choice({ a, b, version }) {
  const about = useData((signal) => (a ? get(path("executions", a), {}, { signal }) : Promise.resolve(null)), [a]);
  const playbook = about.data?.playbook;
  const runs = useData((signal) => (a && !playbook ? Promise.resolve({ executions: [] }) : get("executions", { path: playbook?.path, limit: 50 }, { signal })), [a, playbook?.path]);
  const versions = useData((signal) => (playbook?.version ? get(`playbooks/${path(...playbook.path.split("/"))}/versions`, {}, { signal }) : Promise.resolve({ versions: [] })), [playbook?.path]);
  const list = [...(versions.data?.versions ?? [])].sort((one, other) => other.version - one.version);
  const listed = (runs.data?.executions ?? []).filter((e) => e.execution_id !== a);
  return html`<form class="filters" aria-label="What is compared" onSubmit=${(e) => e.preventDefault()}>
    <${Id} id="compare-a" label="Execution" value=${a} listed=${runs.data?.executions} change=${(id) => put({ a: id }, { replace: false })} />
    ${a ? html`<${Id} id="compare-b" label="with" value=${b} listed=${listed} change=${(id) => put({ b: id, version: "" }, { replace: false })} />
      <button type="button" class="button" disabled=${!b} onClick=${() => put({ a: b, b: a }, { replace: false })}>Swap</button>` : null}
    ${a && list.length ? html`<label for="compare-version">or by</label><select id="compare-version" onChange=${(e) => put({ version: e.currentTarget.value, b: "" }, { replace: false })}><option value="">a version…</option>
      ${list.map((v) => html`<option value=${v.version} selected=${String(v.version) === version}>version ${v.version}${v.version === playbook.version ? " (its own)" : ""}</option>`)}</select>` : null}
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
  const found = useData((signal) => get(`${path("executions", a)}/diff`, { other: b }, { signal }), [a, b]);
  const loops = useData((signal) => get(`${path("executions", a)}/changes`, { limit: 0 }, { signal }), [a]);
  if (found.error) return html`<${Refused} error=${found.error} again=${found.again} />`;
  if (!found.data) return html`<${Busy} what="Comparing" />`;
  const { differences, durations, more } = found.data;
  const whole = differences.filter((d) => !d.step);
  const steps = grouped(differences.filter((d) => d.step));
  return html`<${Sides} of=${found.data} />
    ${differences.length ? null : html`<section class="card" aria-label="Differences"><div class="inside alike"><span class="tone-ok"><${Icon} name="check" /></span><div><h2>No difference</h2><p class="soft">Status, inputs, arguments, results, errors, ctx and the way taken are alike. How long it took is none.</p></div></div></section>`}
    ${whole.length ? html`<${Apart} title="As a whole" rows=${whole} />` : null}
    ${[...steps].map(([step, rows]) => html`<${Apart} key=${step} title=${step} step=${step} rows=${rows} sides=${found.data} loop=${Boolean(loops.data?.steps[step]?.loop)} />`)}
    ${more ? html`<p class="soft">There are more differences; these are the first ${number(differences.length)}.</p>` : null}
    <${Durations} of=${durations} />`;
}

function grouped(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.step, (found.get(row.step) ?? []).concat(row));
  return found;
}

/** What the two are. */
function Sides({ of }) {
  return html`<section class="card" aria-label="The two"><div class="scroll"><table><thead><tr><th scope="col"><span class="unseen">Which</span></th><th scope="col">Execution</th><th scope="col">Status</th><th scope="col">Playbook</th><th scope="col" class="right">Took</th></tr></thead>
    <tbody>${["a", "b"].map((side) => html`<tr><th scope="row">${side.toUpperCase()}</th><td class="mono"><a href=${href(["executions", of[side].execution_id])}>${of[side].execution_id}</a></td><td><${Status} value=${of[side].status} /></td>
      <td><bdi>${oneLine(of[side].playbook.path, 80)}</bdi> <span class="soft" title=${of[side].playbook.digest}>v${of[side].playbook.version}, ${of[side].playbook.digest.slice(7, 15)}</span></td><td class="right number">${duration(of[side].duration_ms)}</td></tr>`)}</tbody></table></div></section>`;
}

/** Fields in which the two, or visits of a step in them, differ. */
function Apart({ title, step, rows, sides, loop }) {
  const to = (side) => href(["executions", sides[side].execution_id, "graph"], { step });
  return html`<section class="card apart" aria-label=${`Differences: ${title}`}><header><h2 class="cut"><bdi>${oneLine(title, 80)}</bdi></h2><span class="soft">${plural(rows.length, "difference")}</span><span class="spring"></span>
      ${step ? html`<a href=${to("a")}>in A</a><a href=${to("b")}>in B</a>` : null}</header>
    <div class="scroll"><table><thead><tr><th scope="col">What</th><th scope="col">A</th><th scope="col">B</th></tr></thead>
      <tbody>${rows.map((d) => html`<tr><td class="mono">${d.visit > 1 ? html`<span class="tag">visit ${d.visit}</span> ` : null}<${Field} of=${d} loop=${loop} sides=${sides} /></td><${Value} of=${d.a} /><${Value} of=${d.b} /></tr>`)}</tbody></table></div></section>`;
}

/** A field; of results of a loop its iteration, which can be looked at. */
function Field({ of, loop, sides }) {
  const found = loop ? /^result\[(\d+)\](.*)$/.exec(of.field) : null;
  if (!found) return html`<bdi>${oneLine(of.field, 120)}</bdi>`;
  return html`<a href=${href(["executions", sides.a.execution_id, "iterations"], { step: of.step, i: found[1] })}>iteration ${found[1]}</a> <bdi>result${oneLine(found[2], 100)}</bdi>`;
}

const Value = ({ of }) => html`<td class="mono anywhere">${of === "(nothing)" ? html`<span class="soft">nothing</span>` : html`<bdi>${of}</bdi>`}</td>`;

/** How long visits took in both; those that are far apart stand out. */
function Durations({ of }) {
  if (!of.length) return null;
  const slowest = Math.max(1, ...of.flatMap((d) => [d.a_ms ?? 0, d.b_ms ?? 0]));
  return html`<section class="card" aria-label="Time"><header><h2>Time</h2><span class="soft">of each visit; no difference</span></header><div class="scroll"><table>
    <thead><tr><th scope="col">Step</th><th scope="col">A</th><th scope="col">B</th><th scope="col" class="right">B against A</th></tr></thead>
    <tbody>${of.map((d) => html`<tr><td><bdi>${oneLine(d.step, 60)}</bdi>${d.visit > 1 ? html` <span class="soft">visit ${d.visit}</span>` : null}</td><${Took} ms=${d.a_ms} slowest=${slowest} /><${Took} ms=${d.b_ms} slowest=${slowest} />
      <td class="right number nowrap">${against(d)}</td></tr>`)}</tbody></table></div></section>`;
}

const Took = ({ ms, slowest }) => html`<td class="number nowrap took">${ms === null ? html`<span class="soft">did not end</span>` : html`<i style=${{ width: `${Math.max(1, (100 * ms) / slowest)}px` }}></i> ${duration(ms)}`}</td>`;

function against({ a_ms, b_ms }) {
  if (!a_ms || !b_ms) return "";
  const times = b_ms / a_ms;
  const far = Math.max(times, 1 / times) >= FAR && Math.abs(a_ms - b_ms) >= FAR_MS;
  return far ? html`<b>${times.toPrecision(2)} ×</b>` : html`<span class="soft">${times.toPrecision(2)} ×</span>`;
}
