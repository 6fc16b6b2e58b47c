// The frame around all pages, and the choice of the page for an address.
import { html, useEffect, useState } from "./vendor/preact.js";
import { access, get } from "./core/api.js";
import { bindings, enable, enabled, startKeys, useKeys } from "./core/keys.js";
import { dismiss, notices } from "./core/notices.js";
import { useData } from "./core/poll.js";
import { go, href, reveal, route } from "./core/router.js";
import { choose, theme } from "./core/theme.js";
import { Dialog } from "./components/dialog.js";
import { Icon } from "./components/icons.js";
import { Busy } from "./components/parts.js";
import { Executions } from "./pages/executions.js";

/** Pages by the first part of an address: words, icon and component. All but the first are loaded when they are opened. */
const PAGES = {
  executions: ["Executions", "list", async (one) => (one ? (await import("./pages/execution/page.js")).Execution : Executions)],
  inbox: ["Inbox", "inbox", async () => (await import("./pages/inbox.js")).Inbox],
  playbooks: ["Playbooks", "book", async (one) => (one ? (await import("./pages/playbook.js")).Playbook : (await import("./pages/playbooks.js")).Playbooks)],
  compare: ["Compare", "compare", async () => (await import("./pages/compare.js")).Compare],
  triggers: ["Triggers", "retry", async () => (await import("./pages/operating.js")).Triggers],
  limits: ["Limits", "stop", async () => (await import("./pages/operating.js")).Limits],
};
const PLACES = Object.entries(PAGES);
const ICON = new URL("icon.svg", import.meta.url).href;
const THEMES = { system: ["half", "light"], light: ["sun", "dark"], dark: ["moon", "system"] };

let begun = false;

export function Shell() {
  const { parts } = route.value;
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = useState(null);
  useEffect(startKeys, []);
  useKeys([
    { keys: "Ctrl+K", what: "Find anything", run: async () => setPalette({ View: (await import("./components/palette.js")).Palette }) },
    { keys: "?", what: "Show all keys", run: () => setHelp(true) },
    ...PLACES.map(([name, [words]]) => ({ keys: `g ${name[0]}`, what: `Go to ${words.toLowerCase()}`, run: () => go([name]) })),
    { keys: "/", what: "Search", run: () => document.querySelector("main input[type=search]")?.focus() },
  ]);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${skip}>To the page</a>
    <${Rail} place=${parts[0]} onHelp=${() => setHelp(true)} />
    <main id="main" tabindex="-1"><${Page} parts=${parts} /></main>
    <${Notices} />
    ${palette ? html`<${palette.View} onClose=${() => setPalette(null)} />` : null}
    ${help ? html`<${Help} onClose=${() => setHelp(false)} />` : null}
  </div>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Page({ parts }) {
  const [title, , load] = PAGES[parts[0]] ?? [];
  const [found, setFound] = useState({ key: "executions", view: Executions });
  const key = parts.length > 1 ? `${parts[0]}/one` : parts[0];
  useEffect(() => {
    let over = false;
    document.title = `${title ?? "Not there"} · NoETL`;
    load?.(parts.length > 1).then((view) => over || setFound({ key, view }));
    return () => (over = true);
  }, [key]);
  useEffect(() => {
    reveal(".rail [aria-current]");
    if (document.activeElement === document.body && begun) document.getElementById("main").focus(); // the element that had the focus is gone
    begun = true;
  }, [found.key, parts[1]]);
  if (!load) return html`<div class="page"><h1>There is no such page</h1><a href=${href(["executions"])}>Executions</a></div>`;
  if (found.key !== key) return html`<${Busy} />`;
  return html`<${found.view} parts=${parts} />`;
}

function Rail({ place, onHelp }) {
  const health = useData((signal) => get("health", {}, { signal }), [], { every: 60000 });
  const [icon, next] = THEMES[theme.value];
  const wiring = health.data?.wiring ?? {};
  return html`<nav class="rail" aria-label="Places">
    <a class="brand" aria-label="NoETL" href=${href(["executions"])}><img src=${ICON} alt="" /><span>NoETL</span></a>
    ${PLACES.map(([name, [word, sign]]) => html`<a class="place" href=${href([name])} aria-current=${place === name ? "page" : undefined}><${Icon} name=${sign} />${word}</a>`)}
    <div class="foot">
      <div class="wiring"><span class="dot ${health.error ? "off" : ""}"></span>
        <span class="anywhere">${health.error ? "no answer" : health.data ? `${wiring.stack ?? wiring.name ?? "stack"} ${health.data.version}` : "…"}</span></div>
      <div class="tools">
        <button class="button plain" aria-label=${`Theme: ${theme.value}; choose ${next}`} title=${`Theme: ${theme.value}`} onClick=${() => choose(next)}><${Icon} name=${icon} /></button>
        <button class="button plain" aria-label="Keys" title="Keys (?)" onClick=${onHelp}><${Icon} name="help" /></button>
        ${access.value ? html`<button class="button plain" aria-label="Sign out" title="Sign out" onClick=${access.value.leave}><${Icon} name="leave" /></button>` : null}
      </div>
    </div>
  </nav>`;
}

function Notices() {
  return html`<div class="notices" aria-live="polite">${notices.value.map(
    (n) => html`<div class="notice ${n.tone}" key=${n.id}><p>${n.text}</p><button class="button plain" aria-label="Close" onClick=${() => dismiss(n.id)}><${Icon} name="cross" /></button></div>`,
  )}</div>`;
}

function Help({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table><thead><tr><th scope="col">Key</th><th scope="col">Does</th></tr></thead>
      <tbody>${bindings.value.map((b) => html`<tr><td class="nowrap">${b.keys.split(" ").map((k) => html`<kbd>${k}</kbd> `)}</td><td>${b.what}</td></tr>`)}</tbody></table>
    <label class="field inline"><input type="checkbox" checked=${enabled.value} onChange=${(e) => enable(e.currentTarget.checked)} />Enable single keys</label>
  <//>`;
}
