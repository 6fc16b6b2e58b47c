// Starting a playbook: a form made of its workload.
import { html, useMemo, useState } from "../vendor/preact.js";
import { post } from "../core/api.js";
import { oneLine } from "../core/format.js";
import { notify } from "../core/notices.js";
import { go } from "../core/router.js";
import { Dialog } from "../components/dialog.js";
import { Refused } from "../components/parts.js";
import { initial, JsonField, SchemaField, schemaOf } from "../components/schema-form.js";

/** The form's schema is `x-schema` of the playbook where it has one, else made of the values of its workload. */
export function Start({ playbook, onClose }) {
  return html`<${Dialog} title=${`Start ${oneLine(playbook.path, 80)} v${playbook.version}`} onClose=${onClose} footer=${html`<button class="button" onClick=${onClose}>Close</button><button class="button primary" type="submit" form="start">Start</button>`}>
    <${Form} playbook=${playbook} workload=${playbook.workload ?? {}} /><//>`;
}

function Form({ playbook, workload }) {
  const schema = useMemo(() => playbook.inputs ?? schemaOf(workload), [playbook]);
  const given = useMemo(() => ({ ...initial(schema), ...workload }), [schema]);
  const [payload, setPayload] = useState(given);
  const [raw, setRaw] = useState(!schema.properties || !Object.keys(schema.properties).length);
  const [key, setKey] = useState("");
  const [labels, setLabels] = useState("");
  const [wrong, setWrong] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    try {
      const body = { path: playbook.path, version: playbook.version, payload: changed(payload ?? {}, workload), ...(key ? { idempotency_key: key } : {}), ...(labels.trim() ? { labels: labelled(labels) } : {}) };
      const done = await post("executions", body);
      notify(done.created ? "Started" : "That key had started this one before");
      go(["executions", done.execution_id]);
    } catch (error) {
      setWrong(error);
    }
  };
  return html`<form id="start" class="form" onSubmit=${send}>
    ${raw ? html`<${JsonField} id="payload" label="Payload" hint="A JSON object, merged over the playbook's workload" value=${payload} change=${(v) => setPayload(v ?? {})} rows="10" />` : html`<${SchemaField} id="payload" name="" schema=${schema} value=${payload} change=${setPayload} />`}
    <label class="field inline"><input type="checkbox" checked=${raw} onChange=${(e) => setRaw(e.currentTarget.checked)} />As JSON</label>
    <div class="field"><label for="key">Idempotency key</label><input id="key" type="text" value=${key} onInput=${(e) => setKey(e.currentTarget.value)} /><span class="hint">The same key and payload start one execution, however often they are sent.</span></div>
    <div class="field"><label for="labels">Labels</label><input id="labels" type="text" placeholder="env: test, team: orders" value=${labels} onInput=${(e) => setLabels(e.currentTarget.value)} /><span class="hint">By which lists find it.</span></div>
    ${wrong ? html`<${Refused} error=${wrong} />` : null}</form>`;
}

/** What differs from the playbook's own workload: that need not be sent. */
function changed(payload, workload) {
  return Object.fromEntries(Object.entries(payload).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(workload[key])));
}

/** `env: test, team: orders` as labels. */
function labelled(text) {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
  return Object.fromEntries(parts.map((part) => [part.split(":")[0].trim(), part.split(":").slice(1).join(":").trim()]));
}
