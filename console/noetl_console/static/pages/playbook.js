// One playbook: its text with what is wrong in it as it is written, the graph of that text, its versions, and starting it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get, path, post } from "../core/api.js";
import { oneLine, plural } from "../core/format.js";
import { notify } from "../core/notices.js";
import { useData } from "../core/poll.js";
import { go, href, put, route } from "../core/router.js";
import { Editor } from "../components/editor.js";
import { GraphView } from "../components/graph-view.js";
import { Busy, Refused } from "../components/parts.js";
import { Outline } from "./execution/graph.js";
import { Start } from "./start.js";

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
  const asked = path(...name.split("/"));
  const found = useData((signal) => (draft ? Promise.resolve({ source: DRAFT, path: "", version: 0 }) : get(`playbooks/${asked}`, { version }, { signal })), [name, version, draft], { fresh: true });
  const versions = useData((signal) => (draft ? Promise.resolve({ versions: [] }) : get(`playbooks/${asked}/versions`, {}, { signal })), [name, draft]);
  if (found.error) return html`<div class="page"><${Refused} error=${found.error} again=${found.again} /></div>`;
  if (!found.data) return html`<div class="page"><${Busy} what="Reading the playbook" /></div>`;
  return html`<${Text} key=${`${name} ${found.data.digest ?? "draft"}`} playbook=${found.data} draft=${draft} versions=${versions} query=${query} />`;
}

function Text({ playbook, draft, versions, query }) {
  const [source, setSource] = useState(playbook.source);
  const checked = useChecked(source);
  const [selected, select] = useState("");
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
    <header class="page-head" style=${{ padding: "12px 16px", background: "var(--surface)", borderBottom: "1px solid var(--line)" }}>
      <h1 class="cut"><a class="soft" href=${href(["playbooks"])}>Playbooks</a> <span class="soft">/</span> <bdi>${draft ? "new" : oneLine(playbook.path, 100)}</bdi></h1>
      ${list.length ? html`<label class="unseen" for="version">Version</label><select id="version" onChange=${(e) => put({ version: e.currentTarget.value }, { replace: false })}>${list.map((v) => html`<option value=${v.version} selected=${v.version === playbook.version}>version ${v.version}${v === list[0] ? " (newest)" : ""}</option>`)}</select>` : null}
      ${edited && !draft ? html`<span class="chip wait">edited</span>` : null}<span class="spring"></span>
      <span role="status" class=${errors.length ? "tone-bad" : "soft"}>${checked.busy ? "checking…" : errors.length ? plural(errors.length, "error") : checked.diagnostics.length ? `valid, ${plural(checked.diagnostics.length, "note")}` : "valid"}</span>
      ${draft ? null : html`<a class="button" href=${href(["executions"], { path: playbook.path })}>Executions</a>`}
      <button class="button ${edited ? "primary" : ""}" disabled=${!edited || errors.length > 0} onClick=${register}>Register${draft ? "" : " as a new version"}</button>
      ${draft ? null : html`<button class="button ${edited ? "" : "primary"}" onClick=${() => put({ start: 1 })}>Start…</button>`}
    </header>
    ${wrong ? html`<div style=${{ padding: "10px 16px" }}><${Refused} error=${wrong} /></div>` : null}
    <div class="split">
      <section class="view" aria-label="Text" style=${{ flex: "1 1 50%" }}><${Editor} value=${playbook.source} label="Playbook as YAML" height="100%" onChange=${setSource} diagnostics=${checked.diagnostics} />
        ${checked.diagnostics.length ? html`<ul class="box" style=${{ maxHeight: "30%", borderRadius: 0 }} tabindex="0" aria-label="What was found">${checked.diagnostics.map((d) => html`<li><span class=${d.severity === "error" ? "tone-bad" : "tone-wait"}>${d.line}:${d.col} <b>${d.code}</b></span> ${d.message}${d.hint ? html` <span class="soft">(${d.hint})</span>` : null}</li>`)}</ul>` : null}</section>
      <section class="view" aria-label="Graph" style=${{ flex: "1 1 50%", borderLeft: "1px solid var(--line)" }}>${checked.graph ? html`<div class="graph"><${Outline} graph=${checked.graph} selected=${selected} select=${select} /><${GraphView} graph=${checked.graph} selected=${selected} select=${select} label="Graph of the text" /></div>` : checked.refused ? html`<${Refused} error=${checked.refused} />` : html`<p class="empty">The graph is drawn when the text is valid.</p>`}</section>
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
