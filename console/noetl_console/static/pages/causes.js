// The causes of differences between two executions: the first differences, which explain the others.
import { html } from "../vendor/preact.js";
import { oneLine, plural } from "../core/format.js";
import { href } from "../core/router.js";
import { bdi, Card } from "../components/parts.js";

const SHOWN = 3;
const ANSWERED = /^(status|result|error|loop)\b/;

/** `of` as the API compares them: another playbook or input; where both are the same, the first visit of a step that had the same arguments and answered otherwise. */
export function Causes({ of }) {
  const { a, b, differences, partial, more } = of;
  const found = [];
  if (a.playbook.digest !== b.playbook.digest) found.push(html`<b>Another playbook</b>: ${a.playbook.path === b.playbook.path ? `v${a.playbook.version} in A, v${b.playbook.version} in B` : html`${bdi(a.playbook.path, 80)} in A, ${bdi(b.playbook.path, 80)} in B`}. <a href=${href(["compare"], { a: a.execution_id, version: b.playbook.version })}>What would v${b.playbook.version} have decided in A?</a>`);
  const inputs = differences.filter((d) => !d.step && /^inputs\b/.test(d.field));
  if (inputs.length) found.push(html`<b>Another input</b>: ${inputs.slice(0, SHOWN).map((d, i) => html`${i ? "; " : ""}<${Pair} of=${d} name=${d.field.replace(/^inputs\.?/, "")} />`)}${inputs.length > SHOWN ? ` and ${plural(inputs.length - SHOWN, "other")}` : ""}`);
  const answer = found.length ? null : answered(differences);
  if (answer) found.push(html`<b>Another answer</b>: <a href=${href(["executions", b.execution_id, "graph"], { step: answer.step })}>${bdi(answer.step, 60)}</a>${answer.visit > 1 ? `, visit ${answer.visit},` : ""} had the same arguments in both, and other ${bdi(answer.field, 60)}: <${Pair} of=${answer} />`);
  return html`<${Card} title=${found.length > 1 ? "Causes" : "Cause"} label="Causes" class="card causes"><div class="inside">
    ${found.length ? html`<ol>${found.map((each) => html`<li class="anywhere">${each}</li>`)}</ol>` : html`<p>Playbook and input are the same, and no step with the same arguments answered otherwise: the differences have an outside cause, such as an operator, a time, a signal or a limit.</p>`}
    ${partial || more ? html`<p class="soft">Only a part was compared.</p>` : null}</div><//>`;
}

const Pair = ({ of, name }) => html`${name ? html`${bdi(name, 60)} ` : null}<code><bdi>${oneLine(of.a, 80)}</bdi></code> in A, <code><bdi>${oneLine(of.b, 80)}</bdi></code> in B`;

/** The first difference in an answer, of a visit whose arguments are alike. */
function answered(differences) {
  const key = (d) => `${d.visit} ${d.step}`;
  const others = new Set(differences.filter((d) => d.step && /^args\b/.test(d.field)).map(key));
  return differences.find((d) => d.step && d.visit && ANSWERED.test(d.field) && !others.has(key(d)));
}
