// One execution. The address has what is selected (`step`, `i`) and the time cursor (`at`); all parts of the page stand on these.
import { html, useEffect, useMemo } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { dateTime, duration, shortId, waitWords } from "../../core/format.js";
import { useKeys } from "../../core/keys.js";
import { useData, useGet } from "../../core/poll.js";
import { go, href, put, route } from "../../core/router.js";
import { bdi, Busy, Copy, Label, Refused, When } from "../../components/parts.js";
import { Status } from "../../components/status.js";
import { Actions } from "./actions.js";
import { Cost } from "./cost.js";
import { Ctx } from "./ctx.js";
import { Events } from "./events.js";
import { useChanges } from "./follow.js";
import { Graph } from "./graph.js";
import { Inspector } from "./inspector.js";
import { Iterations } from "./iterations.js";
import { Logs } from "./logs.js";
import { Overview } from "./overview.js";
import { Slider, useMoment } from "./moment.js";
import { Steps } from "./steps.js";
import { Timeline } from "./timeline.js";
import { Decisions } from "./why.js";

const VIEWS = { overview: [Overview, "Overview"], graph: [Graph, "Graph"], timeline: [Timeline, "Timeline"], steps: [Steps, "Steps"], iterations: [Iterations, "Iterations"], events: [Events, "Events"], logs: [Logs, "Logs"], ctx: [Ctx, "Ctx"], cost: [Cost, "Cost"], decisions: [Decisions, "Decisions"] };

export function Execution({ parts }) {
  const [, id, tab = "overview"] = parts;
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
    ...names.map((name, i) => ({ keys: i ? String(i) : "o", what: `Show ${VIEWS[name][1].toLowerCase()}`, run: () => open(name) })),
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
  const [View, words] = VIEWS[tab] ?? VIEWS.overview;
  return html`<div class="page full execution">
    <${Head} run=${run} />
    ${changes.error ? html`<${Refused} error=${changes.error} again=${changes.look} />` : null}
    ${View === Overview ? null : html`<${Brief} run=${run} />`}
    <div class="bar"><nav class="tabs" aria-label="Views">${names.map((name) => html`<a href=${href(["executions", id, name], query)} aria-current=${VIEWS[name][0] === View ? "page" : undefined}>${VIEWS[name][1]}</a>`)}</nav></div>
    <${Slider} head=${head} moment=${moment} />
    ${moment.error ? html`<${Refused} error=${moment.error} again=${moment.now} />` : null}
    <div class="split">
      <section class="view" aria-label=${words}><${View} key=${id} run=${run} /></section>
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
      <${Status} value=${state ? state.status : head.status} note=${state ? "then" : ""} warnings=${summary?.warnings} />
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

/** In one line, what the overview tells: what it failed of, why it cannot go on, or what it waits for. */
function Brief({ run: { id, head, moment } }) {
  const { kind, message, step } = head.error ?? {};
  const [wait] = head.waiting_for ?? [];
  const words = head.reason ?? (head.status === "failed" && message ? `${kind}${step ? ` in ${step}` : ""}: ${message}` : wait && !moment.at ? `Waits for ${waitWords(wait)}${wait.description ? `: ${wait.description}` : ""}` : "");
  return words ? html`<p class="brief cut"><a class="tone-${wait ? "wait" : "bad"}" href=${href(["executions", id])}>${bdi(words, 300)}</a></p>` : null;
}
