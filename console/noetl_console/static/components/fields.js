// Fields of forms, and a form made from a JSON Schema. Values without a known type are typed as JSON.
import { html, useState } from "../vendor/preact.js";

/** A text field under its label; each edit calls `change(text)`. */
export const Field = ({ id, label, hint, change, wide, ...rest }) =>
  html`<div class="field"><label for=${id}>${label}</label><${wide ? "textarea" : "input"} id=${id} type=${wide ? undefined : "text"} aria-describedby=${hint ? `${id}-hint` : undefined} onInput=${(e) => change(e.currentTarget.value, e.currentTarget)} ...${rest} />${note(id, hint)}</div>`;
const note = (id, hint) => (hint ? html`<span class="hint" id=${`${id}-hint`}>${hint}</span>` : null);

export const Check = ({ label, checked, change, ...rest }) => html`<label class="field inline"><input type="checkbox" checked=${checked} onChange=${(e) => change(e.currentTarget.checked)} ...${rest} /><span>${label}</span></label>`;

export const COMPENSATE = html`Then run the <code>compensate</code> tasks of finished steps`;

/** One of `options`, each `[value, words]`; its label is `seen` unless the options are clear without it. */
export const Choice = ({ id, label, seen, options, value, change, ...rest }) =>
  html`<label class=${seen ? "" : "unseen"} for=${id}>${label}</label><select id=${id} onChange=${(e) => change(e.currentTarget.value)} ...${rest}>${options.map(([each, words]) => html`<option value=${each} selected=${each === value}>${words}</option>`)}</select>`;

export const Search = ({ id, label, ...rest }) => html`<label class="unseen" for=${id}>${label}</label><input id=${id} type="search" ...${rest} />`;

/** A search that runs when the field is left, or by Enter. Typed text survives a redraw of the page. */
export function Filter({ value, change, ...rest }) {
  const [text, setText] = useState(null);
  return html`<${Search} ...${rest} value=${text ?? value} onInput=${(e) => setText(e.currentTarget.value)} onChange=${() => (change(text.trim()), setText(null))} />`;
}

/** The one type of a schema, null allowed beside it. */
function typeOf(schema) {
  const types = [schema.type].flat().filter((t) => t && t !== "null");
  if (types.length === 1) return types[0];
  return schema.properties ? "object" : "";
}

/** The initial value of a form: the schema's default, else an empty value. Optional keys are absent. */
export function initial(schema) {
  if (schema === true || !schema) return undefined;
  if ("default" in schema) return schema.default;
  if ("const" in schema) return schema.const;
  if (schema.enum) return undefined;
  const type = typeOf(schema);
  if (type === "object") {
    const found = {};
    for (const [key, each] of Object.entries(schema.properties ?? {})) {
      const value = initial(each);
      if (value !== undefined) found[key] = value;
    }
    return found;
  }
  return type === "array" ? [] : undefined;
}

/** Further fields: `(schema, type)` returns a component, or nothing (inputs.js). */
export const further = [];

/** A field for `schema`; each new value calls `change(value)`, with undefined for none. */
export function SchemaField({ name, label, schema, value, change, required = false, id = `f-${name}` }) {
  const words = schema?.title ?? label ?? name;
  const hint = schema?.description;
  const type = typeOf(schema ?? {});
  if (type === "boolean" && required) schema = { ...schema, enum: [true, false] }; // an untouched field is not a "no"
  const title = html`${words}${required ? html` <span class="soft">(needed)</span>` : null}`;
  const common = { id, label: title, hint, required, value: value ?? "" };
  const Further = further.map((of) => of(schema ?? {}, type)).find(Boolean);
  if (Further) return html`<${Further} ...${{ id, label: title, hint, schema, value, change, required }} />`;
  if (schema?.enum) {
    const options = schema.enum.map((o, i) => [i, typeof o === "string" ? o : JSON.stringify(o)]);
    return html`<div class="field"><${Choice} id=${id} label=${title} seen options=${[["", "—"], ...options]} value=${value === undefined ? "" : schema.enum.indexOf(value)} change=${(i) => change(i === "" ? undefined : schema.enum[Number(i)])} aria-describedby=${hint ? `${id}-hint` : undefined} />${note(id, hint)}</div>`;
  }
  if (type === "boolean") return html`<div class="field"><${Check} id=${id} label=${title} checked=${value === true} change=${change} aria-describedby=${hint ? `${id}-hint` : undefined} />${note(id, hint)}</div>`;
  if (type === "object" && schema.properties) {
    const needed = new Set(schema.required ?? []);
    const put = (key, each) => {
      const next = { ...(value ?? {}) };
      if (each === undefined) delete next[key];
      else next[key] = each;
      change(next);
    };
    const fields = Object.entries(schema.properties).map(([key, each]) => html`<${SchemaField} key=${key} id=${`${id}-${key}`} name=${key} schema=${each} value=${value?.[key]} required=${needed.has(key)} change=${(v) => put(key, v)} />`);
    return words ? html`<fieldset class="field group"><legend>${title}</legend>${note(id, hint)}${fields}</fieldset>` : html`<div class="form">${fields}</div>`;
  }
  if (type === "integer" || type === "number") return html`<${Field} ...${common} type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} change=${(text, { valueAsNumber }) => change(text === "" ? undefined : valueAsNumber)} />`;
  if (type === "string") return html`<${Field} ...${common} type=${schema.format ?? "text"} minlength=${schema.minLength} maxlength=${schema.maxLength} change=${(text) => change(text === "" && !required ? undefined : text)} />`;
  return html`<${JsonField} id=${id} label=${title} hint=${hint} value=${value} change=${change} />`;
}

/** A field for any JSON. */
export function JsonField({ id, label, hint, value, change, rows = 5 }) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [wrong, setWrong] = useState("");
  const typed = (event) => {
    const now = event.currentTarget.value;
    setText(now);
    if (!now.trim()) {
      setWrong("");
      return change(undefined);
    }
    try {
      change(JSON.parse(now));
      setWrong("");
    } catch (error) {
      setWrong(`Not JSON: ${error.message}`);
      change(undefined, error);
    }
    return undefined;
  };
  return html`<div class="field"><label for=${id}>${label}</label>${hint ? html`<span class="hint">${hint}</span>` : null}
    <textarea id=${id} rows=${rows} spellcheck="false" value=${text} aria-invalid=${wrong ? "true" : undefined} aria-describedby=${wrong ? `${id}-wrong` : undefined} onInput=${typed}></textarea>${wrong ? html`<span class="wrong" id=${`${id}-wrong`}>${wrong}</span>` : null}</div>`;
}
