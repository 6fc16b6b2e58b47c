// Executions: counts by status, and a list from the newest.
import { html, useEffect, useState } from "../vendor/preact.js";
import { dateTime, duration, number, oneLine, plural, shortId, waitWords } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { get } from "../core/api.js";
import { useData, useGet } from "../core/poll.js";
import { go, href, put, route } from "../core/router.js";
import { Choice, Search } from "../components/fields.js";
import { bdi, Card, Empty, Label, Refused, Table, When } from "../components/parts.js";
import { Status, tone } from "../components/status.js";

const PAGE = 50;
const LABELS = 3;
const EVERY_MS = 3000;
const SHOWN = ["running", "waiting", "retrying", "paused", "cancelling", "stuck", "failed", "cancelled", "completed"];
const ALWAYS = new Set(["running", "waiting", "failed", "completed"]);

export function Executions() {
  const { query } = route.value;
  const { status, q, path, until, label, search, order, cursor, hours } = query;
  const since = query.since ?? (hours && new Date(Math.floor(Date.now() / 60000 - hours * 60) * 60000).toISOString());
  const [searched, setSearched] = useState(0);
  const fitting = { status, q, path, since, until, label, search };
  const ask = async (signal) => {
    if (order === "longest") return (await import("./longest.js")).longest(fitting, signal, setSearched);
    const found = { executions: [], cursor };
    for (let n = 0; ; ) {
      const page = await get("executions", { ...fitting, order, cursor: found.cursor, limit: PAGE - found.executions.length }, { signal });
      setSearched((n += page.searched));
      if (!found.executions.length && (!page.cursor || page.executions.length === PAGE)) return page;
      found.executions.push(...page.executions);
      found.cursor = page.cursor;
      if (!page.cursor || found.executions.length === PAGE) return { ...found, long: true };
    }
  };
  const list = useData(ask, [JSON.stringify({ ...query, since })], { every: (data) => (cursor || data?.long ? 0 : EVERY_MS) });
  const stats = useGet("executions/stats", { path, label, since }, { every: EVERY_MS * 2 });
  const rows = list.data?.executions ?? [];
  const [id, setId] = useState(); // id of the current row: rows move when executions start
  const at = rows.findIndex((row) => row.execution_id === id);
  const [chosen, choose] = useState(new Set());
  const [acting, setActing] = useState(null);
  const act = async (ids) => setActing({ ids, Batch: (await import("./batch.js")).Batch }); // no ids: all that fit
  useEffect(() => (setId(), choose(new Set())), [JSON.stringify(query)]);
  const pick = (id) => choose((before) => (before.has(id) ? new Set([...before].filter((one) => one !== id)) : new Set(before).add(id)));
  useEffect(() => document.querySelector("tr.current a")?.focus(), [id]);
  const move = (by) => setId(rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.execution_id);
  useKeys([
    { keys: "j", what: "Next row", run: () => move(1) },
    { keys: "k", what: "Row before", run: () => move(-1) },
    { keys: "x", what: "Choose the row", run: () => at >= 0 && pick(id) },
    { keys: "Enter", what: "Open the row", run: () => at >= 0 && go(["executions", id]) },
  ]);
  const filtered = status || q || path || since || until || label || search;

  return html`<div class="page">
    <header class="page-head"><h1>Executions</h1><span class="spring"></span>
      ${chosen.size ? html`<button class="button" onClick=${() => act([...chosen])}>Act on ${number(chosen.size)} chosen…</button>${chosen.size === 2 ? html`<a class="button" href=${href(["compare"], { a: [...chosen][0], b: [...chosen][1] })}>Compare the two</a>` : null}<button class="button plain" onClick=${() => choose(new Set())}>Choose none</button>` : rows.length ? html`<button class="button" onClick=${() => act(null)}>Act on all${filtered ? " that fit" : ""}…</button>` : null}
      <a class="button primary" href=${href(["playbooks"])}>Start…</a></header>
    <${Counts} counts=${stats.data?.counts} status=${status} />
    <${Filters} query=${query} />
    ${q || label ? html`<p class="soft" role="status">Searched ${plural(searched, "execution")}${list.loading ? " so far…" : "."}</p>` : null}
    ${list.data?.order ? html`<p class="soft">${list.data.order}</p>` : null}
    ${list.error ? html`<${Refused} error=${list.error} again=${list.again} />` : null}
    <${Card} label="List of executions" aria-busy=${list.loading}>
      ${rows.length ? html`<${Rows} rows=${rows} at=${at} chosen=${chosen} pick=${pick} choose=${choose} />` : null}
      ${!rows.length && !list.loading && !list.error
        ? filtered
          ? html`<${Empty} title="None fits"><a href=${href(["executions"])}>Show all</a><//>`
          : html`<${Empty} title="Nothing has run yet">Start one from a <a href=${href(["playbooks"])}>playbook</a>, or with the command line:<br /><pre>noetl run examples/hello.yaml</pre><//>`
        : null}
    <//>
    ${cursor || list.data?.cursor
      ? html`<nav class="filters" aria-label="Pages">
        ${cursor ? html`<a class="button" href=${href(["executions"], { ...query, cursor: "" })}>${order ? "Oldest" : "Newest"}</a>` : null}
        ${list.data?.cursor ? html`<a class="button" href=${href(["executions"], { ...query, cursor: list.data.cursor })}>${order ? "Newer" : "Older"}</a>` : null}
      </nav>`
      : null}
    ${acting ? html`<${acting.Batch} ids=${acting.ids} filters=${fitting} onClose=${(done) => { setActing(null); if (done) { choose(new Set()); list.again(); stats.again(); } }} />` : null}
  </div>`;
}

function Counts({ counts, status }) {
  if (!counts) return null;
  const shown = SHOWN.filter((s) => counts[s] > 0 || ALWAYS.has(s) || s === status);
  const { query } = route.value;
  const to = (s) => href(["executions"], { ...query, status: s === status ? "" : s, cursor: "" });
  return html`<nav class="counts" aria-label="By status, ended ones of 24 hours">${shown.map(
    (s) => html`<a key=${s} class=${counts[s] ? tone(s) : ""} href=${to(s)} aria-current=${s === status ? "true" : undefined}><b>${number(counts[s] ?? 0)}</b>${s}</a>`,
  )}</nav>`;
}

function Filters({ query }) {
  const [typed, setTyped] = useState(null); // text being typed: the address follows later
  const search = (q) => q !== (query.q ?? "") && put({ q, cursor: "" });
  useEffect(() => {
    if (typed === null) return undefined;
    const timer = setTimeout(() => search(typed), 250);
    return () => clearTimeout(timer);
  }, [typed]);
  const [More, setMore] = useState(null);
  const given = ["path", "label", "since", "until", "search"].filter((name) => query[name]);
  return html`<div class="filters" role="search">
    <${Search} id="search" label="Search" placeholder="Id, path, error, label…" value=${typed ?? query.q ?? ""} onInput=${(e) => setTyped(e.currentTarget.value)} onBlur=${() => (typed !== null && search(typed), setTyped(null))} />
    <${Choice} id="status" label="Status" options=${[["", "Every status"], ...SHOWN.map((s) => [s, s])]} value=${query.status ?? ""} change=${(status) => put({ status, cursor: "" }, { replace: false })} />
    <${Choice} id="hours" label="Started" options=${[["", "Any time"], ["1", "Last hour"], ["24", "Last 24 hours"], ["168", "Last 7 days"], ["720", "Last 30 days"]]} value=${query.hours ?? ""} change=${(hours) => put({ hours, since: "", cursor: "" }, { replace: false })} />
    <${Choice} id="order" label="Order" options=${[["", "Newest first"], ["oldest", "Oldest first"], ["longest", "Longest first"]]} value=${query.order ?? ""} change=${(order) => put({ order, cursor: "" }, { replace: false })} />
    <form onSubmit=${(e) => { e.preventDefault(); put({ label: e.currentTarget.elements.label.value.trim(), cursor: "" }, { replace: false }); }}><label class="unseen" for="label">Label</label>
      <input id="label" type="text" name="label" placeholder="Label, e.g. env:prod" value=${query.label ?? ""} onChange=${(e) => e.currentTarget.form.requestSubmit()} /></form>
    <button class="button" onClick=${async () => setMore({ View: (await import("./list-filters.js")).ListFilters })}>More…</button>
    ${More ? html`<${More.View} onClose=${() => setMore(null)} />` : null}
    ${given.map((name) => html`<span class="tag"><span class="cut">${name}: ${query[name]}</span></span><a href=${href(["executions"], { ...query, [name]: "" })}>any ${name}</a>`)}
  </div>`;
}

function Rows({ rows, at, chosen, pick, choose }) {
  const all = rows.every((row) => chosen.has(row.execution_id));
  const pickAll = html`<input type="checkbox" aria-label="Choose all of this page" checked=${all} onChange=${() => choose(all ? new Set() : new Set(rows.map((row) => row.execution_id)))} />`;
  return html`<${Table} look="rows" heads=${[[pickAll, "pick"], "Status", "Playbook", "Execution", "Started", ["Took", "right"], "Error"]}>
    ${rows.map((row, i) => html`<${Row} key=${row.execution_id} row=${row} current=${i === at} chosen=${chosen.has(row.execution_id)} pick=${pick} />`)}<//>`;
}

function Row({ row, current, chosen, pick }) {
  const open = (event) => {
    if (!event.target.closest("a, .pick")) go(["executions", row.execution_id]);
  };
  const labels = Object.entries(row.labels ?? {});
  return html`<tr class=${current ? "current" : ""} onClick=${open}>
    <td class="pick"><input type="checkbox" aria-label=${`Choose ${row.execution_id}`} checked=${chosen} onChange=${() => pick(row.execution_id)} /></td>
    <td><${Status} value=${row.status} warnings=${row.warnings} /></td>
    <td><a href=${href(["executions", row.execution_id])}>${bdi(row.playbook.path, 80)}</a>${" "}<span class="soft nowrap">v${row.playbook.version}</span>
      ${labels.slice(0, LABELS).map(([k, v]) => html` <${Label} name=${k} value=${v} />`)}${labels.length > LABELS ? html` <span class="soft" title=${labels.map(([k, v]) => `${k}: ${v}`).join(", ")}>+${labels.length - LABELS}</span>` : null}</td>
    <td class="mono nowrap" title=${row.execution_id}>${shortId(row.execution_id)}</td>
    <td><${When} at=${row.started_at} /></td>
    <td class="right number nowrap">${duration((row.redrive ?? row).duration_ms)}</td>
    <td class="soft anywhere">${row.waiting_for ? html`<span title=${row.waiting_for.map((w) => `since ${dateTime(w.since)}${w.held_by ? `, held by ${w.held_by}` : ""}`).join("; ")}>waits for ${bdi(row.waiting_for.map(waitWords).join(", "), 90)}</span>` : null}${row.error ? html`<span title=${oneLine(row.error.message, 500)}>${row.error.step ? html`<b>${bdi(row.error.step, 40)}</b>: ` : null}${bdi(row.error.message, 90)}</span>` : null}${row.warnings ? html` <span class="tone-hold nowrap">${plural(row.warnings, "warning")}</span>` : null}</td>
  </tr>`;
}
