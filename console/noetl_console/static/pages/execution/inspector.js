// What is selected: a step, or one iteration of it.
import { html, useState } from "../../vendor/preact.js";
import { get, path } from "../../core/api.js";
import { duration, iteration, number, oneLine, plural, time } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { href, put } from "../../core/router.js";
import { Heat } from "../../components/heat.js";
import { Icon } from "../../components/icons.js";
import { Json } from "../../components/json.js";
import { Busy, Facts, Refused } from "../../components/parts.js";
import { Status } from "../../components/status.js";
import { Redrive } from "./redrive.js";
import { useSummary } from "./iterations.js";
import { Entries } from "./logs.js";
import { useWhyStep, WhyStep } from "./why.js";

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
  const caused = why.data?.causes.length; // then what failed is told there, with more
  const error = !caused && head.error?.step === step ? head.error : null;
  return html`
    <section><div class="row"><${Status} value=${status} note=${moment.at ? "then" : ""} />${now ? html`<span class="soft">${plural(now.visits, "run")}${now.open ? `, ${number(now.open)} open` : ""}</span>` : html`<span class="soft">No token has come here.</span>`}</div>
      ${now && head.ended ? html`<div class="row"><button class="button" onClick=${() => setRedriving(true)}><${Icon} name="retry" />Redrive from here…</button></div>` : null}
      ${waits.length ? html`<p class="soft">Waits for ${waits.map((w) => w.kind).join(", ")}.</p>` : null}
      ${found.data ? html`<${Facts} of=${{ took: now.visits > 1 ? `${duration(found.data.runs.duration_ms.mean)} on average` : duration(found.data.runs.duration_ms.max), retries: found.data.runs.retries || found.data.iterations?.retries || "" }} />` : null}
    </section>
    ${found.error ? html`<${Refused} error=${found.error} again=${found.again} />` : null}
    ${error && !loop?.failed ? html`<section><h3>Error</h3><div class="failure"><div class="what"><strong>${error.kind}</strong>${error.task ? html` in <bdi>${error.task}</bdi>` : null}<pre class="text"><bdi>${error.message}</bdi></pre>${error.details ? html`<${Json} value=${error.details} open=${1} />` : null}</div></div></section>` : null}
    ${loop ? html`<section><h3>Loop<span class="spring"></span><a href=${href(["executions", run.id, "iterations"], { step, at: moment.at })}>All iterations</a></h3>
      <p><b class="number">${number(loop.succeeded + loop.failed)}</b> of <b class="number">${number(loop.total)}</b> ended${loop.failed ? html`, <b class="tone-bad">${number(loop.failed)} failed</b>` : null}</p>
      ${found.data?.buckets ? html`<${Heat} buckets=${found.data.buckets} total=${loop.total} choose=${(n) => run.open("iterations", { step, from: n * found.data.buckets.width, of: "" })} />` : null}
      ${found.data?.iterations?.errors.length ? html`<ul class="form">${found.data.iterations.errors.map((e) => html`<li class="failure"><div class="what"><strong>${number(e.count)} × ${e.kind}</strong><pre class="text"><bdi>${oneLine(e.message, 200)}</bdi></pre></div>
        ${e.first ? html`<button class="button" onClick=${() => put({ i: iteration(e.first) })}>See ${iteration(e.first)}</button>` : null}</li>`)}</ul>` : null}</section>` : null}
    ${found.data?.runs.errors.length && !loop?.failed && !error && !caused ? html`<section><h3>Errors</h3>${found.data.runs.errors.map((e) => html`<div class="failure"><div class="what"><strong>${number(e.count)} × ${e.kind}</strong><pre class="text"><bdi>${oneLine(e.message, 300)}</bdi></pre></div></div>`)}</section>` : null}
    <${WhyStep} run=${run} why=${why} />
    ${result !== undefined && result !== null && !moment.at ? html`<section><h3>Result</h3><div class="box" tabindex="0"><${Json} value=${result} open=${1} /></div></section>` : null}
    ${now ? html`<section><h3>Logs<span class="spring"></span>${logs ? null : html`<button class="button plain" onClick=${() => setLogs(true)}>Show</button>`}</h3>${logs ? html`<${Entries} run=${run} step=${step} compact />` : null}</section>` : null}
    <section><div class="row"><a href=${href(["executions", run.id, "events"], { step, at: moment.at })}>Its events</a></div></section>
    ${redriving ? html`<${Redrive} run=${run} begin=${step} onClose=${() => setRedriving(false)} />` : null}`;
}

function Iteration({ run }) {
  const { step, i } = run;
  const found = useData((signal) => get(path("executions", run.id, "steps", step, "iterations", i), {}, { signal }), [run.id, step, i, run.version]);
  const [redriving, setRedriving] = useState(false);
  if (found.error) return html`<${Refused} error=${found.error} again=${found.again} />`;
  if (!found.data) return html`<${Busy} what="Reading the iteration" />`;
  const it = found.data;
  return html`
    <section><div class="row"><${Status} value=${it.status} /><span class="soft">${duration(it.duration_ms)}${it.attempts > 1 ? `, ${it.attempts} attempts` : ""}</span></div>
      <div class="row">${run.head.ended ? html`<button class="button ${it.status === "error" ? "primary" : ""}" onClick=${() => setRedriving(true)}><${Icon} name="retry" />Redrive this one…</button>` : null}
        ${it.event_id ? html`<button class="button" onClick=${() => put({ at: it.event_id, n: "" })}>Go to that moment</button>` : null}</div></section>
    ${it.error ? html`<section><h3>Error</h3><${Wrong} error=${it.error} /></section>` : null}
    <section><h3>Item</h3><div class="box" tabindex="0"><${Json} value=${it.item} open=${2} /></div></section>
    ${it.result !== undefined ? html`<section><h3>Result</h3><div class="box" tabindex="0"><${Json} value=${it.result} open=${2} /></div></section>` : null}
    ${it.tasks.map((t) => html`<section><h3><bdi>${oneLine(t.task, 60)}</bdi>${t.attempt > 1 ? ` attempt ${t.attempt}` : ""}<${Status} value=${t.status} /><span class="spring"></span><span class="soft number">${t.started_at ? time(t.started_at) : ""} ${duration(t.duration_ms)}</span></h3>
      ${t.error && (!it.error || t.error.message !== it.error.message) ? html`<${Wrong} error=${t.error} />` : null}
      ${t.stdout ? html`<pre class="text box" tabindex="0"><bdi>${t.stdout}</bdi></pre>` : null}${t.stderr ? html`<pre class="text box tone-bad" tabindex="0"><bdi>${t.stderr}</bdi></pre>` : null}
      ${t.result !== undefined && t.result !== null ? html`<div class="box" tabindex="0"><${Json} value=${t.result} open=${1} /></div>` : null}</section>`)}
    ${redriving ? html`<${Redrive} run=${run} begin=${`${step}@${i}`} onClose=${() => setRedriving(false)} />` : null}`;
}

/** An error with all that it says. */
function Wrong({ error }) {
  return html`<div class="failure"><div class="what"><strong>${error.kind}</strong>${error.code !== undefined && error.code !== null ? ` ${error.code}` : ""}${error.task ? html` in <bdi>${error.task}</bdi>` : null}
    <pre class="text"><bdi>${error.message}</bdi></pre>${error.details ? html`<${Json} value=${error.details} open=${1} />` : null}</div></div>`;
}
