// A form from a JSON Schema. What the schema does not say is given as JSON.
import { html, useState } from "../vendor/preact.js";

/** The one type of a schema, null allowed beside it. */
function typeOf(schema) {
  const types = [schema.type].flat().filter((t) => t && t !== "null");
  if (types.length === 1) return types[0];
  return schema.properties ? "object" : "";
}

/** What a form begins with: what the schema has as its default, else what is empty; nothing for keys that need not be given. */
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
  return type === "boolean" ? false : type === "array" ? [] : undefined;
}

/** A field for `schema`; `change(value)` is told each new value, undefined: none. */
export function SchemaField({ name, label, schema, value, change, required = false, id = `f-${name}` }) {
  const words = schema?.title ?? label ?? name;
  const hint = schema?.description;
  const type = typeOf(schema ?? {});
  const options = schema?.enum;
  const hinted = hint ? `${id}-hint` : undefined;
  const title = html`${words}${required ? html` <span class="soft">(needed)</span>` : null}`;
  const note = hint ? html`<span class="hint" id=${hinted}>${hint}</span>` : null;
  if (options) {
    const at = options.findIndex((o) => o === value);
    return html`<div class="field"><label for=${id}>${title}</label><select id=${id} aria-describedby=${hinted} onChange=${(e) => change(e.currentTarget.value === "" ? undefined : options[Number(e.currentTarget.value)])}>
      <option value="" selected=${at < 0}>—</option>${options.map((o, i) => html`<option value=${i} selected=${i === at}>${typeof o === "string" ? o : JSON.stringify(o)}</option>`)}</select>${note}</div>`;
  }
  if (type === "boolean") return html`<div class="field"><label class="field inline" for=${id}><input id=${id} type="checkbox" checked=${value === true} aria-describedby=${hinted} onChange=${(e) => change(e.currentTarget.checked)} />${title}</label>${note}</div>`;
  if (type === "object" && schema.properties) {
    const needed = new Set(schema.required ?? []);
    const put = (key, each) => {
      const next = { ...(value ?? {}) };
      if (each === undefined) delete next[key];
      else next[key] = each;
      change(next);
    };
    const fields = Object.entries(schema.properties).map(([key, each]) => html`<${SchemaField} key=${key} id=${`${id}-${key}`} name=${key} schema=${each} value=${value?.[key]} required=${needed.has(key)} change=${(v) => put(key, v)} />`);
    return words ? html`<fieldset class="field group"><legend>${title}</legend>${note}${fields}</fieldset>` : html`<div class="form">${fields}</div>`;
  }
  if (type === "integer" || type === "number") {
    return html`<div class="field"><label for=${id}>${title}</label><input id=${id} type="number" step=${type === "integer" ? 1 : "any"} min=${schema.minimum} max=${schema.maximum} value=${value ?? ""} required=${required} aria-describedby=${hinted}
      onInput=${(e) => change(e.currentTarget.value === "" ? undefined : e.currentTarget.valueAsNumber)} />${note}</div>`;
  }
  if (type === "string") {
    const long = (schema.maxLength ?? 0) > 200 || schema.format === "multiline";
    const common = { id, value: value ?? "", required, "aria-describedby": hinted, onInput: (e) => change(e.currentTarget.value === "" && !required ? undefined : e.currentTarget.value) };
    return html`<div class="field"><label for=${id}>${title}</label>${long ? html`<textarea ...${common}></textarea>` : html`<input type="text" minlength=${schema.minLength} maxlength=${schema.maxLength} ...${common} />`}${note}</div>`;
  }
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

/** A schema that fits a value: what a form of a workload is made of. */
export function schemaOf(value) {
  if (value === null || value === undefined) return {};
  if (Array.isArray(value)) return {};
  if (typeof value === "object") return { type: "object", properties: Object.fromEntries(Object.entries(value).map(([k, v]) => [k, schemaOf(v)])) };
  if (typeof value === "number") return { type: "number" };
  return { type: typeof value };
}
