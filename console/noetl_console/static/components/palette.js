// Ctrl+K: the command palette, which finds pages and actions by name and opens or runs them.
import { html, useState } from "../vendor/preact.js";
import { atRun } from "../core/api.js";
import { bindings } from "../core/keys.js";
import { useGet } from "../core/poll.js";
import { go, put, route } from "../core/router.js";
import { Dialog } from "./dialog.js";
import { bdi } from "./parts.js";

export function Palette({ onClose }) {
  const [q, setQ] = useState("");
  const [at, setAt] = useState(0);
  const [page, id] = route.value.parts;
  const found = useGet("executions", { q, limit: 6 });
  const steps = useGet(page === "executions" && id && atRun(id, "changes"), { limit: 0 }).data?.steps ?? {};
  const playbooks = useGet("playbooks").data?.playbooks ?? [];
  const triggers = useGet("triggers").data?.triggers ?? [];
  const named = [
    ...Object.keys(steps).map((step) => [step, "step", () => put({ step, i: "" })]),
    ...playbooks.map((p) => [p.path, "playbook", () => go(["playbooks", p.path])]),
    ...triggers.map((t) => [`${t.path} ${t.name}`, "trigger", () => go(["triggers"])]),
    ...bindings.value.map((b) => [b.what, b.keys, b.run]),
  ].filter(([name]) => name.toLowerCase().includes(q.toLowerCase()));
  const executions = (found.data?.executions ?? []).map((e) => [`${e.playbook.path} ${e.execution_id}`, e.status, () => go(["executions", e.execution_id])]);
  const rows = [...named.slice(0, 8), ...executions];
  const run = (row) => row && (onClose(), row[2]());
  const key = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && rows[at + by]) setAt(at + by);
    if (event.key === "Escape") onClose(); // a field of this type would only empty itself
  };
  return html`<${Dialog} title="Go to, or do" onClose=${onClose} send=${() => run(rows[at])}>
    <input type="search" aria-label="What" placeholder="Name, id or error…" value=${q} onInput=${(e) => (setQ(e.currentTarget.value), setAt(0))} onKeyDown=${key} role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${rows.length ? `found-${at}` : undefined} />
    <ul id="found" class="palette" role="listbox" aria-label="What">${rows.map((row, i) => html`<li id=${`found-${i}`} role="option" aria-selected=${i === at} onClick=${() => run(row)}><span class="cut grow">${bdi(row[0], 100)}</span><span class="soft">${row[1]}</span></li>`)}</ul>
  <//>`;
}
