// Starting a playbook, or a text: the form of its inputs, and the time and cost that are forecast.
import { html, useEffect, useMemo, useState } from "../vendor/preact.js";
import { post } from "../core/api.js";
import { duration, money, oneLine, plural } from "../core/format.js";
import { notify } from "../core/notices.js";
import { useData } from "../core/poll.js";
import { go } from "../core/router.js";
import { Dialog } from "./dialog.js";
import { Check, Field, initial, JsonField, SchemaField } from "./fields.js";
import { schemaOf } from "./inputs.js";
import { Refused } from "./parts.js";

const PAUSE_MS = 600;

/** Start the `version` of a playbook, or with `inline` its text `source`. The form's schema is `x-schema` of the playbook where it
 * has one, else made of the values of its workload. `registered()` is told that the text has become a version. */
export function Start({ playbook, inline, registered, onClose }) {
  const workload = playbook.workload ?? {};
  const schema = useMemo(() => playbook.inputs ?? schemaOf(workload), [playbook]);
  const begin = useMemo(() => ({ ...initial(schema), ...workload }), [schema]);
  const [payload, setPayload] = useState(begin);
  const [raw, setRaw] = useState(!schema.properties || !Object.keys(schema.properties).length);
  const [key, setKey] = useState("");
  const [labels, setLabels] = useState("");
  const [wrong, setWrong] = useState(null);
  const { path, version, source } = playbook;
  const which = inline ? { playbook: source } : { path, version };
  const sent = changed(payload ?? {}, workload);
  const send = async () => {
    try {
      const body = { ...which, payload: sent, ...(key ? { idempotency_key: key } : {}), ...(labels.trim() ? { labels: labelled(labels) } : {}) };
      const done = await post("executions", body);
      if (inline && done.playbook.version) registered();
      notify(done.created ? "Started" : "That key had started this one before");
      go(["executions", done.execution_id]);
    } catch (error) {
      setWrong(error);
    }
  };
  return html`<${Dialog} title=${inline ? "Start this text" : `Start ${oneLine(path, 80)} v${version}`} onClose=${onClose} send=${send} act="Start">
    ${inline ? html`<p class="soft">The execution keeps this text of ${oneLine(path, 80)}. If you may register playbooks, it becomes the newest version, too.</p>` : null}
    <${Forecast} which=${which} payload=${sent} />
    ${raw ? html`<${JsonField} id="payload" label="Payload" hint="A JSON object, merged over the playbook's workload" value=${payload} change=${(v) => setPayload(v ?? {})} rows="10" />` : html`<${SchemaField} id="payload" name="" schema=${schema} value=${payload} change=${setPayload} />`}
    <${Check} label="As JSON" checked=${raw} change=${setRaw} />
    <${Field} id="key" label="Idempotency key" value=${key} change=${setKey} hint="The same key and payload start one execution, however often they are sent." />
    <${Field} id="labels" label="Labels" placeholder="env: test, team: orders" value=${labels} change=${setLabels} hint="Lists can filter by labels." />
    ${wrong ? html`<${Refused} error=${wrong} />` : null}<//>`;
}

/** Time and cost as ranges, from past executions. Asked again shortly after the payload was changed. */
function Forecast({ which, payload }) {
  const now = JSON.stringify(payload);
  const [settled, settle] = useState(now);
  useEffect(() => {
    const timer = setTimeout(() => settle(now), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [now]);
  const { data, error } = useData((signal) => post("playbooks/plan", { ...which, payload: JSON.parse(settled) }, { signal }), [JSON.stringify(which), settled]);
  const range = (of, words) => (words(of.low) === words(of.high) ? words(of.low) : `${words(of.low)} to ${words(of.high)}`);
  const seconds = (s) => duration(s * 1000);
  const from = data && (data.runs ? html`from ${plural(data.runs, "completed execution")} of the ${data.read} newest${data.failed ? ` (${data.failed} failed)` : ""}` : html`<strong>a guess</strong>: no execution of this playbook has completed here, so these are defaults for each kind of task`);
  return html`<section class="forecast" aria-label="Forecast" aria-live="polite">${data ? html`
    <dl class="facts"><dt>Time</dt><dd>${range(data.seconds, seconds)}${data.runs ? `, typically ${seconds(data.seconds.typical)}` : ""}</dd>
      <dt>Cost</dt><dd>${range(data.cost, money)}${data.runs ? `, typically ${money(data.cost.typical)}` : ""}</dd><dt>Forecast</dt><dd>${from}</dd></dl>
    <details><summary>Assumptions</summary><ul>${data.assumes.map((text) => html`<li>${text}</li>`)}</ul></details>`
    : html`<p class="soft">${error ? `No forecast: ${error.message}` : "Reading past executions…"}</p>`}</section>`;
}

/** The values that differ from the playbook's own workload. Only they are sent. */
function changed(payload, workload) {
  return Object.fromEntries(Object.entries(payload).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(workload[key])));
}

/** `env: test, team: orders` as labels. */
function labelled(text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
  return Object.fromEntries(parts.map((part) => [part.split(":")[0].trim(), part.split(":").slice(1).join(":").trim()]));
}
