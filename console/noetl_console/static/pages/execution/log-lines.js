// The output of tasks, as it arrives.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { parts, plain } from "../../core/ansi.js";
import { time } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { put, route } from "../../core/router.js";
import { Check, Choice, Filter } from "../../components/fields.js";
import { bdi, Empty, pending } from "../../components/parts.js";
import { Status } from "../../components/status.js";

const PAGE = 200;
const EVERY_MS = 1000; // while tasks run whose output can be seen
const SERIOUS = /warn|error|critical|fatal|exception|traceback/i;

export function Logs({ run }) {
  const { q, level } = route.value.query;
  const [follow, setFollow] = useState(false);
  const seen = useRef([]);
  const lines = (text, err) => (text && (level !== "err" || err) ? text.split("\n").filter((line) => (!q || plain(line).toLowerCase().includes(q.toLowerCase())) && (level !== "warn" || SERIOUS.test(plain(line)))).join("\n") : "");
  return html`<div class="toolbar"><${Filter} id="log-search" label="Search" placeholder="Search in lines…" value=${q} change=${(q) => put({ q })} />
      <${Choice} id="log-level" label="Lines" options=${[["", "All lines"], ["warn", "Warnings and errors"], ["err", "Standard error"]]} value=${level ?? ""} change=${(level) => put({ level })} />
      <${Check} label="Follow" checked=${follow} change=${setFollow} />
      <button class="button" onClick=${() => save(seen.current, `${run.id}.log`)}>Download</button></div>
    <${Entries} key=${run.step ?? ""} run=${run} step=${run.step} lines=${q || level ? lines : undefined} follow=${follow} seen=${seen} />`;
}

/** The lines shown, as a file without colours. */
function save(entries, name) {
  const words = entries.map((e) => `${e.at} ${e.step ?? ""}/${e.task} ${e.status}\n${[e.stdout, e.stderr].filter(Boolean).map((text) => `${plain(text).replace(/\n$/, "")}\n`).join("")}`);
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([words.join("")], { type: "text/plain" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

export function Entries({ run, step, compact = false, follow, seen, lines = (text) => text }) {
  const read = useRef({ logs: [], more: true });
  const end = useRef(null);
  const found = useData(async (signal) => {
    const { logs, cursor, over } = read.current;
    if (over) return read.current;
    const page = await get(atRun(run.id, "logs"), { step, after: cursor, limit: PAGE }, { signal });
    if (!page.logs.length && read.current.page === page) return read.current; // as before
    return (read.current = { logs: [...logs, ...page.logs], cursor: page.cursor ?? cursor, over: page.cursor === null, more: page.more, running: page.running ?? [], page });
  }, [run.version], { every: (now) => (now?.running?.length && !run.head.ended ? EVERY_MS : 0) });
  const { logs, more, running = [] } = found.data ?? read.current;
  const shown = [...logs.map((e) => [e, e.timestamp, e.status]), ...(run.head.ended ? [] : running.map((e) => [e, e.started_at, "running"]))].map(([e, at, status]) => ({ ...e, at, status, stdout: lines(e.stdout), stderr: lines(e.stderr, true) })).filter((e) => e.stdout || e.stderr);
  if (seen) seen.current = shown;
  useEffect(() => {
    if ((follow || !shown.length) && more && found.data) found.again(); // a part of a long history may have no line
    if (follow) end.current?.scrollIntoView();
  }, [follow, found.data, !shown.length]);
  const wait = pending(shown.length || !more ? found : { ...found, data: null }, "Reading logs");
  if (wait) return wait;
  if (!shown.length) return compact ? html`<p class="soft">Nothing was written.</p>` : html`<div class="content"><${Empty} title=${logs.length ? "No line fits" : "No task wrote anything"}>${step ? html`<button class="button" onClick=${() => run.select("")}>Show every step</button>` : "This page shows standard output and standard error of tasks."}<//></div>`;
  return html`<div class=${compact ? "log" : "content log"} tabindex=${compact ? undefined : "0"}>
    ${shown.map((e) => html`<${Entry} key=${e.event_id ?? `${e.task_run_id} ${e.attempt}`} entry=${e} id=${run.id} />`)}
    ${more ? html`<p class="empty"><button class="button" onClick=${found.again}>More</button></p>` : null}<i ref=${end}></i>
  </div>`;
}

function Entry({ entry: e, id }) {
  return html`<article>
    <header><span class="number soft">${time(e.at)}</span><b>${bdi(e.step ?? "", 60)}</b><span class="soft">/ ${bdi(e.task, 60)}</span>
      ${e.iteration !== undefined ? html`<span class="soft">@${[e.iteration].flat().join(".")}</span>` : null}${e.attempt > 1 ? html`<span class="tone-wait">attempt ${e.attempt}</span>` : null}<${Status} value=${e.status} /></header>
    ${e.more ? html`<p class="soft">There is more before this: <code>noetl logs ${id} --full</code></p>` : null}
    ${e.stdout ? html`<pre><${Text} of=${e.stdout} /></pre>` : null}${e.stderr ? html`<pre class="err"><${Text} of=${e.stderr} /></pre>` : null}</article>`;
}

const Text = ({ of }) => html`<bdi>${parts(of).map((p) => (p.look ? html`<span class=${p.look}>${p.text}</span>` : p.text))}</bdi>`;
