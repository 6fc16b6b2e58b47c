// One playbook: its text with findings while it is edited, its graph, its versions, and a form to start it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { atPlaybook, get, post } from "../core/api.js";
import { discardDraft, draftName, draftOf, draftVersions, keepDraft } from "../core/drafts.js";
import { ago, oneLine, plural } from "../core/format.js";
import { notify } from "../core/notices.js";
import { useData, useGet } from "../core/poll.js";
import { go, href, put, route } from "../core/router.js";
import { Editor } from "../components/editor.js";
import { Choice } from "../components/fields.js";
import { GraphView } from "../components/graph-view.js";
import { pending, Refused } from "../components/parts.js";
import { Trend } from "../components/trend.js";
import { Outline } from "./execution/graph.js";

const PAUSE_MS = 300;
/** Dialogs of the page by the parameter that opens them; loaded then. */
const DIALOGS = {
  start: async () => (await import("../components/start.js")).Start,
  register: async () => (await import("../components/register.js")).Register,
  tests: async () => (await import("../components/tests.js")).Tests,
};
const NEW = [ // a template of several lines would be sent without its indentation
  "apiVersion: noetl.io/v2",
  "kind: Playbook",
  "metadata: { name: hello, path: examples/hello }",
  "workload: { name: World }",
  "workflow:",
  "  - step: start",
  '    tool: { kind: noop, result: "Hello {{ workload.name }}" }',
  "",
].join("\n");

export function Playbook({ parts }) {
  const name = parts[1];
  const { query } = route.value;
  const draft = Boolean(query.draft);
  const version = Number(query.version) || undefined;
  const found = useData((signal) => (draft ? { source: NEW, path: "", version: 0 } : get(atPlaybook(name), { version }, { signal })), [name, version, draft], { fresh: true });
  const versions = useGet(!draft && atPlaybook(name, "versions"));
  const wait = pending(found, "Reading the playbook");
  if (wait) return html`<div class="page">${wait}</div>`;
  return html`<${Text} key=${`${name} ${found.data.digest ?? "draft"}`} playbook=${found.data} draft=${draft} versions=${versions} query=${query} />`;
}

function Text({ playbook, draft, versions, query }) {
  const name = draftName(playbook);
  const [kept, setKept] = useState(() => (draftOf(name)?.text === playbook.source ? null : draftOf(name)));
  const [source, setSource] = useState(kept?.text ?? playbook.source);
  const [opened, setOpened] = useState(0); // another one: the editor begins again
  const [lost, setLost] = useState(false);
  const [help, setHelp] = useState("");
  const checked = useChecked(source);
  const selected = query.step ?? "";
  const select = (step) => put({ step });
  const edited = source !== playbook.source;
  const errors = checked.diagnostics.filter((d) => d.severity === "error");
  const ready = !checked.busy && !errors.length && checked.about?.path;
  const write = (text) => {
    setSource(text);
    if (text === playbook.source) discardDraft(name);
    else setLost(!keepDraft(name, text));
  };
  const discard = () => {
    discardDraft(name);
    setKept(null);
    setLost(false);
    setSource(playbook.source);
    setOpened(opened + 1);
  };
  const registered = (done) => {
    discardDraft(name);
    versions.again();
    notify(`${done.path} is registered as version ${done.version}`);
    go(["playbooks", done.path], { version: done.version });
  };
  const list = [...(versions.data?.versions ?? [])].sort((a, b) => b.version - a.version);
  const text = { ...checked.about, source };
  const close = () => put({ start: "", register: "", tests: "" });
  const dialogs = { start: { playbook: query.start === "text" ? text : playbook, inline: query.start === "text", registered: () => discardDraft(name), onClose: close }, register: { ...text, done: registered, onClose: close }, tests: { path: playbook.path, source, onClose: close } };
  const which = Object.keys(DIALOGS).find((each) => query[each]);
  const shown = which && (ready || which === "tests" || query.start === "1") ? which : "";
  return html`<div class="page full">
    <header class="page-head">
      <h1 class="cut"><a class="soft" href=${href(["playbooks"])}>Playbooks</a> <span class="soft">/</span> <bdi>${draft ? "new" : oneLine(playbook.path, 100)}</bdi></h1>
      ${list.length ? html`<${Choice} id="version" label="Version" options=${list.map((v) => [v.version, `version ${v.version}${v === list[0] ? " (newest)" : ""}`])} value=${playbook.version} change=${(v) => put({ version: v }, { replace: false })} />` : null}
      ${edited && !draft ? html`<span class="chip wait">edited</span>` : null}<span class="spring"></span>
      <span role="status" class=${errors.length ? "tone-bad" : "soft"}>${checked.busy ? "checking…" : errors.length ? plural(errors.length, "error") : checked.diagnostics.length ? `valid, ${plural(checked.diagnostics.length, "note")}` : "valid"}</span>
      ${draft ? null : html`<a class="button" href=${href(["executions"], { path: playbook.path })}>Executions</a><button class="button" onClick=${() => put({ tests: 1 })}>Tests…</button>`}
      ${edited || draft ? html`<button class="button" disabled=${!ready} onClick=${() => put({ start: "text" })}>Start this text…</button>` : null}
      <button class="button ${edited || draft ? "primary" : ""}" disabled=${!(edited || draft) || !ready} onClick=${() => put({ register: 1 })}>Register…</button>
      ${draft ? null : html`<button class="button ${edited ? "" : "primary"}" onClick=${() => put({ start: 1 })}>Start${edited ? ` version ${playbook.version}` : ""}…</button>`}
    </header>
    ${kept && edited ? html`<p class="banner" role="status"><span>This is your draft of <time datetime=${kept.at}>${ago(kept.at)}</time>, not the registered text.</span> <button class="button" onClick=${discard}>Discard the draft</button></p>` : null}
    ${draft ? null : draftVersions(playbook.path).filter((each) => each !== playbook.version && list.some((v) => v.version === each)).map((each) => html`<p class="banner">There is a draft of version ${each}. <a href=${href(["playbooks", playbook.path], { version: each })}>Open it</a></p>`)}
    ${lost && edited ? html`<p class="banner" role="alert">This browser cannot keep the draft: it will be lost when you leave the page.</p>` : null}
    ${checked.about === true && (edited || draft) ? html`<p class="banner">This stack is older than this console: its check does not name the playbook of a text. Register it with <code>noetl register FILE</code>.</p>` : null}
    ${draft ? null : html`<${Trend} path=${playbook.path} />`}
    <div class="split halves">
      <section class="view" aria-label="Text"><${Editor} key=${opened} value=${source} label="Playbook as YAML" height="100%" onChange=${write} onHelp=${setHelp} diagnostics=${checked.diagnostics} />
        <p class="help soft">${help || "Ctrl+Space completes; a key is explained here. Esc and Tab leave the text."}</p>
        ${checked.diagnostics.length ? html`<ul class="box" tabindex="0" aria-label="Findings">${checked.diagnostics.map((d) => html`<li><span class=${d.severity === "error" ? "tone-bad" : "tone-wait"}>${d.line}:${d.col} <b>${d.code}</b></span> ${d.message}${d.hint ? html` <span class="soft">(${d.hint})</span>` : null}</li>`)}</ul>` : null}</section>
      <section class="view" aria-label="Graph">${checked.graph ? html`<div class="graph"><${Outline} graph=${checked.graph} selected=${selected} select=${select} /><${GraphView} graph=${checked.graph} selected=${selected} select=${select} label="Graph of the text" /></div>` : checked.refused ? html`<${Refused} error=${checked.refused} />` : html`<p class="empty">The graph is drawn when the text is valid.</p>`}</section>
    </div>
    ${shown ? html`<${Loaded} key=${shown} load=${DIALOGS[shown]} ...${dialogs[shown]} />` : null}
  </div>`;
}

/** A dialog whose module is loaded when it is opened. */
function Loaded({ load, ...given }) {
  const [found, setFound] = useState(null);
  useEffect(() => void load().then((View) => setFound({ View })), []);
  return found ? html`<${found.View} ...${given} />` : null;
}

/** The validator's findings in a text, its path and inputs (`about`; true: an older stack does not return them), and its graph, shortly after the last change. The graph stays while the text is not valid. */
function useChecked(source) {
  const [state, set] = useState({ diagnostics: [], graph: null, about: null, busy: true, refused: null });
  const first = useRef(true);
  useEffect(() => {
    const abort = new AbortController();
    set((s) => ({ ...s, busy: true }));
    const timer = setTimeout(async () => {
      try {
        const { diagnostics, valid, playbook: about = valid || null } = await post("playbooks/validate", source, { signal: abort.signal, also: [422] });
        set((s) => ({ ...s, diagnostics, about, busy: false }));
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
