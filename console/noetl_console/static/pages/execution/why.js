// Why a step ran or did not, and why an execution came to what it did: causes, guards with what they read, arcs, what a join lacks.
import { html, useState } from "../../vendor/preact.js";
import { get, path } from "../../core/api.js";
import { iteration, oneLine, plural, time } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { href, put } from "../../core/router.js";
import { Icon } from "../../components/icons.js";
import { Json } from "../../components/json.js";
import { Refused } from "../../components/parts.js";

const AT_ONCE = 1000; // visits of an execution that is explained without being asked: all its decisions are read for it
const DEEPEST = 6; // how far what lies behind is moved in
const SHOWN = 60;

/** Why the selected step ran or did not; where that takes long, when it is `asked`. */
export function useWhyStep(run) {
  const { step } = run;
  const now = run.steps[step];
  const [asked, ask] = useState(() => Object.values(run.steps).reduce((sum, s) => sum + s.visits, 0) <= AT_ONCE);
  return { ...useWhy(run, step, asked, [now?.status, now?.visits, now?.open, now?.tokens, now?.parked]), asked, ask };
}

/** It as a section of the inspector. */
export function WhyStep({ run, why }) {
  return html`<section aria-label="Why"><h3>Why${run.moment.at ? html` <span class="soft">as of then</span>` : null}<span class="spring"></span>${why.asked ? null : html`<button class="button plain" onClick=${() => why.ask(true)}>Explain</button>`}</h3>
    ${why.asked ? html`<${Why} found=${why} run=${run} />` : null}</section>`;
}

/** The answer of `why`, of a step or (null) of the execution, as of the moment; what is now is asked again when one of `deps` changes. */
export function useWhy(run, step, asked = true, deps = []) {
  const { at } = run.moment;
  const changing = [run.head.status, run.head.epoch, ...deps].map((each) => (at ? null : each));
  return useData((signal) => (asked ? get(`${path("executions", run.id)}/why`, { step, at }, { signal }) : Promise.resolve(null)), [run.id, step, asked, at, ...changing]);
}

export function Why({ found, run }) {
  const [all, setAll] = useState(false);
  if (found.error) return html`<${Refused} error=${found.error} again=${found.again} />`;
  if (!found.data) return html`<p class="soft" role="status">Looking…</p>`;
  const { causes, facts, more } = found.data;
  const shown = all ? facts : facts.slice(0, SHOWN);
  return html`${causes.map((c, i) => html`<${Cause} key=${i} cause=${c} root=${i === 0 && causes.length > 1} run=${run} />`)}
    ${shown.length ? html`<ol class="why">${shown.map((f, i) => html`<${Fact} key=${i} fact=${f} run=${run} />`)}</ol>` : null}
    ${shown.length < facts.length ? html`<button class="button plain" onClick=${() => setAll(true)}>${plural(facts.length - shown.length, "more", "more")}</button>` : null}
    ${more ? html`<p class="soft">${plural(more, "earlier visit is", "earlier visits are")} not shown.</p>` : null}`;
}

/** A sentence, with the arcs and guards that it is about, its place in the playbook, and the moment at which it was decided. */
function Fact({ fact, run }) {
  const arcs = fact.arcs ?? [];
  const guards = fact.guards ?? [];
  const bad = fact.fact === "failed" || fact.fact === "dead_end";
  return html`<li class=${fact.depth ? "behind" : ""} style=${{ marginLeft: `${Math.min(fact.depth, DEEPEST) * 12}px` }}>
    ${arcs.length && fact.fact !== "dead_end" ? html`<p class="soft"><${StepLink} step=${fact.step} run=${run} />: ${arcs.length > 1 ? "which of its arcs fired" : "its arc"}</p>` : html`<p class=${bad ? "tone-bad" : ""}><bdi>${oneLine(said(fact), 600)}</bdi></p>`}
    ${arcs.length ? html`<ul>${arcs.map((a) => html`<${Arc} arc=${a} run=${run} />`)}</ul>` : null}
    ${guards.length ? html`<ul>${guards.map((g) => html`<li><${Guard} guard=${g} /></li>`)}</ul>` : null}
    <p class="soft where">${fact.line ? html`<span>line ${fact.line}</span>` : null}${fact.event_id ? html`<button class="button plain" title="Go to that moment" onClick=${() => put({ at: fact.event_id, n: "" })}>${time(fact.timestamp)}</button>` : null}</p></li>`;
}

/** Its sentence, without what its arcs or guards say again. */
function said(fact) {
  const end = fact.arcs?.length || fact.guards?.length ? fact.text.indexOf(": ") : -1;
  return end > 0 ? fact.text.slice(0, end) : fact.text;
}

function Arc({ arc, run }) {
  const [tone, icon, word] = arc.fired ? ["ok", "check", "fired"] : arc.not_looked_at ? ["idle", "dash", "not looked at, as one before it fired"] : ["idle", "cross", "did not fire"];
  return html`<li><span class="tone-${tone}"><${Icon} name=${icon} /></span> to <${StepLink} step=${arc.target} run=${run} /> <span class="tone-${tone}">${word}</span>
    ${arc.guard ? html`<${Guard} guard=${arc.guard} />` : arc.fired ? html`<span class="soft">: it has no condition</span>` : null}</li>`;
}

/** A condition, whether it holds, and the values that it read. */
function Guard({ guard }) {
  const word = guard.holds === null ? "cannot be told" : guard.holds ? "is true" : "is false";
  return html`<div class="guard"><code><bdi>${oneLine(guard.when, 300)}</bdi></code> <b class=${guard.holds ? "tone-ok" : "tone-bad"}>${word}</b>
    ${guard.error ? html`<p class="tone-bad"><bdi>${oneLine(guard.error, 300)}</bdi></p>` : null}
    ${guard.reads.length ? html`<dl class="facts">${guard.reads.map((r) => html`<dt class="mono"><bdi>${oneLine(r.name, 80)}</bdi></dt><dd class="mono">${r.undefined ? html`<span class="tone-bad">undefined</span>` : html`<bdi>${oneLine(r.value, 300)}</bdi>`}${r.hint ? html` <span class="soft">(${r.hint})</span>` : null}</dd>`)}</dl>` : null}</div>`;
}

const StepLink = ({ step, run }) => (step === run.step ? html`<b><bdi>${oneLine(step, 60)}</bdi></b>` : html`<button class="button plain step" onClick=${() => run.select(step)}><bdi>${oneLine(step, 60)}</bdi></button>`);

/** An error on the way to a failure. */
function Cause({ cause, root, run }) {
  const { step, task, line, column } = cause;
  return html`<div class="failure"><div class="what"><strong>${cause.kind}</strong>${step ? html` in <${cause.execution_id ? Plain : StepLink} step=${step} run=${run} />` : null}${task ? html` / <bdi>${oneLine(task, 60)}</bdi>` : null}${cause.iteration ? ` @${iteration(cause.iteration)}` : ""}${root ? html` <span class="tag">the root</span>` : null}
    <pre class="text"><bdi>${oneLine(cause.message, 600)}</bdi></pre>
    <p class="soft">${[line ? `line ${line}${column ? `:${column}` : ""}` : "", cause.attempts > 1 ? plural(cause.attempts, "attempt") : ""].filter(Boolean).join(", ")}${cause.execution_id ? html` of <a href=${href(["executions", cause.execution_id], { step })}><bdi>${oneLine(cause.playbook ?? cause.execution_id, 80)}</bdi></a>` : null}</p>
    ${cause.details ? html`<${Json} value=${cause.details} open=${1} />` : null}
    ${cause.traceback?.length ? html`<ol class="trace mono">${cause.traceback.map((t) => html`<li><span class="soft">${t.file ? html`<bdi>${oneLine(t.file, 60)}</bdi>:` : "line "}${t.line ?? "?"}</span> <bdi>${oneLine(t.source, 200)}</bdi></li>`)}</ol>` : null}
    ${[["stdout", "its last output"], ["stderr", "its last errors"]].map(([key, words]) => (cause[key] ? html`<p class="soft">${words}</p><pre class="text"><bdi>${cause[key]}</bdi></pre>` : null))}</div></div>`;
}

const Plain = ({ step }) => html`<b><bdi>${oneLine(step, 60)}</bdi></b>`;
