// Further fields of forms: lists with rows, texts from files, instants, credentials by name. A form that imports this module has them.
import { html, useRef, useState } from "../vendor/preact.js";
import { useGet } from "../core/poll.js";
import { Choice, Field, further, initial, SchemaField } from "./fields.js";

const LARGEST = 1024 * 1024; // bytes of a file
const DAY = /^\d{4}-\d\d-\d\d$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;

/** A schema that fits a value: a form of a workload is made of it. */
export function schemaOf(value) {
  if (value === null || value === undefined) return {};
  if (Array.isArray(value)) {
    const kinds = new Set(value.map((each) => JSON.stringify(schemaOf(each))));
    return kinds.size === 1 ? { type: "array", items: schemaOf(value[0]) } : {};
  }
  if (typeof value === "object") return { type: "object", properties: Object.fromEntries(Object.entries(value).map(([k, v]) => [k, schemaOf(v)])) };
  if (typeof value !== "string") return { type: typeof value };
  const format = DAY.test(value) ? "date" : INSTANT.test(value) ? "date-time" : value.includes("\n") ? "multiline" : "";
  return format ? { type: "string", format } : { type: "string" };
}

/** The field of a schema beyond those of `fields.js`; nothing: it has one there. */
function fieldOf(schema, type) {
  if (type === "array" && schema.items && (schema.items.enum || schema.items.properties || ["string", "number", "integer", "boolean"].includes(schema.items.type))) return List;
  if (type !== "string" || schema.enum) return null;
  if (schema.format === "date-time") return Instant;
  if (schema.format === "credential") return Credential;
  return schema.format === "multiline" || schema.maxLength > 200 ? Long : null;
}
further.push(fieldOf);

function List({ id, label, hint, schema, value, change }) {
  const rows = Array.isArray(value) ? value : [];
  const [epoch, setEpoch] = useState(0); // another one after a row was removed: the others keep nothing of it
  const add = useRef(null);
  const { items } = schema;
  const empty = () => initial(items) ?? (items.type === "string" && !items.enum ? "" : items.type === "boolean" ? false : null);
  const remove = (at) => {
    change(rows.filter((_, i) => i !== at));
    setEpoch(epoch + 1);
    add.current.focus();
  };
  return html`<fieldset class="field group"><legend>${label}</legend>${hint ? html`<span class="hint">${hint}</span>` : null}
    ${rows.map((each, i) => html`<div class="row" key=${`${epoch} ${i}`}><${SchemaField} id=${`${id}-${i}`} name="" label=${`${i + 1}`} schema=${items.type === "boolean" ? { ...items, enum: [true, false] } : items} value=${each ?? undefined} required=${items.type === "string"} change=${(v) => change(rows.map((old, at) => (at === i ? (v ?? null) : old)))} />
      <button type="button" class="button plain" aria-label=${`Remove row ${i + 1}`} onClick=${() => remove(i)}>Remove</button></div>`)}
    <div><button type="button" class="button" ref=${add} disabled=${rows.length >= (schema.maxItems ?? Infinity)} onClick=${() => change([...rows, empty()])}>Add a row</button></div></fieldset>`;
}

function Long({ id, label, hint, schema, value, change, required }) {
  const [wrong, setWrong] = useState("");
  const take = async (event) => {
    const [file] = event.currentTarget.files;
    if (!file) return;
    if (file.size > LARGEST) return setWrong(`${file.name} has more than 1 MB: pass its location instead, such as a key in S3.`);
    setWrong("");
    change(await file.text());
  };
  return html`<${Field} id=${id} label=${label} hint=${hint} wide rows="6" value=${value ?? ""} required=${required} minlength=${schema.minLength} maxlength=${schema.maxLength} change=${(text) => change(text === "" && !required ? undefined : text)} />
    <div class="field"><label for=${`${id}-file`}>Its text from a file</label><input id=${`${id}-file`} type="file" onChange=${take} />${wrong ? html`<span class="wrong" role="alert">${wrong}</span>` : null}</div>`;
}

/** An instant, typed in the zone of the browser and sent in UTC. */
function Instant({ id, label, hint, value, change, required }) {
  const at = new Date(value ?? "");
  const local = Number.isNaN(at.getTime()) ? "" : new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
  const zone = `In your zone (${Intl.DateTimeFormat().resolvedOptions().timeZone}); sent as UTC${value ? `: ${value}` : ""}`;
  return html`<${Field} id=${id} label=${label} hint=${hint ? `${hint} ${zone}.` : zone} type="datetime-local" step="1" required=${required} value=${local} change=${(text) => change(text ? new Date(text).toISOString() : undefined)} />`;
}

/** The name of a stored credential: one of those that exist, if the caller may list them. */
function Credential({ id, label, hint, value, change, required }) {
  const found = useGet("credentials");
  const names = (found.data?.credentials ?? []).map((each) => each.name);
  const more = "The name of a credential; its values stay where they are.";
  if (!names.length) return html`<${Field} id=${id} label=${label} hint=${`${hint ?? ""} ${found.loading ? more : found.error ? `${more} You may not list them.` : "None is stored: noetl credential put."}`} value=${value ?? ""} required=${required} change=${(text) => change(text || undefined)} />`;
  const options = [...new Set([...(value ? [value] : []), ...names])].map((name) => [name, names.includes(name) ? name : `${name} (not stored)`]);
  return html`<div class="field"><${Choice} id=${id} label=${label} seen options=${[["", "—"], ...options]} value=${value ?? ""} required=${required} change=${(name) => change(name || undefined)} aria-describedby=${`${id}-hint`} /><span class="hint" id=${`${id}-hint`}>${hint ? `${hint} ` : ""}${more}</span></div>`;
}
