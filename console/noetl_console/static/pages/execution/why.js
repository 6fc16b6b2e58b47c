// Explains why a step ran or did not (guards with the values they read, arcs, missing inputs of joins), and the outcome of an execution.
import { html, useState } from "../../vendor/preact.js";
import { atRun } from "../../core/api.js";
import { iteration, plural, time } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { href, put } from "../../core/router.js";
import { Icon } from "../../components/icons.js";
import { Json } from "../../components/json.js";
import { bdi, Refused } from "../../components/parts.js";
import { Redrive } from "./redrive.js";

const DEEPEST = 6; // levels by which earlier causes are indented
const SHOWN = 60;

/** The reasons why the selected step ran or did not. */
export function useWhyStep(run) {
  const { step } = run;
  const now = run.steps[step];
  return useWhy(run, step, [now?.status, now?.visits, now?.open, now?.tokens, now?.parked]);
}

/** The reasons as a section of the inspector. */
export function WhyStep({ run, why }) {
  return html`<section aria-label="Why"><h3>Why${run.moment.at ? html` <span class="soft">as of then</span>` : null}</h3>
    <${Why} found=${why} run=${run} /></section>`;
}

/** The answer of `why` for a step, or (null) for the execution, as of the moment. The present one is requested again when one of `deps` changes. */
export function useWhy(run, step, deps = []) {
  const { at } = run.moment;
  const changing = [run.head.status, run.head.epoch, ...deps].map((each) => (at ? null : each));
  return useGet(atRun(run.id, "why"), { step, at }, { deps: changing });
}

export function Why({ found, run }) {
  const [all, setAll] = useState(false);
  if (found.error) return html`<${Refused} error=${found.error} again=${found.again} />`;
  if (!found.data) return html`<p class="soft" role="status">Looking…</p>`;
  const { causes, facts, more, partial } = found.data;
  const shown = all ? facts : facts.slice(0, SHOWN);
  return html`${causes.map((c, i) => html`<${Cause} key=${i} cause=${c} root=${i === 0 && causes.length > 1} after=${causes[i - 1]} run=${run} />`)}
    ${shown.length ? html`<ol class="why">${shown.map((f, i) => html`<${Fact} key=${i} fact=${f} run=${run} />`)}</ol>` : null}
    ${shown.length < facts.length ? html`<button class="button plain" onClick=${() => setAll(true)}>${plural(facts.length - shown.length, "more", "more")}</button>` : null}
    ${more ? html`<p class="soft">${plural(more, "earlier visit is", "earlier visits are")} not shown.</p>` : null}
    ${partial?.unevaluated ? html`<p class="soft">${plural(partial.unevaluated, "condition is", "conditions are")} not evaluated again: their states are outside the parts of the long log that were read.</p>` : null}`;
}

/** A sentence, with the arcs and guards that it is about, its place in the playbook, and the moment at which it was decided. */
function Fact({ fact, run }) {
  const arcs = fact.arcs ?? [];
  const guards = fact.guards ?? [];
  const look = { failed: "bad", dead_end: "bad", iterations: "hold", warning: "hold", status: "hold" }[fact.fact];
  const warning = fact.fact === "warning";
  const [, text, after] = (warning && /^(.*); (the run went on, .*)$/s.exec(said(fact))) || [, said(fact)];
  return html`<li class=${warning || fact.fact === "dead_end" ? "warning" : fact.depth ? "behind" : ""} style=${{ marginLeft: `${Math.min(fact.depth, DEEPEST) * 12}px` }}>
    ${arcs.length && fact.fact !== "dead_end" ? html`<p class="soft"><${StepLink} step=${fact.step} run=${run} />: ${arcs.length > 1 ? "its arcs" : "its arc"}</p>` : html`<p class=${look ? `sentence tone-${look}` : ""}>${bdi(text, 600)}</p>`}${after ? html`<p>${after}</p>` : null}
    <${Source} of=${fact} />
    ${arcs.length ? html`<ul>${arcs.map((a) => html`<${Arc} arc=${a} run=${run} />`)}</ul>` : null}
    ${guards.length ? html`<ul>${guards.map((g) => html`<li><${Guard} guard=${g} /></li>`)}</ul>` : null}
    <p class="soft where">${fact.iteration ? html`<${Iteration} of=${fact} />` : null}${warning && fact.step ? html`<${StepLink} step=${fact.step} run=${run} />` : null}${fact.line ? html`<span>${warning ? `${run.summary?.playbook.path}, ` : ""}line ${fact.line}</span>` : null}${fact.event_id ? html`<button class="button plain" title="Go to that moment" onClick=${() => put({ at: fact.event_id, n: "" })}>${time(fact.timestamp)}</button>` : null}</p></li>`;
}

/** The sentence of a fact, without the part that its arcs or guards repeat. */
function said(fact) {
  const end = fact.arcs?.length || fact.guards?.length ? fact.text.indexOf(": ") : -1;
  return end > 0 ? fact.text.slice(0, end) : fact.text;
}

function Arc({ arc, run }) {
  const [tone, icon, word] = arc.fired ? ["ok", "check", "fired"] : arc.not_looked_at ? ["idle", "dash", "not evaluated, because one before it fired"] : ["idle", "cross", "did not fire"];
  return html`<li><span class="tone-${tone}"><${Icon} name=${icon} /></span> to <${StepLink} step=${arc.target} run=${run} /> <span class="tone-${tone}">${word}</span>
    ${arc.guard ? html`<${Guard} guard=${arc.guard} />` : arc.fired ? html`<span class="soft">: it has no condition</span>` : null}</li>`;
}

/** A condition, its result, and the values that it read. */
function Guard({ guard }) {
  const word = guard.holds === null ? "cannot be told" : guard.holds ? "is true" : "is false";
  return html`<div class="guard"><code>${bdi(guard.when, 300)}</code> <b class=${guard.holds ? "tone-ok" : "tone-bad"}>${word}</b>
    ${guard.error ? html`<p class="tone-bad">${bdi(guard.error, 300)}</p>` : null}
    ${guard.reads.length ? html`<dl class="facts">${guard.reads.map((r) => html`<dt class="mono">${bdi(r.name, 80)}</dt><dd class="mono">${r.undefined ? html`<span class="tone-bad">undefined</span>` : html`${bdi(r.value, 300)}`}${r.hint ? html` <span class="soft">(${r.hint})</span>` : null}</dd>`)}</dl>` : null}</div>`;
}

const StepLink = ({ step, run }) => (step === run.step ? html`<b>${bdi(step, 60)}</b>` : html`<button class="button plain step" onClick=${() => run.select(step)}>${bdi(step, 60)}</button>`);

/** An error of a task or a step: its sentence, then its code (`children`), all else that it says, and its kind with `where`. `more` stands beside them. */
export function Failure({ error, where, more, children }) {
  const { kind, message, details } = error;
  const [first] = message.split("\n", 1);
  const rest = message.slice(first.length > 600 ? 0 : first.length + 1);
  return html`<div class="failure"><div class="what"><p class="sentence">${bdi(first, 600)}</p>${rest ? html`<pre class="text" tabindex="0"><bdi>${rest}</bdi></pre>` : null}${children}${details ? html`<${Json} value=${read(details)} open=${2} />` : null}
    <p class="soft"><strong>${kind}</strong>${where}</p></div>${more}</div>`;
}

/** Details with a parsed JSON body, unless it has numbers that would be rounded. */
function read(details) {
  try {
    return /\d{16}/.test(details.body) ? details : { ...details, body: JSON.parse(details.body) };
  } catch {
    return details;
  }
}

/** Lines of the playbook: those of a traceback, of which the last is where it failed, or the text at a place. */
function Source({ of: { traceback, source, line } }) {
  const lines = traceback?.filter((t, n) => t.line !== traceback[n - 1]?.line || t.source !== traceback[n - 1].source) ?? source?.split("\n").map((text, n) => ({ line: line + n, source: text }));
  return lines?.length ? html`<ol class="trace mono">${lines.map((t) => html`<li class=${t.file ? "soft" : traceback && t.line === line ? "own" : ""}><span class="soft">${t.file ? html`${bdi(t.file, 60)}:` : "line "}${t.line ?? "?"}</span> <bdi>${t.source}</bdi></li>`)}</ol>` : null;
}

/** An error on the way to a failure; `after` is the one before it. */
function Cause({ cause, root, after, run }) {
  const { step, task, line, column, hint, message, details } = cause;
  const [from, redrive] = useState("");
  const own = !cause.execution_id;
  const place = [own ? run.summary?.playbook.path : "", line ? `line ${line}${column ? `:${column}` : ""}` : ""].filter(Boolean).join(", ");
  const where = html`${step ? html` in <${own ? StepLink : Plain} step=${step} run=${run} />` : null}${task ? html` / ${bdi(task, 60)}` : null}${place ? `, ${place}` : ""}${own ? null : html` of <a href=${href(["executions", cause.execution_id], { step })}>${bdi(cause.playbook ?? cause.execution_id, 80)}</a>`}${root ? html` <span class="tag">root cause</span>` : null}`;
  const acts = own && step ? html`<div class="acts">${cause.iteration ? html`<${Iteration} of=${cause} />` : null}${run.head.ended ? html`<button class="button" onClick=${() => redrive(cause.iteration ? `${step}@${iteration(cause.iteration)}` : step)}>Redrive this…</button>` : null}
    ${from ? html`<${Redrive} run=${run} begin=${from} onClose=${() => redrive("")} />` : null}</div>` : null;
  const called = after && details?.execution_id && message.endsWith(after.message);
  const [first, ...rest] = called ? [`called by step ${step}, which failed with it`] : [...(hint ? [hint] : []), ...message.split("\n")];
  const error = { ...cause, message: [cause.attempts > 1 ? `${first}, after ${plural(cause.attempts, "attempt")}` : first, ...rest].join("\n"), details: after && details?.execution_id ? null : details };
  return html`<${Failure} error=${error} where=${where} more=${acts}><${Source} of=${cause} />
    ${cause.item || cause.input ? html`<p>${cause.item ? "item" : "input"} <b class="mono">${bdi(cause.item ?? cause.input, 200)}</b>${cause.iteration ? `, iteration ${iteration(cause.iteration)}` : ""}</p>` : null}
    ${[["stdout", "its last output"], ["stderr", "its last errors"]].map(([key, words]) => (cause[key] ? html`<p class="soft">${words}</p><pre class="text" tabindex="0"><bdi>${cause[key]}</bdi></pre>` : null))}<//>`;
}

const Iteration = ({ of }) => html`<button class="button" onClick=${() => put({ step: of.step, i: iteration(of.iteration) })}>Iteration ${iteration(of.iteration)}</button>`;

const Plain = ({ step }) => html`<b>${bdi(step, 60)}</b>`;
