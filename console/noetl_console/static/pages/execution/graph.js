// The graph of an execution, now or then, with the same as a tree beside it.
import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { atRun } from "../../core/api.js";
import { number } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { put, route } from "../../core/router.js";
import { Search } from "../../components/fields.js";
import { GraphView } from "../../components/graph-view.js";
import { Icon } from "../../components/icons.js";
import { pending } from "../../components/parts.js";
import { iconOf, tone } from "../../components/status.js";
import { Virtual } from "../../components/virtual.js";

const ROW = 26;
const BEGIN = ["error", "running", "waiting"]; // statuses of steps that the graph opens on
const STATUSES = [...BEGIN, "ok", "skipped"]; // folded branches show the first of these statuses that one of their steps has

export function Graph({ run }) {
  const { id, moment, steps, head } = run;
  // Load the layout once for each playbook version and status (failed steps are not folded), then the state of each moment, or the changes until now.
  const { unfold = "" } = route.value.query;
  const layout = useGet(atRun(id, "graph"), { layout: 1, fold: 1, unfold }, { deps: [head.epoch, head.status] });
  const graph = useMemo(() => {
    if (!layout.data) return null;
    if (!moment.at) return asNow(layout.data, steps);
    return run.state ? asOf(layout.data, run.state.graph) : null;
  }, [layout.data, run.state, moment.at, steps]);
  const [before, setBefore] = useState(null);
  if (graph && graph !== before) setBefore(graph); // while another moment is loading, the previous one stays
  const shown = graph ?? before;
  const [gone, setGone] = useState(0);
  const beside = useRef(null); // the step whose branches were unfolded
  const more = (step) => put({ unfold: [...unfold.split(",").filter(Boolean), step].join() });
  useEffect(() => {
    const folded = run.step && layout.data?.nodes.some((n) => n.steps?.some((s) => s.step === run.step));
    if (folded && !unfold.split(",").includes(run.step)) more(run.step);
  }, [layout.data, run.step]);
  const wait = pending({ ...layout, data: shown }, "Drawing");
  if (wait) return wait;
  const total = shown.nodes.reduce((sum, n) => sum + (n.steps?.length ?? 1), 0);
  const begin = beside.current ?? run.step ?? BEGIN.map((s) => shown.nodes.find((n) => n.status === s)?.step).find(Boolean);
  const folds = shown.nodes.some((n) => n.branches);
  return html`<div class="graph" data-at=${graph ? (moment.position ?? "now") : ""}>
    <${Outline} graph=${shown} selected=${run.step} select=${run.select} found=${() => { beside.current = null; setGone((n) => n + 1); }} />
    <${GraphView} graph=${shown} selected=${run.step} select=${run.select} enter=${(step) => run.open(steps[step]?.loop ? "iterations" : "events", { step })}
      unfold=${(node) => { beside.current = node.fork; more(node.fork); }} begin=${begin} gone=${gone} label=${`Graph of ${number(total)} steps; the tree of steps says the same`}>
      ${folds ? html`<button class="button plain" onClick=${() => put({ unfold: "*" })}>Unfold all</button>` : null}${unfold ? html`<button class="button plain" onClick=${() => { beside.current = null; put({ unfold: "" }); }}>Fold branches</button>` : null}<//>
  </div>`;
}

/** The layout with the steps' states now. */
function asNow(layout, steps) {
  const state = (node) => {
    const now = steps[node.step];
    return now ? { ...node, status: now.status ?? null, runs: now.visits, tokens: now.tokens, counts: now.loop ?? node.counts } : node;
  };
  return withStates(layout, state, (source, arc) => steps[source]?.arcs?.[arc] ?? 0);
}

/** The layout with the steps' states at a past event. */
function asOf(layout, then) {
  const states = new Map(then.nodes.map((n) => [n.step, n]));
  const fired = new Map(then.edges.map((e) => [`${e.source} ${e.arc}`, e.fired]));
  const state = (node) => {
    const { status = null, runs = 0, tokens = 0, counts } = states.get(node.step) ?? {};
    return { ...node, status, runs, tokens, counts };
  };
  return withStates(layout, state, (source, arc) => fired.get(`${source} ${arc}`) ?? 0);
}

/** The layout with states: `state(step)`, and `fired(step, arc)`; folded branches have those of their steps. */
function withStates(layout, state, fired) {
  const nodes = layout.nodes.map((node) => {
    if (!node.steps) return state(node);
    const steps = node.steps.map(state);
    const sum = (of) => steps.reduce((n, s) => n + of(s), 0);
    return { ...node, steps, status: STATUSES.find((s) => steps.some((n) => n.status === s)) ?? null, runs: sum((s) => s.runs), tokens: sum((s) => s.tokens ?? 0), failed: sum((s) => Number(s.status === "error")) };
  });
  const edges = layout.edges.map((e) => ({ ...e, fired: (e.of ?? [[e.source, e.arc]]).reduce((n, [source, arc]) => n + fired(source, arc), 0) }));
  return { ...layout, nodes, edges };
}

/** The steps as a tree, and the search for one: Enter selects it and calls `found`. */
export function Outline({ graph, selected, select, found }) {
  const [wanted, setWanted] = useState("");
  const tree = useMemo(() => ordered(graph), [graph]);
  const rows = useMemo(() => (wanted ? tree.filter(({ node }) => node.step.toLowerCase().includes(wanted.toLowerCase())) : tree), [tree, wanted]);
  const current = rows.findIndex(({ node }) => node.step === selected);
  const key = (event) => {
    if (event.key === "Enter" && rows.length) {
      if (current < 0) select(rows[0].node.step);
      found?.();
    }
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
    if (!by || !rows.length) return;
    event.preventDefault();
    select(rows[Math.max(0, Math.min(rows.length - 1, current + by))].node.step);
  };
  const row = (i, style) => {
    const { node, level } = rows[i];
    const words = node.counts?.failed ? `${number(node.counts.failed)} failed` : node.runs > 1 ? `×${number(node.runs)}` : "";
    return html`<div key=${i} id=${`step-${i}`} role="treeitem" aria-level=${level} aria-setsize=${rows.length} aria-posinset=${i + 1} aria-selected=${i === current} style=${{ ...style, paddingLeft: `${Math.min(level, 8) * 10}px` }} onClick=${() => select(node.step)}>
      <span class="tone-${node.status ? tone(node.status) : "idle"}"><${Icon} name=${node.status ? iconOf(node.status) : "dot"} /></span><span class="unseen">${node.status ?? "not reached"}</span>
      <span class="cut" title=${node.step}><bdi>${node.step}</bdi></span>${words ? html`<span class=${node.counts?.failed ? "tone-bad" : "soft"}>${words}</span>` : null}</div>`;
  };
  return html`<div class="outline">
    <div class="find"><${Search} id="find-step" label="Find a step" placeholder="${number(tree.length)} steps…" value=${wanted} onKeyDown=${key} onInput=${(e) => setWanted(e.currentTarget.value)} /></div>
    <${Virtual} count=${rows.length} height=${ROW} row=${row} current=${current} role="tree" aria-label="Steps" tabindex="0" aria-activedescendant=${current < 0 ? undefined : `step-${current}`} onKeyDown=${key} />
  </div>`;
}

/** The graph in words: `[{node, level}]`, each step once, in the order in which tokens come to them. A fan-out goes one level down. */
function ordered(graph) {
  const nodes = new Map(graph.nodes.map((node) => [node.step, node]));
  const next = new Map();
  for (const edge of graph.edges) {
    if (edge.back) continue;
    if (!next.has(edge.source)) next.set(edge.source, []);
    if (!next.get(edge.source).includes(edge.target)) next.get(edge.source).push(edge.target);
  }
  const found = [];
  const met = new Set();
  const entries = graph.nodes.filter((n) => n.entry);
  const stack = [...(entries.length ? entries : graph.nodes.slice(0, 1))].reverse().map((n) => [n.step, 1]);
  const walk = () => {
    while (stack.length) {
      const [step, level] = stack.pop();
      if (met.has(step) || !nodes.has(step)) continue;
      met.add(step);
      const folded = nodes.get(step).steps;
      for (const node of folded ?? [nodes.get(step)]) found.push({ node, level: folded ? level + 1 : level });
      const targets = next.get(step) ?? [];
      for (let i = targets.length - 1; i >= 0; i--) stack.push([targets[i], targets.length > 1 ? level + 1 : level]);
    }
  };
  walk();
  for (const node of graph.nodes) {
    if (!met.has(node.step)) {
      stack.push([node.step, 1]); // steps that no arc from the entry leads to
      walk();
    }
  }
  return found;
}
