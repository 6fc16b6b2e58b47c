// What tasks wrote, as it comes.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { time } from "../../core/format.js";
import { bdi, Busy, Empty, Refused } from "../../components/parts.js";
import { Status } from "../../components/status.js";

const PAGE = 200;
const EVERY_MS = 1000; // while tasks run whose output can be seen

export function Logs({ run }) {
  return html`<${Entries} key=${run.step ?? ""} run=${run} step=${run.step} />`;
}

export function Entries({ run, step, compact = false }) {
  const [found, set] = useState({ logs: [], running: null, more: false, error: null, read: false });
  const cursor = useRef(null);
  const over = useRef(false);
  const busy = useRef(false);
  const ask = async () => {
    if (busy.current || over.current) return;
    busy.current = true;
    try {
      const page = await get(atRun(run.id, "logs"), { step, after: cursor.current, limit: PAGE });
      cursor.current = page.cursor ?? cursor.current;
      over.current = page.cursor === null;
      set((f) => ({ logs: [...f.logs, ...page.logs], running: page.running ?? null, more: page.more, error: null, read: true }));
    } catch (error) {
      set((f) => ({ ...f, error, read: true }));
    }
    busy.current = false;
  };
  useEffect(() => void ask(), [run.version]);
  const follows = found.running !== null && !found.more && !run.head.ended; // a stack does not say what runs: it is not asked for it
  useEffect(() => {
    if (!follows) return undefined;
    const timer = setInterval(() => document.hidden || ask(), EVERY_MS);
    return () => clearInterval(timer);
  }, [follows]);
  const running = follows ? found.running.filter((r) => r.stdout || r.stderr) : [];
  if (found.error) return html`<${Refused} error=${found.error} again=${ask} />`;
  if (!found.read) return html`<${Busy} what="Reading logs" />`;
  if (!found.logs.length && !running.length) return compact ? html`<p class="soft">Nothing was written.</p>` : html`<div class="content"><${Empty} title="No task wrote anything">${step ? html`<button class="button" onClick=${() => run.select("")}>Of every step</button>` : "Standard output and standard error of tasks stand here."}<//></div>`;
  return html`<div class=${compact ? "log" : "content log"} tabindex=${compact ? undefined : "0"}>
    ${found.logs.map((e) => html`<${Entry} key=${e.event_id} entry=${e} at=${e.timestamp} status=${e.status} id=${run.id} />`)}
    ${running.map((e) => html`<${Entry} key=${`${e.task_run_id} ${e.attempt}`} entry=${e} at=${e.started_at} status="running" id=${run.id} />`)}
    ${found.more ? html`<p class="empty"><button class="button" onClick=${ask}>More</button></p>` : null}
  </div>`;
}

function Entry({ entry: e, at, status, id }) {
  return html`<article>
    <header><span class="number soft">${time(at)}</span><b>${bdi(e.step ?? "", 60)}</b><span class="soft">/ ${bdi(e.task, 60)}</span>
      ${e.iteration !== undefined ? html`<span class="soft">@${[e.iteration].flat().join(".")}</span>` : null}${e.attempt > 1 ? html`<span class="tone-wait">attempt ${e.attempt}</span>` : null}<${Status} value=${status} /></header>
    ${e.more ? html`<p class="soft">There is more before this: <code>noetl logs ${id} --full</code></p>` : null}
    ${e.stdout ? html`<pre><bdi>${e.stdout}</bdi></pre>` : null}${e.stderr ? html`<pre class="err"><bdi>${e.stderr}</bdi></pre>` : null}</article>`;
}
