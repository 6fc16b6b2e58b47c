// Executions: how many of which status, and the newest.
import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../core/api.js";
import { duration, limitWords, number, oneLine, shortId } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { useData } from "../core/poll.js";
import { go, href, put, route } from "../core/router.js";
import { Empty, Refused, When } from "../components/parts.js";
import { Label } from "../components/label.js";
import { Status, tone } from "../components/status.js";

const PAGE = 50;
const LABELS = 3;
const EVERY_MS = 3000;
const SHOWN = ["running", "waiting", "retrying", "paused", "cancelling", "stuck", "failed", "cancelled", "completed"];
const ALWAYS = new Set(["running", "waiting", "failed", "completed"]);

export function Executions() {
  const { query } = route.value;
  const { status, q, path, since, label, cursor } = query;
  const asked = { status: status === "retrying" ? "running" : status, q, path, since, label, cursor, limit: PAGE };
  const list = useData((signal) => get("executions", asked, { signal }), [status, q, path, since, label, cursor], { every: cursor ? 0 : EVERY_MS });
  const stats = useData((signal) => get("executions/stats", { path, label }, { signal }), [path, label], { every: EVERY_MS * 2 });
  const rows = list.data?.executions ?? [];
  const [at, setAt] = useState(-1);
  const [chosen, choose] = useState(new Set());
  const [acting, setActing] = useState(null);
  const act = async (ids) => setActing({ ids, Batch: (await import("./batch.js")).Batch }); // no ids: all that fit
  useEffect(() => (setAt(-1), choose(new Set())), [status, q, path, since, label, cursor]);
  const pick = (id) => choose((before) => (before.has(id) ? new Set([...before].filter((one) => one !== id)) : new Set(before).add(id)));
  const move = (by) => setAt((i) => Math.max(0, Math.min(rows.length - 1, i + by)));
  useKeys([
    { keys: "j", what: "Next row", run: () => move(1) },
    { keys: "k", what: "Row before", run: () => move(-1) },
    { keys: "x", what: "Choose the row", run: () => rows[at] && pick(rows[at].execution_id) },
    { keys: "Enter", what: "Open the row", run: () => rows[at] && go(["executions", rows[at].execution_id]) },
  ]);
  const filtered = status || q || path || since || label;

  return html`<div class="page">
    <header class="page-head"><h1>Executions</h1><span class="spring"></span>
      ${chosen.size ? html`<button class="button" onClick=${() => act([...chosen])}>Act on ${number(chosen.size)} chosen…</button><button class="button plain" onClick=${() => choose(new Set())}>Choose none</button>` : rows.length ? html`<button class="button" onClick=${() => act(null)}>Act on all${filtered ? " that fit" : ""}…</button>` : null}
      <a class="button primary" href=${href(["playbooks"])}>Start…</a></header>
    <${Counts} counts=${stats.data?.counts} status=${status} />
    <${Filters} query=${query} />
    ${list.error ? html`<${Refused} error=${list.error} again=${list.again} />` : null}
    <section class="card" aria-label="List of executions"><div class="scroll">
      ${rows.length ? html`<${Rows} rows=${rows} at=${at} chosen=${chosen} pick=${pick} choose=${choose} />` : null}
      ${!rows.length && !list.loading && !list.error
        ? filtered
          ? html`<${Empty} title="None fits"><a href=${href(["executions"])}>Show all</a><//>`
          : html`<${Empty} title="Nothing has run yet">Start one from a <a href=${href(["playbooks"])}>playbook</a>, or with the command line:<br /><pre>noetl run examples/hello.yaml</pre><//>`
        : null}
    </div></section>
    ${cursor || list.data?.cursor
      ? html`<nav class="filters" aria-label="Pages">
        ${cursor ? html`<a class="button" href=${href(["executions"], { ...query, cursor: "" })}>Newest</a>` : null}
        ${list.data?.cursor ? html`<a class="button" href=${href(["executions"], { ...query, cursor: list.data.cursor })}>Older</a>` : null}
      </nav>`
      : null}
    ${acting ? html`<${acting.Batch} ids=${acting.ids} filters=${query} onClose=${(done) => { setActing(null); if (done) { choose(new Set()); list.again(); stats.again(); } }} />` : null}
  </div>`;
}

function Counts({ counts, status }) {
  if (!counts) return null;
  const shown = SHOWN.filter((s) => counts[s] > 0 || ALWAYS.has(s) || s === status);
  const { query } = route.value;
  const to = (s) => href(["executions"], { ...query, status: s === status ? "" : s, cursor: "" });
  return html`<nav class="counts" aria-label="By status, of the last 24 hours">${shown.map(
    (s) => html`<a key=${s} class=${counts[s] ? tone(s) : ""} href=${to(s)} aria-current=${s === status ? "true" : undefined}><b>${number(counts[s] ?? 0)}</b>${s}</a>`,
  )}</nav>`;
}

function Filters({ query }) {
  const [typed, setTyped] = useState(null); // of somebody who is typing: what the address has comes later
  const search = (q) => q !== (query.q ?? "") && put({ q, cursor: "" });
  useEffect(() => {
    if (typed === null) return undefined;
    const timer = setTimeout(() => search(typed), 250);
    return () => clearTimeout(timer);
  }, [typed]);
  const given = ["path", "label", "since"].filter((name) => query[name]);
  return html`<div class="filters" role="search">
    <label class="unseen" for="search">Search by path or id</label>
    <input id="search" type="search" placeholder="Path or id…" value=${typed ?? query.q ?? ""} onInput=${(e) => setTyped(e.currentTarget.value)} onBlur=${() => (typed !== null && search(typed), setTyped(null))} />
    <label class="unseen" for="status">Status</label>
    <select id="status" value=${query.status ?? ""} onChange=${(e) => put({ status: e.currentTarget.value, cursor: "" }, { replace: false })}>
      <option value="">Every status</option>${SHOWN.filter((s) => s !== "retrying").map((s) => html`<option value=${s} selected=${s === query.status}>${s}</option>`)}
    </select>
    <form onSubmit=${(e) => { e.preventDefault(); put({ label: e.currentTarget.elements.label.value.trim(), cursor: "" }, { replace: false }); }}><label class="unseen" for="label">Label</label>
      <input id="label" type="text" name="label" placeholder="Label, e.g. env:prod" value=${query.label ?? ""} onChange=${(e) => e.currentTarget.form.requestSubmit()} /></form>
    ${given.map((name) => html`<span class="tag"><span class="cut">${name}: ${query[name]}</span></span><a href=${href(["executions"], { ...query, [name]: "" })}>any ${name}</a>`)}
  </div>`;
}

function Rows({ rows, at, chosen, pick, choose }) {
  const all = rows.every((row) => chosen.has(row.execution_id));
  return html`<table>
    <thead><tr><th scope="col" class="pick"><input type="checkbox" aria-label="Choose all of this page" checked=${all} onChange=${() => choose(all ? new Set() : new Set(rows.map((row) => row.execution_id)))} /></th><th scope="col">Status</th><th scope="col">Playbook</th><th scope="col">Execution</th><th scope="col">Started</th><th scope="col" class="right">Took</th><th scope="col">Error</th></tr></thead>
    <tbody>${rows.map((row, i) => html`<${Row} key=${row.execution_id} row=${row} current=${i === at} chosen=${chosen.has(row.execution_id)} pick=${pick} />`)}</tbody>
  </table>`;
}

function Row({ row, current, chosen, pick }) {
  const open = (event) => {
    if (!event.target.closest("a, .pick")) go(["executions", row.execution_id]);
  };
  const labels = Object.entries(row.labels ?? {});
  return html`<tr class=${current ? "current" : ""} onClick=${open}>
    <td class="pick"><input type="checkbox" aria-label=${`Choose ${row.execution_id}`} checked=${chosen} onChange=${() => pick(row.execution_id)} /></td>
    <td><${Status} value=${row.status} /></td>
    <td><a href=${href(["executions", row.execution_id])}><bdi>${oneLine(row.playbook.path, 80)}</bdi></a>${" "}<span class="soft nowrap">v${row.playbook.version}</span>
      ${labels.slice(0, LABELS).map(([k, v]) => html` <${Label} name=${k} value=${v} />`)}${labels.length > LABELS ? html` <span class="soft" title=${labels.map(([k, v]) => `${k}: ${v}`).join(", ")}>+${labels.length - LABELS}</span>` : null}</td>
    <td class="mono nowrap" title=${row.execution_id}>${shortId(row.execution_id)}</td>
    <td><${When} at=${row.started_at} /></td>
    <td class="right number nowrap">${duration(row.duration_ms)}</td>
    <td class="soft anywhere">${row.waiting_for ? html`<span title=${row.waiting_for.map((w) => `held by ${w.held_by.join(", ")}`).join("; ")}>waits for <bdi>${oneLine(row.waiting_for.map(limitWords).join(", "), 90)}</bdi></span>` : null}${row.error ? html`<span title=${oneLine(row.error.message, 500)}>${row.error.step ? html`<b><bdi>${oneLine(row.error.step, 40)}</bdi></b>: ` : null}<bdi>${oneLine(row.error.message, 90)}</bdi></span>` : null}</td>
  </tr>`;
}
