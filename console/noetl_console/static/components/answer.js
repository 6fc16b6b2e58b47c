// The form that answers a callback.
import { html, useState } from "../vendor/preact.js";
import { path, post } from "../core/api.js";
import { notify } from "../core/notices.js";
import { initial, JsonField, SchemaField } from "./fields.js";
import "./inputs.js";
import { Later } from "./later.js";
import { Refused } from "./parts.js";

/** The form for `callback`, as the API lists it, of `execution_id`; calls `done()` after the answer. */
export function Answer({ callback, execution_id, done }) {
  const { schema, decision } = callback;
  const [value, setValue] = useState(() => (schema ? initial(schema) : undefined));
  const [wrong, setWrong] = useState(null);
  const [busy, setBusy] = useState(false);
  const [failing, setFailing] = useState(false);
  const [message, setMessage] = useState("");
  const id = `answer-${callback.wait_id}`;
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    const data = decision && event.submitter?.value ? { ...value, [decision.key]: event.submitter.value === "yes" } : (value ?? null);
    try {
      const body = failing ? { status: "error", error: message || "refused manually" } : { data };
      await post(path("executions", execution_id, "callbacks", callback.wait_id), body);
      notify("Answered");
      done?.();
    } catch (error) {
      setWrong(error);
    }
    setBusy(false);
  };
  return html`<div class="beside"><form class="form" onSubmit=${send}>
    ${failing ? html`<div class="field"><label for=${`${id}-message`}>Message</label><input id=${`${id}-message`} type="text" value=${message} onInput=${(e) => setMessage(e.currentTarget.value)} /></div>`
      : schema && (schema.properties || schema.type) ? html`<${SchemaField} id=${id} name="" label=${schema.properties ? "" : "Answer"} schema=${decision ? rest(schema, decision.key) : schema} value=${value} change=${setValue} required />`
      : html`<${JsonField} id=${id} label="Answer" hint="JSON; the result of the task" value=${value} change=${setValue} />`}
    ${wrong ? html`<${Refused} error=${wrong} />` : null}
    <div class="filters">${decision && !failing ? html`<button class="button ok" value="yes" disabled=${busy}>${decision.yes}</button><button class="button danger" value="no" disabled=${busy}>${decision.no}</button>` : html`<button class="button primary" disabled=${busy}>${failing ? "Fail the task" : "Answer"}</button>`}
      <button type="button" class="button plain" onClick=${() => setFailing(!failing)}>${failing ? "Answer instead" : "Fail it instead…"}</button></div>
  </form><${Later} load=${async () => (await import("./past.js")).Past} id=${execution_id} wait=${callback.wait_id} /></div>`;
}

/** `schema` without the field that the buttons set. */
const rest = (schema, key) => ({ ...schema, properties: Object.fromEntries(Object.entries(schema.properties).filter(([name]) => name !== key)) });
