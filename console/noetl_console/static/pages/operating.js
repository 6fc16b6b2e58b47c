// Triggers and limits.
import { html, useState } from "../vendor/preact.js";
import { path, post, remove } from "../core/api.js";
import { dateTime, duration, number, shortId } from "../core/format.js";
import { notify } from "../core/notices.js";
import { useGet } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Later } from "../components/later.js";
import { bdi, Busy, Card, Empty, Refused, Table, When } from "../components/parts.js";

const TRIGGERS_MS = 10000;
const LIMITS_MS = 4000;

/** Triggers: enabled or not, the last and the next firing; and starts that were refused. */
export function Triggers() {
  const found = useGet("triggers", {}, { every: TRIGGERS_MS });
  const refused = useGet("refused", {}, { every: TRIGGERS_MS });
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
  const opened = rows.find((t) => keyOf(t) === route.value.query.open);
  return html`<div class="page">
    <header class="page-head"><h1>Triggers</h1><span class="soft">list, enable, disable and fire triggers</span></header>
    ${[found, refused].map((f) => (f.error ? html`<${Refused} error=${f.error} again=${f.again} />` : null))}
    <${Card} label="List of triggers">${found.loading ? html`<${Busy} />` : !rows.length ? html`<${Empty} title="No playbook has a trigger">Triggers are declared in <code>executor.spec.triggers</code> of a playbook.<//>` : html`<${Table} look="stack fires" heads=${["Playbook", "Trigger", "When", "Last", "Next", ["Actions", "unseen"]]}>
      ${rows.map((t) => html`<tr key=${`${t.path} ${t.name}`}><td><a href=${href(["playbooks", t.path])}>${bdi(t.path, 80)}</a> <span class="soft">v${t.version}</span></td><td><button class="button plain" aria-expanded=${t === opened} onClick=${() => put({ open: t === opened ? "" : keyOf(t) })}>${bdi(t.name, 60)}</button>${t.enabled ? null : html` <span class="chip hold">disabled</span>`}${t.stopped || t.unreached ? html`<span class="sub tone-bad">${bdi(t.stopped || t.unreached, 200)}</span>` : null}</td>
        <td class="mono anywhere" title=${t.kind}>${bdi(t.source.cron ? `${t.source.cron} ${t.source.timezone ?? "UTC"}` : t.source, 100)}</td><td>${t.last ? html`<a href=${href(["executions", t.last.execution_id])}><${When} at=${t.last.scheduled_at} /></a>` : null}</td><td class="nowrap" title=${t.next_at ?? ""}>${t.next_at ? dateTime(t.next_at) : null}</td>
        <td class="right nowrap"><${Act} busy=${busy} act=${() => act(`${at(t)}/${t.enabled ? "disable" : "enable"}`, (d) => `${d.name} is ${d.enabled ? "enabled" : "disabled"}`)} words=${t.enabled ? "Disable" : "Enable"} /> <${Act} busy=${busy} act=${() => act(`${at(t)}/fire`, fired)} words="Fire now" /></td></tr>`)}<//>`}<//>
    ${opened ? html`<${Later} key=${keyOf(opened)} load=${async () => (await import("./schedule.js")).Schedule} of=${opened} at=${at(opened)} />` : null}
    ${left.length ? html`<${Card} title="Could not start"><${Table} look="stack" heads=${["Playbook", "Trigger", "At", "Why", ["Actions", "unseen"]]}>
      ${left.map((r) => html`<tr key=${r.id}><td>${bdi(r.path, 80)}</td><td>${bdi(r.trigger, 60)}</td><td><${When} at=${r.at} /></td><td class="anywhere">${bdi(r.reason, 200)}</td>
        <td class="right nowrap"><${Act} busy=${busy} act=${() => act(`${path("refused", r.id)}/fire`, fired)} words="Try again" /> <${Act} busy=${busy} act=${() => act(path("refused", r.id), () => "Forgotten: nothing will start for it", remove)} words="Forget" /></td></tr>`)}<//><//>` : null}
  </div>`;
}

const Act = ({ busy, act, words }) => html`<button class="button" disabled=${busy} onClick=${act}>${words}</button>`;
const keyOf = (t) => `${t.path}/${t.name}`;
const at = (t) => path("triggers", ...t.path.split("/"), t.name);

/** Limits that executions share, with their holders and waiters; rates, with their reservations. */
export function Limits() {
  const { key } = route.value.query;
  const found = useGet("limits", {}, { every: LIMITS_MS });
  const one = useGet(key && "limits", { key }, { every: key ? LIMITS_MS : 0 });
  const { limits = [], rates = [] } = found.data ?? {};
  const shown = key ? one.data?.limits[0] : null;
  return html`<div class="page">
    <header class="page-head"><h1>Limits</h1><span class="soft">concurrency and rates that executions share</span></header>
    ${[found, one].map((f) => (f.error ? html`<${Refused} error=${f.error} again=${f.again} />` : null))}
    <${Card} label="Places">${found.loading ? html`<${Busy} />` : !limits.length && !rates.length ? html`<${Empty} title="No limit is in use">Limits are declared by <code>spec.policy.concurrency</code> and <code>rate</code>.<//>` : html`<${Table} heads=${["Limit", ["Held", "right"], ["At most", "right"], "Waiting"]}>
      ${limits.map((l) => html`<tr key=${l.key}><td><button class="button plain" aria-pressed=${l.key === key} onClick=${() => put({ key: l.key === key ? "" : l.key })}>${bdi(l.key, 100)}</button></td><td class="right number">${number(l.held)}</td><td class="right number">${number(l.max)}</td><td>${l.waiting ? html`<span class="chip wait">some wait</span>` : "none"}</td></tr>`)}<//>`}<//>
    ${shown ? html`<${Places} of=${shown} />` : null}
    ${rates.length ? html`<${Card} title="Rates"><${Table} heads=${["Rate", ["A second", "right"], ["Reserved ahead", "right"]]}>
      ${rates.map((r) => html`<tr key=${r.key}><td>${bdi(r.key, 100)}</td><td class="right number">${r.per_second}</td><td class="right number">${r.behind_s ? duration(r.behind_s * 1000) : "nothing"}</td></tr>`)}<//><//>` : null}
  </div>`;
}

/** The holders of a limit's places, the oldest first, and the waiters. */
function Places({ of }) {
  const rows = [...(of.holders ?? []).map((h) => ["holds", h]), ...(of.waiters ?? []).map((w) => ["waits", w])];
  return html`<${Card} title=${bdi(of.key, 100)} label="Who"><${Table} heads=${["Does", "Execution", "Since"]}>
    ${rows.map(([word, h]) => html`<tr key=${h.holder}><td><span class="chip ${word === "waits" ? "wait" : "run"}">${word}</span>${h.displaced_by ? html` <span class="soft">displaced by <a class="mono" href=${href(["executions", h.displaced_by])}>${h.displaced_by}</a></span>` : null}</td><td class="mono"><a href=${href(["executions", h.execution_id])}>${h.execution_id}</a></td><td><${When} at=${h.since} /></td></tr>`)}<//>
    ${of.more ? html`<p class="soft inside">More wait than are shown.</p>` : null}<//>`;
}
