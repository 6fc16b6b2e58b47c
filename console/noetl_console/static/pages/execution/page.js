// One execution. The address has what is selected (`step`, `i`) and the time cursor (`at`); all parts of the page stand on these.
import { html, useEffect, useMemo } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { dateTime, duration, number, oneLine, plural, shortId } from "../../core/format.js";
import { useKeys } from "../../core/keys.js";
import { useData, useGet } from "../../core/poll.js";
import { go, href, put, route } from "../../core/router.js";
import { bdi, Busy, Copy, Failure, Label, Refused, When } from "../../components/parts.js";
import { Status } from "../../components/status.js";
import { Actions, Waits } from "./actions.js";
import { Cost } from "./cost.js";
import { Ctx } from "./ctx.js";
import { Events } from "./events.js";
import { useChanges } from "./follow.js";
import { Graph } from "./graph.js";
import { Inspector } from "./inspector.js";
import { Iterations } from "./iterations.js";
import { Logs } from "./logs.js";
import { Slider, useMoment } from "./moment.js";
import { Steps } from "./steps.js";
import { Timeline } from "./timeline.js";
import { Decisions } from "./why.js";

const VIEWS = { graph: [Graph, "Graph"], timeline: [Timeline, "Timeline"], steps: [Steps, "Steps"], iterations: [Iterations, "Iterations"], events: [Events, "Events"], logs: [Logs, "Logs"], ctx: [Ctx, "Ctx"], cost: [Cost, "Cost"], decisions: [Decisions, "Decisions"] };

const WARNINGS = { error_passed: "failed, and its policy let it pass", iteration_failed: "an iteration failed", undefined: "it counted as empty" };

export function Execution({ parts }) {
  const [, id, tab = "graph"] = parts;
  const { query } = route.value;
  const changes = useChanges(id);
  const moment = useMoment(id, query.at, query.n ? Number(query.n) : undefined);
  const head = changes.head;
  const summary = useGet(atRun(id), {}, { deps: [head?.status, head?.epoch] });
  const then = useData(
    async (signal) => (moment.at ? { at: moment.at, graph: await get(atRun(id, "graph"), { at: moment.at }, { signal }) } : null),
    [id, moment.at],
  );
  const names = Object.keys(VIEWS);
  const select = (step, more = {}) => put({ step, i: "", ...more });
  const open = (view, more = {}) => go(["executions", id, view], { ...route.peek().query, ...more });
  useKeys([
    ...names.map((name, i) => ({ keys: String(i + 1), what: `Show ${VIEWS[name][1].toLowerCase()}`, run: () => open(name) })),
    { keys: "Escape", what: "Select nothing", run: () => (route.peek().query.i ? put({ i: "" }) : put({ step: "" })) },
  ]);
  useEffect(() => {
    if (head) document.title = `${head.status} ${summary.data?.playbook.path ?? ""} · NoETL`;
  }, [head?.status, summary.data]);
  // All that parts of the page stand on.
  const run = useMemo(
    () => ({ id, head, steps: changes.steps, version: changes.version, look: changes.look, summary: summary.data, moment, state: moment.at && then.data?.at === moment.at ? asOf(then.data.graph) : null, step: query.step || null, i: query.i || null, select, open }),
    [id, changes.version, summary.data, moment.at, moment.event, then.data, query.step, query.i],
  );

  if (!head) return html`<div class="page">${changes.error ? html`<${Refused} error=${changes.error} again=${changes.look} />` : html`<${Busy} what="Reading the execution" />`}</div>`;
  const [View] = VIEWS[tab] ?? VIEWS.graph;
  return html`<div class="page full execution">
    <${Head} run=${run} />
    ${changes.error ? html`<${Refused} error=${changes.error} again=${changes.look} />` : null}
    <${Stopped} run=${run} />
    <${Warned} run=${run} />
    <${Waits} run=${run} />
    <div class="bar"><nav class="tabs" aria-label="Views">${names.map((name) => html`<a href=${href(["executions", id, name], query)} aria-current=${(VIEWS[tab] ? tab : "graph") === name ? "page" : undefined}>${VIEWS[name][1]}</a>`)}</nav></div>
    <${Slider} head=${head} moment=${moment} />
    ${moment.error ? html`<${Refused} error=${moment.error} again=${moment.now} />` : null}
    <div class="split">
      <section class="view" aria-label=${(VIEWS[tab] ?? VIEWS.graph)[1]}><${View} key=${id} run=${run} /></section>
      ${run.step ? html`<${Inspector} run=${run} />` : null}
    </div>
  </div>`;
}

/** What everything was like at a moment, by the graph of then: the state with its ctx takes longer, and only one view shows it. */
function asOf(graph) {
  const reached = graph.nodes.filter((n) => n.runs || n.status || n.tokens);
  return { status: graph.status, graph, steps: Object.fromEntries(reached.map((n) => [n.step, { status: n.status, visits: n.runs, tokens: n.tokens ?? 0, loop: n.counts }])) };
}

function Head({ run }) {
  const { head, summary, id, state } = run;
  const { redrive } = head;
  const labels = Object.entries(summary?.labels ?? {});
  return html`<header class="head">
    <div class="title">
      <h1><a class="soft" href=${href(["executions"])}>Executions</a> <span class="soft">/</span> <bdi>${summary ? summary.playbook.path : id}</bdi>${summary ? html` <span class="soft">v${summary.playbook.version}</span>` : null}</h1>
      <${Status} value=${state ? state.status : head.status} note=${state ? "then" : ""} />
      ${labels.map(([k, v]) => html`<${Label} name=${k} value=${v} />`)}
    </div>
    <div class="about soft"><span class="mono">${id}</span><${Copy} text=${id} what="id" />
      <span title=${dateTime(head.started_at)}>started <${When} at=${head.started_at} /></span>
      ${redrive ? html`<span>redriven ${head.epoch === 1 ? "once" : `${head.epoch} times`}, <${When} at=${redrive.at} /></span>` : null}
      <span>${head.ended ? "took" : "for"} <span class="number">${duration((redrive ?? head).duration_ms)}</span>${redrive ? " since" : ""}</span>
      ${summary?.parent ? html`<span>part of <a class="mono" href=${href(["executions", summary.parent.execution_id])}>${shortId(summary.parent.execution_id)}</a></span>` : null}
    </div>
    <${Actions} run=${run} />
  </header>`;
}

/** What went wrong without failing it: the first warnings, each with its step. */
function Warned({ run }) {
  const found = run.summary?.warnings;
  if (!found) return null;
  const line = (w) => {
    const place = [w.step, w.task].filter(Boolean).join("/") + (w.iteration ? ` @${w.iteration.join(".")}` : "");
    return html`<li>${w.step ? html`<button class="button plain" onClick=${() => run.select(w.step)}>${bdi(place, 80)}</button> ` : null}${WARNINGS[w.code]}: ${bdi(w.message, 200)}${w.count > 1 ? html` <span class="soft">${number(w.count)} times</span>` : null}</li>`;
  };
  return html`<details class="warned"><summary class="tone-hold">${plural(found.count, "warning")}</summary><ul>${found.groups.map(line)}</ul></details>`;
}

/** What it failed of, or why it cannot go on. */
function Stopped({ run }) {
  const { head } = run;
  const error = head.status === "stuck" ? { kind: "Stuck", message: head.reason ?? "" } : head.error;
  if (!error) return null;
  const { step, task } = error;
  return html`<${Failure} error=${{ ...error, message: oneLine(error.message, 600), details: null }} where=${html`${step ? html` in step <b>${bdi(step, 80)}</b>` : null}${task ? html`, task <b>${bdi(task, 80)}</b>` : null}`} more=${step && run.step !== step ? html`<button class="button" onClick=${() => run.select(step)}>Show the step</button>` : null} />`;
}
