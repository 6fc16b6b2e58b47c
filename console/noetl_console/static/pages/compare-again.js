// An execution decided again by another version of its playbook, or by a text that is edited here: up to the first difference.
import { html, useState } from "../vendor/preact.js";
import { get, path, post } from "../core/api.js";
import { aligned, told } from "../core/differing.js";
import { oneLine, plural } from "../core/format.js";
import { useData } from "../core/poll.js";
import { href } from "../core/router.js";
import { Editor } from "../components/editor.js";
import { Icon } from "../components/icons.js";
import { Busy, Refused } from "../components/parts.js";

const SIGNS = { "only recorded": ["−", "bad"], "only decided": ["+", "ok"], other: ["≠", "wait"], same: ["", "idle"] };

export function Again({ id, version }) {
  const [text, setText] = useState(null); // that it is decided by; null: as the version has it
  const [typed, setTyped] = useState(null); // in the editor, which is open
  const about = useData((signal) => get(path("executions", id), {}, { signal }), [id]);
  const playbook = about.data?.playbook;
  const source = useData((signal) => (playbook ? get(`playbooks/${path(...playbook.path.split("/"))}`, { version }, { signal }) : Promise.resolve(null)), [playbook?.path, version]);
  const by = text ?? source.data?.source;
  const found = useData((signal) => (by ? decided(id, by, signal) : Promise.resolve(null)), [id, by], { fresh: true });
  const error = about.error ?? source.error;
  if (error) return html`<${Refused} error=${error} />`;
  const words = text === null ? `version ${version}` : "the edited text";
  return html`<section class="card" aria-label="Decided again"><header><h2>Decided again by ${words}</h2><span class="spring"></span>
      ${typed === null ? html`<button class="button" disabled=${!by} onClick=${() => setTyped(by)}>Edit the text…</button>` : html`<button class="button" onClick=${() => { setTyped(null); setText(null); }}>As version ${version} has it</button><button class="button primary" disabled=${typed === by} onClick=${() => setText(typed)}>Decide by this text</button>`}</header>
    <div class="inside form" role="status">${found.error ? html`<${Refused} error=${found.error} />` : !found.data ? html`<${Busy} what="Deciding again" />` : html`<${Outcome} id=${id} found=${found.data} words=${words} />`}</div>
    ${typed === null ? null : html`<${Editor} value=${by} label="Playbook to decide by" height="420px" onChange=${setTyped} />`}</section>
    ${found.data?.differences.map((d) => html`<${Commit} key=${d.seq} of=${d} id=${id} />`)}`;
}

/** All parts of the answer together; with another playbook the first difference ends it. */
async function decided(id, playbook, signal) {
  const sum = { commits: 0, differences: [], missing: [] };
  for (let after = null; ; ) {
    const part = await post(`${path("executions", id)}/replay${after ? `?after=${encodeURIComponent(after)}` : ""}`, { playbook }, { signal });
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
  return html`<section class="card apart" aria-label="First difference"><header><h2>Commit ${of.seq}${step ? html` <span class="soft">of <bdi>${oneLine(step, 60)}</bdi></span>` : null}</h2><span class="spring"></span><a href=${href(["executions", id, "graph"], { step, at: of.event_id })}>Go to that moment</a></header>
    <div class="scroll"><table><thead><tr><th scope="col"><span class="unseen">How</span></th><th scope="col">Event</th><th scope="col">Recorded</th><th scope="col">Would be</th></tr></thead>
      <tbody>${rows.filter((r) => r.change !== "same").map((row) => html`<${Row} row=${row} />`)}</tbody></table></div></section>`;
}

function Row({ row: { event, change, fields } }) {
  const [sign, tone] = SIGNS[change];
  const whole = html`<td class="mono anywhere"><bdi>${oneLine(told(event), 300)}</bdi></td>`;
  const none = html`<td class="soft">not there</td>`;
  if (!fields.length) return html`<tr><td class="tone-${tone}"><b aria-hidden="true">${sign}</b><span class="unseen">${change}</span></td><td>${event.name}</td>${change === "only recorded" ? html`${whole}${none}` : html`${none}${whole}`}</tr>`;
  return fields.map((f, i) => html`<tr><td class="tone-${tone}"><b aria-hidden="true">${sign}</b><span class="unseen">${change}</span></td><td>${i ? null : event.name} <span class="soft mono">${f.path}</span></td>${[f.a, f.b].map((v) => html`<td class="mono anywhere">${v === undefined ? html`<span class="soft">nothing</span>` : html`<bdi>${oneLine(v, 300)}</bdi>`}</td>`)}</tr>`);
}
