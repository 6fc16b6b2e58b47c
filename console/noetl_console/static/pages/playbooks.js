// Playbooks: the newest version of each.
import { html, useMemo, useState } from "../vendor/preact.js";
import { get } from "../core/api.js";
import { number, oneLine } from "../core/format.js";
import { useData } from "../core/poll.js";
import { href } from "../core/router.js";
import { Busy, Empty, Refused } from "../components/parts.js";

const MOST = 500;

export function Playbooks() {
  const found = useData((signal) => get("playbooks", {}, { signal }), []);
  const [wanted, setWanted] = useState("");
  const rows = useMemo(() => (found.data?.playbooks ?? []).filter((p) => p.path.toLowerCase().includes(wanted.toLowerCase())), [found.data, wanted]);
  return html`<div class="page">
    <header class="page-head"><h1>Playbooks</h1><span class="spring"></span><a class="button primary" href=${href(["playbooks", "new"], { draft: 1 })}>New…</a></header>
    <div class="filters" role="search"><label class="unseen" for="search">Search</label><input id="search" type="search" placeholder="Path…" value=${wanted} onInput=${(e) => setWanted(e.currentTarget.value)} /></div>
    ${found.error ? html`<${Refused} error=${found.error} again=${found.again} />` : null}
    <section class="card" aria-label="List of playbooks">${found.loading ? html`<${Busy} />` : rows.length ? html`<div class="scroll"><table>
      <thead><tr><th scope="col">Path</th><th scope="col" class="right">Version</th><th scope="col">Digest</th><th scope="col"><span class="unseen">What to do</span></th></tr></thead>
      <tbody>${rows.slice(0, MOST).map((p) => html`<tr key=${p.path}><td><a href=${href(["playbooks", p.path])}><bdi>${oneLine(p.path, 120)}</bdi></a></td><td class="right number">${number(p.version)}</td><td class="mono soft" title=${p.digest}>${p.digest.slice(0, 19)}</td>
        <td class="right nowrap"><a class="button" href=${href(["executions"], { path: p.path })}>Executions</a> <a class="button" href=${href(["playbooks", p.path], { start: 1 })}>Start…</a></td></tr>`)}</tbody></table></div>`
      : html`<${Empty} title=${wanted ? "None fits" : "No playbook is registered"}>Write one here, or register a file:<br /><pre>noetl register FILE --on local</pre><//>`}</section>
    ${rows.length > MOST ? html`<p class="soft">The first ${number(MOST)} of ${number(rows.length)}.</p>` : null}
  </div>`;
}
