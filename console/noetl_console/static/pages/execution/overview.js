// The execution at a glance: its failure or tolerated errors, waits, inputs and result.
import { html } from "../../vendor/preact.js";
import { bdi, Card } from "../../components/parts.js";
import { Json } from "../../components/json.js";
import { Waits } from "./actions.js";
import { Failure, useWhy, Why } from "./why.js";

export function Overview({ run }) {
  const why = useWhy(run, null);
  const { head, summary } = run;
  const { causes, facts } = why.data ?? {};
  // Its waits are listed below, with the forms that answer them.
  const found = facts && !run.moment.at ? { ...why, data: { ...why.data, facts: facts.filter((f) => f.fact === "retry" || !f.wait) } } : why;
  const value = (title, of) => of && typeof of === "object" && !Object.keys(of).length ? null : html`<${Card} title=${title}><div class="inside"><${Json} value=${of} open=${2} /></div><//>`;
  return html`<div class="content padded overview">
    ${head.error && head.status === "failed" && !causes?.length ? html`<${Failure} error=${head.error} where=${html` in ${bdi(head.error.step, 60)}`} />` : null}
    <${Why} found=${found} run=${run} />
    <${Waits} run=${run} />
    ${summary ? html`<div class="pair">${value("Input", summary.input)}${head.status === "completed" ? value("Result", summary.result) : value("State so far (ctx)", summary.ctx)}</div>` : null}
  </div>`;
}
