// ctx now or then, tokens and open runs, and what a template gives.
import { html, useState } from "../../vendor/preact.js";
import { get, path, post } from "../../core/api.js";
import { oneLine } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { Json } from "../../components/json.js";
import { Busy, Refused } from "../../components/parts.js";
import { Status } from "../../components/status.js";

export function Ctx({ run }) {
  const { id, moment } = run;
  const now = useData((signal) => get(`${path("executions", id)}/state`, { at: moment.at }, { signal }), [id, run.version, moment.at]);
  const shown = now.data;
  if (now.error) return html`<${Refused} error=${now.error} again=${now.again} />`;
  if (!shown) return html`<${Busy} what="Reading the state" />`;
  return html`<div class="content padded">
    <section class="card" aria-label="ctx"><header><h2>ctx</h2><span class="soft">${moment.at ? "as it was then" : "as it is now"}</span></header><div class="inside"><${Json} value=${shown.ctx} open=${3} /></div></section>
    ${shown.tokens.length ? html`<section class="card" aria-label="Tokens"><header><h2>Tokens</h2></header><table><thead><tr><th scope="col">For</th><th scope="col"></th><th scope="col">Arguments</th></tr></thead>
      <tbody>${shown.tokens.slice(0, 200).map((t) => html`<tr><td><bdi>${oneLine(t.step, 60)}</bdi></td><td>${t.parked ? "parked: its guard is false" : "on its way, or waits for a join"}</td><td class="mono">${oneLine(t.args, 160)}</td></tr>`)}</tbody></table></section>` : null}
    ${shown.runs.length ? html`<section class="card" aria-label="Open runs"><header><h2>Open runs</h2></header><table><thead><tr><th scope="col">Step</th><th scope="col">Status</th><th scope="col">Waits for</th></tr></thead>
      <tbody>${shown.runs.slice(0, 200).map((r) => html`<tr><td><bdi>${oneLine(r.step, 60)}</bdi></td><td><${Status} value=${r.status} /></td><td class="mono">${oneLine(r.waits.map((w) => w.kind).join(", "), 160)}</td></tr>`)}</tbody></table></section>` : null}
    <${Render} run=${run} />
  </div>`;
}

function Render({ run }) {
  const [template, setTemplate] = useState("");
  const [found, set] = useState(null);
  const ask = async (event) => {
    event.preventDefault();
    try {
      const body = { execution_id: run.id, template, ...(run.step ? { step: run.step } : {}), ...(run.moment.at ? { at: run.moment.at } : {}) };
      set({ value: (await post("context/render", body)).value });
    } catch (error) {
      set({ error });
    }
  };
  return html`<section class="card" aria-label="Template"><header><h2>Template</h2><span class="soft">what it gives here${run.step ? html`, in <bdi>${oneLine(run.step, 40)}</bdi>` : ""}${run.moment.at ? ", then" : ""}</span></header>
    <form class="inside form" onSubmit=${ask}><div class="filters"><label class="unseen" for="template">Template</label>
      <input id="template" type="text" class="mono" style=${{ flex: 1 }} placeholder="{{ ctx | length }}" value=${template} onInput=${(e) => setTemplate(e.currentTarget.value)} /><button class="button" disabled=${!template}>Render</button></div>
      ${found?.error ? html`<${Refused} error=${found.error} />` : found ? html`<div class="box"><${Json} value=${found.value} open=${2} /></div>` : null}</form></section>`;
}
