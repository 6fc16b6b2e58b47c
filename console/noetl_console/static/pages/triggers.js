// What starts playbooks by itself: whether it is on, what it did last and does next; and what could not start.
import { html, useState } from "../vendor/preact.js";
import { get, path, post, remove } from "../core/api.js";
import { dateTime, oneLine, shortId } from "../core/format.js";
import { notify } from "../core/notices.js";
import { useData } from "../core/poll.js";
import { href } from "../core/router.js";
import { Busy, Empty, Refused, When } from "../components/parts.js";

const EVERY_MS = 10000;

export function Triggers() {
  const found = useData((signal) => get("triggers", {}, { signal }), [], { every: EVERY_MS });
  const refused = useData((signal) => get("refused", {}, { signal }), [], { every: EVERY_MS });
  const [busy, setBusy] = useState(false);
  const act = async (what, said, how = post) => {
    setBusy(true);
    try {
      notify(said(await how(what)));
    } catch (error) {
      notify(error.message, "bad");
    }
    setBusy(false);
    found.again();
    refused.again();
  };
  const fired = (done) => (done.execution_id ? `It started ${shortId(done.execution_id)}` : `${done.result}${done.reason ? `: ${done.reason}` : ""}`);
  const rows = found.data?.triggers ?? [];
  const left = refused.data?.refused ?? [];
  return html`<div class="page">
    <header class="page-head"><h1>Triggers</h1><span class="soft">what starts playbooks by itself</span></header>
    ${found.error ? html`<${Refused} error=${found.error} again=${found.again} />` : null}
    <section class="card" aria-label="List of triggers">${found.loading ? html`<${Busy} />` : !rows.length ? html`<${Empty} title="No playbook starts by itself">A playbook says in <code>executor.spec.triggers</code> what starts it.<//>` : html`<div class="scroll"><table>
      <thead><tr><th scope="col">Playbook</th><th scope="col">Trigger</th><th scope="col">When</th><th scope="col">Last</th><th scope="col">Next</th><th scope="col"><span class="unseen">What to do</span></th></tr></thead>
      <tbody>${rows.map((t) => html`<tr key=${`${t.path} ${t.name}`}><td><a href=${href(["playbooks", t.path])}><bdi>${oneLine(t.path, 80)}</bdi></a> <span class="soft">v${t.version}</span></td><td><bdi>${oneLine(t.name, 60)}</bdi>${t.enabled ? null : html` <span class="chip hold">off</span>`}${t.stopped ? html`<span class="sub tone-bad"><bdi>${oneLine(t.stopped, 160)}</bdi></span>` : null}</td>
        <td class="mono anywhere" title=${t.kind}><bdi>${oneLine(t.source.cron ? `${t.source.cron} ${t.source.timezone ?? ""}` : t.source, 100)}</bdi></td><td>${t.last ? html`<a href=${href(["executions", t.last.execution_id])}><${When} at=${t.last.scheduled_at} /></a>` : null}</td><td class="nowrap" title=${t.next_at ?? ""}>${t.next_at ? dateTime(t.next_at) : null}</td>
        <td class="right nowrap"><button class="button" disabled=${busy} onClick=${() => act(`${at(t)}/${t.enabled ? "disable" : "enable"}`, (d) => `${d.name} is ${d.enabled ? "on" : "off"}`)}>Switch ${t.enabled ? "off" : "on"}</button> <button class="button" disabled=${busy} onClick=${() => act(`${at(t)}/fire`, fired)}>Fire now</button></td></tr>`)}</tbody></table></div>`}</section>
    ${refused.error ? html`<${Refused} error=${refused.error} again=${refused.again} />` : null}
    ${left.length ? html`<section class="card" aria-label="Could not start"><header><h2>Could not start</h2></header><div class="scroll"><table><thead><tr><th scope="col">Playbook</th><th scope="col">Trigger</th><th scope="col">At</th><th scope="col">Why</th><th scope="col"><span class="unseen">What to do</span></th></tr></thead>
      <tbody>${left.map((r) => html`<tr key=${r.id}><td><bdi>${oneLine(r.path, 80)}</bdi></td><td><bdi>${oneLine(r.trigger, 60)}</bdi></td><td><${When} at=${r.at} /></td><td class="anywhere"><bdi>${oneLine(r.reason, 200)}</bdi></td><td class="right nowrap"><button class="button" disabled=${busy} onClick=${() => act(`${path("refused", r.id)}/fire`, fired)}>Try again</button> <button class="button" disabled=${busy} onClick=${() => act(path("refused", r.id), () => "Forgotten: nothing will start for it", remove)}>Forget</button></td></tr>`)}</tbody></table></div></section>` : null}
  </div>`;
}

const at = (t) => path("triggers", ...t.path.split("/"), t.name);
