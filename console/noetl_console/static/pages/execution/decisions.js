// All decisions, and their repetition from the log.
import { html, useState } from "../../vendor/preact.js";
import { atRun, pages } from "../../core/api.js";
import { plural, time } from "../../core/format.js";
import { put } from "../../core/router.js";
import { bdi, Refused } from "../../components/parts.js";
import { Found, OfStep } from "./events.js";

const NAMES = "NextEvaluated,TokenParked,TokenExpired,StepSkipped,JoinClosed,FailureHandled,ExecutionFailing,ExecutionStuck,ExecutionRedriven";
const FIELDS = "event_id,timestamp,name,status,step,data";
const ROW = 27;

export function Decisions({ run }) {
  const filters = { name: NAMES, step: run.step ?? "" };
  return html`<div class="toolbar"><${Again} run=${run} /><span class="spring"></span>
      <${OfStep} run=${run} /></div>
    <${Found} key=${JSON.stringify(filters)} run=${run} filters=${filters} fields=${FIELDS} height=${ROW} line=${Decision} label="Decisions" none="Nothing has been decided yet" />`;
}

function Decision({ event, style, run }) {
  const [tone, words] = decided(event);
  const current = event.event_id === run.moment.at;
  return html`<div class="line ${current ? "current" : ""}" style=${style} role="listitem">
    <button tabindex="-1" class="button plain number" title="Go to that moment" aria-current=${current ? "true" : undefined} onClick=${() => put({ at: event.event_id, n: "" })}>${time(event.timestamp)}</button>
    ${event.step ? html`<button tabindex="-1" class="button plain name" title="Why" onClick=${() => run.select(event.step)}><b class="cut">${bdi(event.step, 60)}</b></button>` : html`<span class="name"></span>`}
    <span class="grow ${tone}">${bdi(words, 300)}</span><span class="soft">${event.name}</span></div>`;
}

/** The look of a decision, and its words. */
function decided({ name, data = {} }) {
  if (name === "NextEvaluated") {
    if (data.error) return ["tone-bad", `its arcs could not be evaluated: ${data.error}`];
    if (data.selected?.length) return ["", `→ ${data.selected.map((s) => s.step).join(", ")}`];
    return data.unhandled ? ["tone-bad", `failed, and no arc took it: ${data.unhandled.message ?? data.unhandled.kind}`] : ["tone-idle", "no arc fired"];
  }
  if (name === "TokenParked") return ["tone-hold", "not admitted; its token waits for ctx to change"];
  if (name === "TokenExpired") return ["tone-idle", `its token ended: ${data.reason ?? data.code}`];
  if (name === "StepSkipped") return ["tone-idle", "not admitted, and skipped"];
  if (name === "JoinClosed") return ["tone-idle", data.fired ? "its join fired; later tokens are dropped" : "its join is over and may fire again"];
  return [/Failing|Stuck/.test(name) ? "tone-bad" : "", data.message ?? data.error?.message ?? data.reason ?? (name === "ExecutionRedriven" ? "the execution was redriven" : name)];
}

/** Repeats every decision on the state that the log records for it. */
function Again({ run }) {
  const [state, set] = useState({ commits: 0, differences: 0, missing: 0, busy: false, over: false, error: null });
  const ask = async () => {
    const sum = { commits: 0, differences: 0, missing: 0, busy: true, over: false, error: null };
    set({ ...sum });
    try {
      for await (const part of pages(atRun(run.id, "replay"), {}, { by: "after" })) {
        sum.commits += part.commits;
        sum.differences += part.differences.length;
        sum.missing += part.missing.length;
        set({ ...sum });
      }
      set({ ...sum, busy: false, over: true });
    } catch (error) {
      set({ ...sum, busy: false, error });
    }
  };
  return html`<button class="button" disabled=${state.busy} onClick=${ask}>Decide again</button>
    <span role="status" class=${state.differences ? "tone-bad" : "soft"}>${state.busy || state.over ? `${plural(state.commits, "commit")} decided again${state.over ? `: ${state.differences ? plural(state.differences, "difference") : "no difference"}${state.missing ? `; ${state.missing} cannot be, as results that they read are gone` : ""}` : "…"}` : ""}</span>
    ${state.error ? html`<${Refused} error=${state.error} again=${ask} />` : null}`;
}
