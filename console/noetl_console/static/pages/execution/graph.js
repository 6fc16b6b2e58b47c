// The graph of an execution, now or then, with the same as a tree beside it.
import { html, useMemo, useState } from "../../vendor/preact.js";
import { atRun } from "../../core/api.js";
import { number } from "../../core/format.js";
import { useGet } from "../../core/poll.js";
import { Search } from "../../components/fields.js";
import { GraphView } from "../../components/graph-view.js";
import { Icon } from "../../components/icons.js";
import { pending } from "../../components/parts.js";
import { iconOf, tone } from "../../components/status.js";
import { Virtual } from "../../components/virtual.js";

const ROW = 26;

export function Graph({ run }) {
  const { id, moment, steps, head } = run;
  // The layout once for each version of the playbook; then what each moment was like, or what the changes say of now.
  const layout = useGet(atRun(id, "graph"), { layout: 1 }, { deps: [head.epoch] });
  const graph = useMemo(() => {
    if (!layout.data) return null;
    if (!moment.at) return asNow(layout.data, steps);
    return run.state ? asOf(layout.data, run.state.graph) : null;
  }, [layout.data, run.state, moment.at, steps]);
  const [before, setBefore] = useState(null);
  if (graph && graph !== before) setBefore(graph); // while another moment is asked for, the one of before stays
  const shown = graph ?? before;
  const wait = pending({ ...layout, data: shown }, "Drawing");
  if (wait) return wait;
  return html`<div class="graph" data-at=${graph ? (moment.position ?? "now") : ""}>
    <${Outline} graph=${shown} selected=${run.step} select=${run.select} />
    <${GraphView} graph=${shown} selected=${run.step} select=${run.select} enter=${(step) => run.open(steps[step]?.loop ? "iterations" : "events", { step })}
      label=${`Graph of ${number(shown.nodes.length)} steps; the tree of steps says the same`} />
  </div>`;
}

/** The layout with what the steps are like now. */
function asNow(layout, steps) {
  const nodes = layout.nodes.map((node) => {
    const now = steps[node.step];
    return now ? { ...node, status: now.status ?? null, runs: now.visits, tokens: now.tokens, counts: now.loop ?? node.counts } : node;
  });
  const edges = layout.edges.map((edge) => ({ ...edge, fired: steps[edge.source]?.arcs?.[edge.arc] ?? 0 }));
  return { ...layout, nodes, edges };
}

/** The layout with what the steps were like then. */
function asOf(layout, then) {
  const states = new Map(then.nodes.map((n) => [n.step, n]));
  const fired = new Map(then.edges.map((e) => [`${e.source} ${e.arc} ${e.target}`, e.fired]));
  const nodes = layout.nodes.map((node) => {
    const { status = null, runs = 0, tokens = 0, counts } = states.get(node.step) ?? {};
    return { ...node, status, runs, tokens, counts };
  });
  return { ...layout, nodes, edges: layout.edges.map((e) => ({ ...e, fired: fired.get(`${e.source} ${e.arc} ${e.target}`) ?? 0 })) };
}

export function Outline({ graph, selected, select }) {
  const [wanted, setWanted] = useState("");
  const tree = useMemo(() => ordered(graph), [graph]);
  const rows = useMemo(() => (wanted ? tree.filter(({ node }) => node.step.toLowerCase().includes(wanted.toLowerCase())) : tree), [tree, wanted]);
  const current = rows.findIndex(({ node }) => node.step === selected);
  const key = (event) => {
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
    <div class="find"><${Search} id="find-step" label="Find a step" placeholder="${number(graph.nodes.length)} steps…" value=${wanted} onInput=${(e) => setWanted(e.currentTarget.value)} /></div>
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
      found.push({ node: nodes.get(step), level });
      const targets = next.get(step) ?? [];
      for (let i = targets.length - 1; i >= 0; i--) stack.push([targets[i], targets.length > 1 ? level + 1 : level]);
    }
  };
  walk();
  for (const node of graph.nodes) {
    if (!met.has(node.step)) {
      stack.push([node.step, 1]); // what no arc leads to from the entry
      walk();
    }
  }
  return found;
}
