// Playbooks: the newest version of each.
import { html, useMemo } from "../vendor/preact.js";
import { number } from "../core/format.js";
import { useGet } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Search } from "../components/fields.js";
import { bdi, Busy, Card, Empty, Refused, Table } from "../components/parts.js";

const MOST = 500;

export function Playbooks() {
  const found = useGet("playbooks");
  const wanted = route.value.query.q ?? "";
  const rows = useMemo(() => (found.data?.playbooks ?? []).filter((p) => p.path.toLowerCase().includes(wanted.toLowerCase())), [found.data, wanted]);
  return html`<div class="page">
    <header class="page-head"><h1>Playbooks</h1><span class="spring"></span><a class="button primary" href=${href(["playbooks", "new"], { draft: 1 })}>New…</a></header>
    <div class="filters" role="search"><${Search} id="search" label="Search" placeholder="Path…" value=${wanted} onInput=${(e) => put({ q: e.currentTarget.value })} /></div>
    ${found.error ? html`<${Refused} error=${found.error} again=${found.again} />` : null}
    <${Card} label="List of playbooks">${found.loading ? html`<${Busy} />` : rows.length ? html`<${Table} heads=${["Path", ["Version", "right"], "Digest", ["Actions", "unseen"]]}>
      ${rows.slice(0, MOST).map((p) => html`<tr key=${p.path}><td><a href=${href(["playbooks", p.path])}>${bdi(p.path, 120)}</a></td><td class="right number">${number(p.version)}</td><td class="mono soft" title=${p.digest}>${p.digest.slice(0, 19)}</td>
        <td class="right nowrap"><a class="button" href=${href(["executions"], { path: p.path })}>Executions</a> <a class="button" href=${href(["playbooks", p.path], { start: 1 })}>Start…</a></td></tr>`)}<//>`
      : html`<${Empty} title=${wanted ? "None fits" : "No playbook is registered"}>Write one here, or register a file:<br /><pre>noetl register FILE --on local</pre><//>`}<//>
    ${rows.length > MOST ? html`<p class="soft">The first ${number(MOST)} of ${number(rows.length)}.</p>` : null}
  </div>`;
}
