// One execution. The address has what is selected (`step`, `i`) and the time cursor (`at`); all parts of the page use these.
import { html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { dateTime, duration, shortId, waitWords } from "../../core/format.js";
import { useKeys } from "../../core/keys.js";
import { useData, useGet } from "../../core/poll.js";
import { go, href, put, reveal, route } from "../../core/router.js";
import { bdi, Busy, Copy, Label, Refused, When } from "../../components/parts.js";
import { Status } from "../../components/status.js";
import { Actions } from "./actions.js";
import { useChanges } from "./follow.js";
import { Overview } from "./overview.js";
import { Slider, useMoment } from "./moment.js";

// Views by name: their titles and modules. All but the first are loaded when they are opened.
const VIEWS = {
  overview: ["Overview", () => Overview],
  graph: ["Graph", async () => (await import("./graph.js")).Graph],
  timeline: ["Timeline", async () => (await import("./timeline.js")).Timeline],
  steps: ["Steps", async () => (await import("./steps.js")).Steps],
  iterations: ["Iterations", async () => (await import("./iterations.js")).Iterations],
  events: ["Events", async () => (await import("./events.js")).Events],
  logs: ["Logs", async () => (await import("./logs.js")).Logs],
  ctx: ["Ctx", async () => (await import("./ctx.js")).Ctx],
  cost: ["Cost", async () => (await import("./cost.js")).Cost],
  decisions: ["Decisions", async () => (await import("./decisions.js")).Decisions],
};
const loaded = {};
const load = async (name) => (loaded[name] ??= await (name === "inspector" ? import("./inspector.js").then((m) => m.Inspector) : VIEWS[name][1]()));
const asked = (name) => (VIEWS[name] ? name : "overview");
load(asked(route.peek().parts[2])).catch(() => {}); // with the data of its execution, not after them

/** A view, as soon as it is loaded. */
function Loaded({ name, run }) {
  const [error, set] = useState(null);
  const look = () => load(name).then(() => set(false), set);
  const View = loaded[name];
  useEffect(() => void (View || look()), [name]); // it may have been loaded since View was read
  if (View) return html`<${View} key=${run.id} run=${run} />`;
  return error ? html`<${Refused} error=${error} again=${look} />` : html`<${Busy} />`;
}

export function Execution({ parts }) {
  const [, id] = parts;
  const tab = asked(parts[2]);
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
    ...names.map((name, i) => ({ keys: i ? String(i) : "o", what: `Show ${VIEWS[name][0].toLowerCase()}`, run: () => open(name) })),
    { keys: "Escape", what: "Select nothing", run: () => (route.peek().query.i ? put({ i: "" }) : put({ step: "" })) },
  ]);
  useEffect(() => {
    if (head) document.title = `${head.status} ${summary.data?.playbook.path ?? ""} · NoETL`;
  }, [head?.status, summary.data]);
  useEffect(() => reveal(".tabs [aria-current]"), [tab, !head]);
  // Data shared by all parts of the page.
  const run = useMemo(
    () => ({ id, head, steps: changes.steps, version: changes.version, look: changes.look, summary: summary.data, moment, state: moment.at && then.data?.at === moment.at ? asOf(then.data.graph) : null, step: query.step || null, i: query.i || null, select, open }),
    [id, changes.version, summary.data, moment.at, moment.event, then.data, query.step, query.i],
  );

  if (!head) return html`<div class="page"><h1><a class="soft" href=${href(["executions"])}>Executions</a> <span class="soft">/</span> <bdi>${id}</bdi></h1>${changes.error ? html`<${Refused} error=${changes.error} again=${changes.look} />` : html`<${Busy} what="Reading the execution" />`}</div>`;
  return html`<div class="page full execution">
    <${Head} run=${run} />
    ${changes.error ? html`<${Refused} error=${changes.error} again=${changes.look} />` : null}
    ${tab === "overview" ? null : html`<${Brief} run=${run} />`}
    <div class="bar"><nav class="tabs" aria-label="Views">${names.map((name) => html`<a href=${href(["executions", id, name], query)} onPointerEnter=${() => load(name).catch(() => {})} aria-current=${name === tab ? "page" : undefined}>${VIEWS[name][0]}</a>`)}</nav></div>
    <${Slider} head=${head} moment=${moment} />
    ${moment.error ? html`<${Refused} error=${moment.error} again=${moment.now} />` : null}
    <div class="split">
      <section class="view" aria-label=${VIEWS[tab][0]}><${Loaded} key=${tab} name=${tab} run=${run} /></section>
      ${run.step ? html`<${Loaded} name="inspector" run=${run} />` : null}
    </div>
  </div>`;
}

/** The state at a past event, from the graph of that event. The full state with ctx takes longer, and only one view needs it. */
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

/** The overview in one line: the failure, the obstacle, or the wait. */
function Brief({ run: { id, head, moment } }) {
  const { kind, message, step } = head.error ?? {};
  const [wait] = head.waiting_for ?? [];
  const words = head.reason ?? (head.status === "failed" && message ? `${kind}${step ? ` in ${step}` : ""}: ${message}` : wait && !moment.at ? `Waits for ${waitWords(wait)}${wait.description ? `: ${wait.description}` : ""}` : "");
  return words ? html`<p class="brief cut"><a class="tone-${wait ? "wait" : "bad"}" href=${href(["executions", id])}>${bdi(words, 300)}</a></p>` : null;
}
