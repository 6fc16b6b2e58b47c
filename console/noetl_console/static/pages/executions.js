// Executions: how many of which status, and the newest.
import { html, useEffect, useState } from "../vendor/preact.js";
import { get } from "../core/api.js";
import { duration, number, oneLine, shortId } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { useData } from "../core/poll.js";
import { go, href, put, route } from "../core/router.js";
import { Empty, Refused, When } from "../components/parts.js";
import { Status, tone } from "../components/status.js";

const PAGE = 50;
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
  useEffect(() => setAt(-1), [status, q, path, cursor]);
  const move = (by) => setAt((i) => Math.max(0, Math.min(rows.length - 1, i + by)));
  useKeys([
    { keys: "j", what: "Next row", run: () => move(1) },
    { keys: "k", what: "Row before", run: () => move(-1) },
    { keys: "Enter", what: "Open the row", run: () => rows[at] && go(["executions", rows[at].execution_id]) },
  ]);
  const filtered = status || q || path || since || label;

  return html`<div class="page">
    <header class="page-head"><h1>Executions</h1><span class="spring"></span><a class="button primary" href=${href(["playbooks"])}>Start…</a></header>
    <${Counts} counts=${stats.data?.counts} status=${status} />
    <${Filters} query=${query} />
    ${list.error ? html`<${Refused} error=${list.error} again=${list.again} />` : null}
    <section class="card" aria-label="List of executions"><div class="scroll">
      ${rows.length ? html`<${Rows} rows=${rows} at=${at} />` : null}
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
  const [q, setQ] = useState(query.q ?? "");
  useEffect(() => setQ(query.q ?? ""), [query.q]);
  useEffect(() => {
    if (q === (query.q ?? "")) return undefined;
    const timer = setTimeout(() => put({ q, cursor: "" }), 250);
    return () => clearTimeout(timer);
  }, [q]);
  const chosen = ["path", "label", "since"].filter((name) => query[name]);
  return html`<div class="filters" role="search">
    <label class="unseen" for="search">Search by path or id</label>
    <input id="search" type="search" placeholder="Path or id…" value=${q} onInput=${(e) => setQ(e.currentTarget.value)} />
    <label class="unseen" for="status">Status</label>
    <select id="status" value=${query.status ?? ""} onChange=${(e) => put({ status: e.currentTarget.value, cursor: "" }, { replace: false })}>
      <option value="">Every status</option>${SHOWN.filter((s) => s !== "retrying").map((s) => html`<option value=${s} selected=${s === query.status}>${s}</option>`)}
    </select>
    ${chosen.map((name) => html`<span class="tag"><span class="cut">${name}: ${query[name]}</span></span><a href=${href(["executions"], { ...query, [name]: "" })}>any ${name}</a>`)}
  </div>`;
}

function Rows({ rows, at }) {
  return html`<table>
    <thead><tr><th scope="col">Status</th><th scope="col">Playbook</th><th scope="col">Execution</th><th scope="col">Started</th><th scope="col" class="right">Took</th><th scope="col">Error</th></tr></thead>
    <tbody>${rows.map((row, i) => html`<${Row} key=${row.execution_id} row=${row} current=${i === at} />`)}</tbody>
  </table>`;
}

function Row({ row, current }) {
  const open = (event) => {
    if (!event.target.closest("a")) go(["executions", row.execution_id]);
  };
  const labels = Object.entries(row.labels ?? {});
  return html`<tr class=${current ? "current" : ""} onClick=${open}>
    <td><${Status} value=${row.status} /></td>
    <td><a href=${href(["executions", row.execution_id])}><bdi>${oneLine(row.playbook.path, 80)}</bdi></a>${" "}<span class="soft nowrap">v${row.playbook.version}</span>
      ${labels.slice(0, 3).map(([k, v]) => html` <span class="tag"><span class="cut">${k}: ${v}</span></span>`)}</td>
    <td class="mono nowrap" title=${row.execution_id}>${shortId(row.execution_id)}</td>
    <td><${When} at=${row.started_at} /></td>
    <td class="right number nowrap">${duration(row.duration_ms)}</td>
    <td class="soft anywhere">${row.error ? html`<span title=${oneLine(row.error.message, 500)}>${row.error.step ? html`<b><bdi>${oneLine(row.error.step, 40)}</bdi></b>: ` : null}<bdi>${oneLine(row.error.message, 90)}</bdi></span>` : null}</td>
  </tr>`;
}
