// ctx, tokens and open runs, now or at a past event, and the value of a template there.
import { html, useState } from "../../vendor/preact.js";
import { atRun, post } from "../../core/api.js";
import { useGet } from "../../core/poll.js";
import { Json } from "../../components/json.js";
import { bdi, Card, pending, Refused, Table } from "../../components/parts.js";
import { Status } from "../../components/status.js";

const MOST = 200; // tokens shown, and runs shown

export function Ctx({ run }) {
  const { id, moment } = run;
  const now = useGet(atRun(id, "state"), { at: moment.at }, { deps: [run.version] });
  const wait = pending(now, "Reading the state");
  if (wait) return wait;
  const { ctx, tokens, runs } = now.data;
  return html`<div class="content padded">
    <${Card} title="ctx" label="Values" more=${html`<span class="soft">${moment.at ? "as it was then" : "as it is now"}</span>`}><div class="inside"><${Json} value=${ctx} open=${3} /></div><//>
    ${tokens.length ? html`<${Card} title="Tokens"><${Table} label="Waiting tokens" heads=${["For", "Where", "Arguments"]}>
      ${tokens.slice(0, MOST).map((t) => html`<tr><td>${bdi(t.step, 60)}</td><td>${t.parked ? "parked: its guard is false" : "on its way, or waits for a join"}</td><td class="mono">${bdi(t.args, 160)}</td></tr>`)}<//><//>` : null}
    ${runs.length ? html`<${Card} title="Open runs"><${Table} label="Open runs" heads=${["Step", "Status", "Waits for"]}>
      ${runs.slice(0, MOST).map((r) => html`<tr><td>${bdi(r.step, 60)}</td><td><${Status} value=${r.status} /></td><td class="mono">${bdi(r.waits.map((w) => w.kind).join(", "), 160)}</td></tr>`)}<//><//>` : null}
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
  const where = html`<span class="soft">its value here${run.step ? html`, in ${bdi(run.step, 40)}` : ""}${run.moment.at ? ", then" : ""}</span>`;
  return html`<${Card} title="Template" more=${where}>
    <form class="inside form" onSubmit=${ask}><div class="filters"><label class="unseen" for="template">Template</label>
      <input id="template" type="text" class="mono wide" placeholder="{{ ctx | length }}" value=${template} onInput=${(e) => setTemplate(e.currentTarget.value)} /><button class="button" disabled=${!template}>Render</button></div>
      ${found?.error ? html`<${Refused} error=${found.error} />` : found ? html`<div class="box"><${Json} value=${found.value} open=${2} /></div>` : null}</form><//>`;
}
