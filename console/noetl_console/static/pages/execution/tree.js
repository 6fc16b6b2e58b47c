// The graph in words: a tree of steps in the order in which tokens come to them. A fan-out goes one level down.

/** `[{node, level}]` of a graph, each step once. */
export function ordered(graph) {
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
