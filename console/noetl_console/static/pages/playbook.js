// One playbook: its text with what is wrong in it as it is written, the graph of that text, its versions, and starting it.
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { atPlaybook, get, post } from "../core/api.js";
import { oneLine, plural } from "../core/format.js";
import { notify } from "../core/notices.js";
import { useData, useGet } from "../core/poll.js";
import { go, href, put, route } from "../core/router.js";
import { Dialog } from "../components/dialog.js";
import { Editor } from "../components/editor.js";
import { Check, Choice, Field, initial, JsonField, SchemaField, schemaOf } from "../components/fields.js";
import { GraphView } from "../components/graph-view.js";
import { pending, Refused } from "../components/parts.js";
import { Trend } from "../components/trend.js";
import { Outline } from "./execution/graph.js";

const PAUSE_MS = 300;
const DRAFT = `apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: hello, path: examples/hello }
workload: { name: World }
workflow:
  - step: start
    tool: { kind: noop, result: "Hello {{ workload.name }}" }
`;

export function Playbook({ parts }) {
  const name = parts[1];
  const { query } = route.value;
  const draft = Boolean(query.draft);
  const version = Number(query.version) || undefined;
  const found = useData((signal) => (draft ? { source: DRAFT, path: "", version: 0 } : get(atPlaybook(name), { version }, { signal })), [name, version, draft], { fresh: true });
  const versions = useGet(!draft && atPlaybook(name, "versions"));
  const wait = pending(found, "Reading the playbook");
  if (wait) return html`<div class="page">${wait}</div>`;
  return html`<${Text} key=${`${name} ${found.data.digest ?? "draft"}`} playbook=${found.data} draft=${draft} versions=${versions} query=${query} />`;
}

function Text({ playbook, draft, versions, query }) {
  const [source, setSource] = useState(playbook.source);
  const checked = useChecked(source);
  const selected = query.step ?? "";
  const select = (step) => put({ step });
  const [wrong, setWrong] = useState(null);
  const edited = draft || source !== playbook.source;
  const errors = checked.diagnostics.filter((d) => d.severity === "error");
  const register = async () => {
    try {
      const done = await post("playbooks", source);
      notify(`${done.path} is registered as version ${done.version}`);
      setWrong(null);
      versions.again();
      go(["playbooks", done.path], { version: done.version });
    } catch (error) {
      setWrong(error);
    }
  };
  const list = [...(versions.data?.versions ?? [])].sort((a, b) => b.version - a.version);
  return html`<div class="page full">
    <header class="page-head">
      <h1 class="cut"><a class="soft" href=${href(["playbooks"])}>Playbooks</a> <span class="soft">/</span> <bdi>${draft ? "new" : oneLine(playbook.path, 100)}</bdi></h1>
      ${list.length ? html`<${Choice} id="version" label="Version" options=${list.map((v) => [v.version, `version ${v.version}${v === list[0] ? " (newest)" : ""}`])} value=${playbook.version} change=${(v) => put({ version: v }, { replace: false })} />` : null}
      ${edited && !draft ? html`<span class="chip wait">edited</span>` : null}<span class="spring"></span>
      <span role="status" class=${errors.length ? "tone-bad" : "soft"}>${checked.busy ? "checking…" : errors.length ? plural(errors.length, "error") : checked.diagnostics.length ? `valid, ${plural(checked.diagnostics.length, "note")}` : "valid"}</span>
      ${draft ? null : html`<a class="button" href=${href(["executions"], { path: playbook.path })}>Executions</a>`}
      <button class="button ${edited ? "primary" : ""}" disabled=${!edited || errors.length > 0} onClick=${register}>Register${draft ? "" : " as a new version"}</button>
      ${draft ? null : html`<button class="button ${edited ? "" : "primary"}" onClick=${() => put({ start: 1 })}>Start…</button>`}
    </header>
    ${wrong ? html`<${Refused} error=${wrong} />` : null}
    ${draft ? null : html`<${Trend} path=${playbook.path} />`}
    <div class="split halves">
      <section class="view" aria-label="Text"><${Editor} value=${playbook.source} label="Playbook as YAML" height="100%" onChange=${setSource} diagnostics=${checked.diagnostics} />
        ${checked.diagnostics.length ? html`<ul class="box" tabindex="0" aria-label="What was found">${checked.diagnostics.map((d) => html`<li><span class=${d.severity === "error" ? "tone-bad" : "tone-wait"}>${d.line}:${d.col} <b>${d.code}</b></span> ${d.message}${d.hint ? html` <span class="soft">(${d.hint})</span>` : null}</li>`)}</ul>` : null}</section>
      <section class="view" aria-label="Graph">${checked.graph ? html`<div class="graph"><${Outline} graph=${checked.graph} selected=${selected} select=${select} /><${GraphView} graph=${checked.graph} selected=${selected} select=${select} label="Graph of the text" /></div>` : checked.refused ? html`<${Refused} error=${checked.refused} />` : html`<p class="empty">The graph is drawn when the text is valid.</p>`}</section>
    </div>
    ${query.start ? html`<${Start} playbook=${playbook} onClose=${() => put({ start: "" })} />` : null}
  </div>`;
}

/** What the validator finds in a text, and its graph, shortly after it was last changed. The graph stays while the text is not valid. */
function useChecked(source) {
  const [state, set] = useState({ diagnostics: [], graph: null, busy: true, refused: null });
  const first = useRef(true);
  useEffect(() => {
    const abort = new AbortController();
    set((s) => ({ ...s, busy: true }));
    const timer = setTimeout(async () => {
      try {
        const { diagnostics, valid } = await post("playbooks/validate", source, { ...abort, also: [422] });
        set((s) => ({ ...s, diagnostics, busy: false }));
        const graph = valid ? await post("playbooks/graph?layout=1", source, abort) : null;
        if (graph) set((s) => ({ ...s, graph, refused: null }));
      } catch (error) {
        if (error.name !== "AbortError") set((s) => ({ ...s, busy: false, refused: error }));
      }
    }, first.current ? 0 : PAUSE_MS);
    first.current = false;
    return () => (clearTimeout(timer), abort.abort());
  }, [source]);
  return state;
}

/** The form's schema is `x-schema` of the playbook where it has one, else made of the values of its workload. */
function Start({ playbook, onClose }) {
  const workload = playbook.workload ?? {};
  const schema = useMemo(() => playbook.inputs ?? schemaOf(workload), [playbook]);
  const begin = useMemo(() => ({ ...initial(schema), ...workload }), [schema]);
  const [payload, setPayload] = useState(begin);
  const [raw, setRaw] = useState(!schema.properties || !Object.keys(schema.properties).length);
  const [key, setKey] = useState("");
  const [labels, setLabels] = useState("");
  const [wrong, setWrong] = useState(null);
  const send = async () => {
    try {
      const body = { path: playbook.path, version: playbook.version, payload: changed(payload ?? {}, workload), ...(key ? { idempotency_key: key } : {}), ...(labels.trim() ? { labels: labelled(labels) } : {}) };
      const done = await post("executions", body);
      notify(done.created ? "Started" : "That key had started this one before");
      go(["executions", done.execution_id]);
    } catch (error) {
      setWrong(error);
    }
  };
  return html`<${Dialog} title=${`Start ${oneLine(playbook.path, 80)} v${playbook.version}`} onClose=${onClose} send=${send} act="Start">
    ${raw ? html`<${JsonField} id="payload" label="Payload" hint="A JSON object, merged over the playbook's workload" value=${payload} change=${(v) => setPayload(v ?? {})} rows="10" />` : html`<${SchemaField} id="payload" name="" schema=${schema} value=${payload} change=${setPayload} />`}
    <${Check} label="As JSON" checked=${raw} change=${setRaw} />
    <${Field} id="key" label="Idempotency key" value=${key} change=${setKey} hint="The same key and payload start one execution, however often they are sent." />
    <${Field} id="labels" label="Labels" placeholder="env: test, team: orders" value=${labels} change=${setLabels} hint="By which lists find it." />
    ${wrong ? html`<${Refused} error=${wrong} />` : null}<//>`;
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
