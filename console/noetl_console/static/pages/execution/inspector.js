// Details of the selected step or iteration.
import { html, useState } from "../../vendor/preact.js";
import { atRun } from "../../core/api.js";
import { duration, iteration, number, plural, time } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { href, put } from "../../core/router.js";
import { Heat } from "../../components/heat.js";
import { Icon } from "../../components/icons.js";
import { Json } from "../../components/json.js";
import { bdi, Facts, pending, Refused } from "../../components/parts.js";
import { Status } from "../../components/status.js";
import { useSummary } from "./iterations.js";
import { Entries } from "./logs.js";
import { Redrive } from "./redrive.js";
import { Failure, useWhyStep, WhyStep } from "./why.js";

export function Inspector({ run }) {
  const { step, i } = run;
  const close = () => (i ? put({ i: "" }) : run.select(""));
  return html`<aside class="inspector" aria-label="Selected">
    <header>${i ? html`<button class="button plain" aria-label="Back to the step" onClick=${close}><${Icon} name="left" /></button>` : null}
      <h2 class="cut" title=${step}><bdi>${step}</bdi>${i ? html`<span class="soft"> @${i}</span>` : null}</h2>
      <button class="button plain" aria-label="Close" onClick=${() => run.select("")}><${Icon} name="cross" /></button></header>
    ${i ? html`<${Iteration} key=${`${step} ${i}`} run=${run} />` : html`<${Step} key=${step} run=${run} />`}
  </aside>`;
}

function Step({ run }) {
  const { step, steps, summary, moment, state, head } = run;
  const now = steps[step];
  const then = moment.at ? state?.steps[step] : null;
  const status = moment.at ? then?.status : now?.status;
  const found = useSummary(run, now ? step : null);
  const [redriving, setRedriving] = useState(false);
  const [logs, setLogs] = useState(false);
  const loop = now?.loop;
  const result = summary?.steps[step]?.result;
  const waits = (head.waiting_for ?? []).filter((w) => w.step === step);
  const why = useWhyStep(run);
  const caused = why.data?.causes.length; // then the causes are shown there, in more detail
  const error = !caused && head.error?.step === step ? head.error : null;
  return html`
    <section><div class="row"><${Status} value=${status} warnings=${loop?.failed} note=${moment.at ? "then" : ""} />${now ? html`<span class="soft">${plural(now.visits, "run")}${now.open ? `, ${number(now.open)} open` : ""}</span>` : html`<span class="soft">No token has come here.</span>`}</div>
      ${now && head.ended ? html`<div class="row"><button class="button" onClick=${() => setRedriving(true)}><${Icon} name="retry" />Redrive from here…</button></div>` : null}
      ${waits.length ? html`<p class="soft">Waits for ${waits.map((w) => w.kind).join(", ")}.</p>` : null}
      ${found.data ? html`<${Facts} of=${{ took: now.visits > 1 ? `${duration(found.data.runs.duration_ms.mean)} on average` : duration(found.data.runs.duration_ms.max), retries: found.data.runs.retries || found.data.iterations?.retries || "" }} />` : null}
    </section>
    ${found.error ? html`<${Refused} error=${found.error} again=${found.again} />` : null}
    ${error && !loop?.failed ? html`<section><h3>Error</h3><${Wrong} error=${error} /></section>` : null}
    ${loop ? html`<section><h3>Loop<span class="spring"></span><a href=${href(["executions", run.id, "iterations"], { step, at: moment.at })}>All iterations</a></h3>
      <p><b class="number">${number(loop.succeeded + loop.failed)}</b> of <b class="number">${number(loop.total)}</b> ended${loop.failed ? html`, <b class="tone-bad">${number(loop.failed)} failed</b>` : null}</p>
      ${found.data?.buckets ? html`<${Heat} buckets=${found.data.buckets} total=${loop.total} choose=${(n) => run.open("iterations", { step, from: n * found.data.buckets.width, of: "" })} />` : null}
      ${found.data?.iterations?.errors.length ? html`<ul class="form">${found.data.iterations.errors.map((e) => html`<li><${Failure} error=${e} where=${` × ${number(e.count)}`} more=${e.first ? html`<button class="button" onClick=${() => put({ i: iteration(e.first) })}>See ${iteration(e.first)}</button>` : null} /></li>`)}</ul>` : null}</section>` : null}
    ${found.data?.runs.errors.length && !loop?.failed && !error && !caused ? html`<section><h3>Errors</h3>${found.data.runs.errors.map((e) => html`<${Failure} error=${e} where=${` × ${number(e.count)}`} />`)}</section>` : null}
    <${WhyStep} run=${run} why=${why} />
    ${result !== undefined && result !== null && !moment.at ? html`<section><h3>Result</h3><${Box} value=${result} open=${1} /></section>` : null}
    ${now ? html`<section><h3>Logs<span class="spring"></span>${logs ? null : html`<button class="button plain" onClick=${() => setLogs(true)}>Show</button>`}</h3>${logs ? html`<${Entries} run=${run} step=${step} compact />` : null}</section>` : null}
    <section><div class="row"><a href=${href(["executions", run.id, "events"], { step, at: moment.at })}>Its events</a></div></section>
    ${redriving ? html`<${Redrive} run=${run} begin=${step} onClose=${() => setRedriving(false)} />` : null}`;
}

function Iteration({ run }) {
  const { step, i } = run;
  const found = useGet(atRun(run.id, "steps", step, "iterations", i), {}, { deps: [run.version] });
  const [redriving, setRedriving] = useState(false);
  const wait = pending(found, "Reading the iteration");
  if (wait) return wait;
  const it = found.data;
  return html`
    <section><div class="row"><${Status} value=${it.status} /><span class="soft">${duration(it.duration_ms)}${it.attempts > 1 ? `, ${it.attempts} attempts` : ""}</span></div>
      <div class="row">${run.head.ended ? html`<button class="button ${it.status === "error" ? "primary" : ""}" onClick=${() => setRedriving(true)}><${Icon} name="retry" />Redrive this one…</button>` : null}
        ${it.event_id ? html`<button class="button" onClick=${() => put({ at: it.event_id, n: "" })}>Go to that moment</button>` : null}</div></section>
    ${it.error ? html`<section><h3>Error</h3><${Wrong} error=${it.error} /></section>` : null}
    <section><h3>Item</h3><${Box} value=${it.item} open=${2} /></section>
    ${it.result !== undefined ? html`<section><h3>Result</h3><${Box} value=${it.result} open=${2} /></section>` : null}
    ${it.tasks.map((t) => html`<section><h3>${bdi(t.task, 60)}${t.attempt > 1 ? ` attempt ${t.attempt}` : ""}<${Status} value=${t.status} /><span class="spring"></span><span class="soft number">${t.started_at ? time(t.started_at) : ""} ${duration(t.duration_ms)}</span></h3>
      ${t.error && (!it.error || t.error.message !== it.error.message) ? html`<${Wrong} error=${t.error} />` : null}
      ${t.stdout ? html`<pre class="text box" tabindex="0"><bdi>${t.stdout}</bdi></pre>` : null}${t.stderr ? html`<pre class="text box tone-bad" tabindex="0"><bdi>${t.stderr}</bdi></pre>` : null}
      ${t.result !== undefined && t.result !== null ? html`<${Box} value=${t.result} open=${1} />` : null}</section>`)}
    ${redriving ? html`<${Redrive} run=${run} begin=${`${step}@${i}`} onClose=${() => setRedriving(false)} />` : null}`;
}

const Wrong = ({ error }) => html`<${Failure} error=${error} where=${html`${error.code !== undefined && error.code !== null ? ` ${error.code}` : ""}${error.task ? html` in ${bdi(error.task, 60)}` : null}`} />`;
const Box = (of) => html`<div class="box" tabindex="0"><${Json} ...${of} /></div>`;
