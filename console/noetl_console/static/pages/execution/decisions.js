// What was decided: which arcs fired, what admission and joins did with tokens; why it came to this; and all of it taken again.
import { html, useState } from "../../vendor/preact.js";
import { get, path } from "../../core/api.js";
import { oneLine, plural, time } from "../../core/format.js";
import { put } from "../../core/router.js";
import { Refused } from "../../components/parts.js";
import { Found } from "./events.js";
import { useWhy, Why } from "./why.js";

const NAMES = "NextEvaluated,TokenParked,TokenExpired,StepSkipped,JoinClosed,FailureHandled,ExecutionFailing,ExecutionStuck,ExecutionRedriven";
const FIELDS = "event_id,timestamp,name,status,step,data";
const ROW = 27;

export function Decisions({ run }) {
  const why = useWhy(run, null);
  const filters = { name: NAMES, step: run.step ?? "" };
  const said = why.data && (why.data.causes.length || why.data.facts.length);
  return html`<div class="toolbar"><${Again} run=${run} /><span class="spring"></span>
      ${run.step ? html`<span class="tag"><span class="cut">step: ${run.step}</span></span><button class="button plain" onClick=${() => run.select("")}>every step</button>` : null}</div>
    ${why.error || said ? html`<section class="because" aria-label="Why it came to this" tabindex="0"><h3>Why it came to this</h3><${Why} found=${why} run=${run} /></section>` : null}
    <${Found} key=${JSON.stringify(filters)} run=${run} filters=${filters} fields=${FIELDS} height=${ROW} line=${Decision} label="Decisions" none="Nothing has been decided yet" />`;
}

function Decision({ event, style, run }) {
  const [tone, words] = decided(event);
  const current = event.event_id === run.moment.at;
  return html`<div class="line ${current ? "current" : ""}" style=${style} role="listitem">
    <button class="button plain number" title="Go to that moment" aria-current=${current ? "true" : undefined} onClick=${() => put({ at: event.event_id, n: "" })}>${time(event.timestamp)}</button>
    ${event.step ? html`<button class="button plain" style=${{ width: "170px", justifyContent: "flex-start" }} title="Why" onClick=${() => run.select(event.step)}><b class="cut"><bdi>${oneLine(event.step, 60)}</bdi></b></button>` : html`<span style=${{ width: "170px" }}></span>`}
    <span class="grow ${tone}"><bdi>${oneLine(words, 300)}</bdi></span><span class="soft">${event.name}</span></div>`;
}

/** How a decision looks, and what it says. */
function decided({ name, data = {} }) {
  if (name === "NextEvaluated") {
    if (data.error) return ["tone-bad", `its arcs could not be evaluated: ${data.error}`];
    if (data.selected?.length) return ["", `→ ${data.selected.map((s) => s.step).join(", ")}`];
    return data.unhandled ? ["tone-bad", `failed, and no arc took it: ${data.unhandled.message ?? data.unhandled.kind}`] : ["tone-idle", "no arc fired"];
  }
  if (name === "TokenParked") return ["tone-hold", "not admitted; its token waits for ctx to change"];
  if (name === "TokenExpired") return ["tone-idle", `its token ended: ${data.reason ?? data.code}`];
  if (name === "StepSkipped") return ["tone-idle", "not admitted, and skipped"];
  if (name === "JoinClosed") return ["tone-idle", data.fired ? "its join fired; what comes late is dropped" : "its join is over and may fire again"];
  return [/Failing|Stuck/.test(name) ? "tone-bad" : "", data.message ?? data.error?.message ?? data.reason ?? (name === "ExecutionRedriven" ? "the execution was redriven" : name)];
}

/** Every decision taken again from what the log says it was taken on. */
function Again({ run }) {
  const [state, set] = useState({ commits: 0, differences: 0, missing: 0, busy: false, over: false, error: null });
  const ask = async () => {
    const sum = { commits: 0, differences: 0, missing: 0, busy: true, over: false, error: null };
    set({ ...sum });
    try {
      for (let after = null; ; ) {
        const part = await get(`${path("executions", run.id)}/replay`, { after });
        sum.commits += part.commits;
        sum.differences += part.differences.length;
        sum.missing += part.missing.length;
        after = part.cursor;
        set({ ...sum });
        if (!after) break;
      }
      set({ ...sum, busy: false, over: true });
    } catch (error) {
      set({ ...sum, busy: false, error });
    }
  };
  return html`<button class="button" disabled=${state.busy} onClick=${ask}>Take them again</button>
    <span role="status" class=${state.differences ? "tone-bad" : "soft"}>${state.busy || state.over ? `${plural(state.commits, "commit")} decided again${state.over ? `: ${state.differences ? plural(state.differences, "difference") : "no difference"}${state.missing ? `; ${state.missing} cannot be, as results that they read are gone` : ""}` : "…"}` : ""}</span>
    ${state.error ? html`<${Refused} error=${state.error} again=${ask} />` : null}`;
}
