// Draws a graph with the detail that its scale allows: dots, boxes, or boxes with words.
import { guard, number } from "../core/format.js";
import { colors } from "../core/theme.js";
import { tone } from "./status.js";

const NAMES = ["ground", "surface", "text", "text-soft", "line", "line-strong", "edge", "accent", "accent-soft", "ok", "bad", "run", "wait", "hold", "idle", "wait-soft", "on-accent"];
export const WORDS = 0.38; // scale above which names are readable
const BOXES = 0.12; // scale below which a step is a dot of its colour
const MAP = { width: 190, height: 260, least: 20, room: 300 }; // pixels of the map, and pixels needed by the graph beside it
const STACK = [8, 4]; // pixels by which the boxes behind folded branches stand out
const MARKS = { ok: "✓", bad: "✕", run: "▶", wait: "◷", hold: "‖", idle: "" };

export class Picture {
  /** `before` is the previous picture of the same graph; its unchanged parts are reused. */
  constructor(graph, before) {
    this.graph = graph;
    this.selected = null;
    const first = graph.nodes[0];
    this.shape = `${graph.nodes.length}:${graph.edges.length}:${first?.step}:${graph.layout?.width}`;
    if (before?.shape === this.shape) this.size = before.size;
    else this.#place();
    this.byName = new Map(graph.nodes.map((node) => [node.step, node]));
    this.repaint();
  }

  #place() {
    let [width, height] = [1, 1];
    for (const node of this.graph.nodes) [width, height] = [Math.max(width, node.x + node.width), Math.max(height, node.y + node.height)];
    this.size = { width: this.graph.layout?.width ?? width, height: this.graph.layout?.height ?? height };
  }

  /** Take the colours of the style sheets. */
  repaint() {
    this.colors = colors(...NAMES);
    this.small = null;
  }

  node(step) {
    return this.byName.get(step) ?? null;
  }

  /** The step at a point. */
  at(x, y) {
    for (let i = this.graph.nodes.length - 1; i >= 0; i--) {
      const n = this.graph.nodes[i];
      if (x >= n.x - 2 && x <= n.x + n.width + 2 && y >= n.y - 2 && y <= n.y + n.height + 2) return n;
    }
    return null;
  }

  /** The next step in a direction: down and up an arc, one that fired before others; else the nearest. The first, where none is chosen. */
  towards(step, dx, dy) {
    const from = this.node(step);
    if (!from) return this.graph.nodes.find((n) => n.entry) ?? this.graph.nodes[0] ?? null;
    if (dy !== 0) {
      const [here, there] = dy > 0 ? ["source", "target"] : ["target", "source"];
      const arcs = this.graph.edges.filter((e) => e[here] === step && e[there] !== step && !e.back);
      const arc = arcs.find((e) => e.fired > 0) ?? arcs[0];
      if (arc) return this.node(arc[there]);
    }
    let [best, least] = [null, Infinity];
    for (const n of this.graph.nodes) {
      const [x, y] = [n.x + n.width / 2 - from.x - from.width / 2, n.y + n.height / 2 - from.y - from.height / 2];
      const along = x * dx + y * dy;
      const across = Math.abs(x * dy) + Math.abs(y * dx);
      const far = along + 2.5 * across;
      if (along > 1 && far < least) [best, least] = [n, far];
    }
    return best;
  }

  draw(canvas, view) {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d", { alpha: false });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = this.colors.ground;
    pen.fillRect(0, 0, width, height);
    const k = view.scale * ratio;
    pen.setTransform(k, 0, 0, k, -view.x * k, -view.y * k);
    const seen = { left: view.x, top: view.y, right: view.x + width / view.scale, bottom: view.y + height / view.scale };
    this.#edges(pen, view.scale, seen);
    if (view.scale < BOXES) this.#dots(pen, view.scale, seen);
    else this.#boxes(pen, view.scale, seen);
  }

  /** Draw the whole graph small on `canvas`, with a frame around the part that `view` shows; `size` is that of the main canvas. Returns
   * the scale: 0 if the whole graph is visible anyway, or there is no room. */
  map(canvas, view, size) {
    const [width, height] = [size.width / view.scale, size.height / view.scale];
    const all = Math.min(size.width, size.height) < MAP.room || (view.x <= 0 && view.y <= 0 && view.x + width >= this.size.width && view.y + height >= this.size.height);
    canvas.hidden = all;
    if (all) return 0;
    const ratio = devicePixelRatio || 1;
    const scale = Math.min(Math.min(MAP.width, size.width * 0.3) / this.size.width, Math.min(MAP.height, size.height * 0.45) / this.size.height);
    const [across, down] = [Math.max(MAP.least, Math.round(this.size.width * scale)), Math.max(MAP.least, Math.round(this.size.height * scale))];
    const key = `${across} ${down} ${this.selected}`;
    if (this.small?.key !== key) {
      this.small = document.createElement("canvas");
      this.small.key = key;
      [this.small.width, this.small.height] = [across * ratio, down * ratio];
      [canvas.style.width, canvas.style.height] = [`${across}px`, `${down}px`];
      const pen = this.small.getContext("2d");
      pen.fillStyle = this.colors.surface;
      pen.fillRect(0, 0, this.small.width, this.small.height);
      pen.setTransform(scale * ratio, 0, 0, scale * ratio, 0, 0);
      this.#dots(pen, scale, { left: 0, top: 0, right: Infinity, bottom: Infinity });
    }
    if (canvas.width !== this.small.width || canvas.height !== this.small.height) [canvas.width, canvas.height] = [this.small.width, this.small.height];
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(this.small, 0, 0);
    pen.setTransform(scale * ratio, 0, 0, scale * ratio, 0, 0);
    pen.lineWidth = 2 / scale;
    pen.strokeStyle = this.colors.accent;
    pen.strokeRect(Math.max(0, view.x), Math.max(0, view.y), Math.min(width, this.size.width - view.x), Math.min(height, this.size.height - view.y));
    return scale;
  }

  #edges(pen, scale, seen) {
    const far = scale < BOXES;
    const [fired, idle, never] = [new Path2D(), new Path2D(), new Path2D()];
    const heads = [];
    const labels = [];
    for (const edge of this.graph.edges) {
      const p = edge.points;
      const [first, last] = [p[0], p[p.length - 1]];
      if (!meets(p, seen)) continue;
      const path = edge.fired === null || edge.fired === undefined ? idle : edge.fired > 0 ? fired : never;
      path.moveTo(first[0], first[1]);
      if (far) path.lineTo(last[0], last[1]);
      else curve(path, p);
      if (!far) heads.push([p[p.length - 2], last, edge.fired > 0]);
      if (scale > WORDS && edge.label && (edge.fired > 0 || edge.when)) labels.push(edge);
    }
    pen.lineCap = "round";
    pen.lineWidth = far ? 0.7 / scale : 1.2;
    pen.strokeStyle = this.colors.edge;
    pen.stroke(idle);
    if (!far) pen.setLineDash([4, 4]);
    pen.stroke(never);
    pen.setLineDash([]);
    pen.lineWidth = far ? 0.8 / scale : 1.7;
    pen.strokeStyle = far ? this.colors.edge : this.colors["text-soft"];
    pen.stroke(fired);
    for (const [from, to, strong] of heads) head(pen, from, to, strong ? this.colors["text-soft"] : this.colors.edge);
    for (const edge of labels) this.#label(pen, edge);
  }

  #label(pen, edge) {
    const words = [edge.fired > 0 ? `×${number(edge.fired)}` : "", edge.when ? guard(edge.when) : ""].filter(Boolean).join("  ");
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const width = pen.measureText(words).width + 8;
    pen.fillStyle = this.colors.ground;
    pen.fillRect(edge.label[0] - width / 2, edge.label[1] - 8, width, 16);
    pen.fillStyle = edge.fired > 0 ? this.colors.text : this.colors["text-soft"];
    pen.fillText(words, edge.label[0], edge.label[1]);
  }

  #dots(pen, scale, seen) {
    const byTone = new Map();
    const least = 2.2 / scale;
    for (const n of this.graph.nodes) {
      if (n.x > seen.right || n.x + n.width < seen.left || n.y > seen.bottom || n.y + n.height < seen.top) continue;
      const key = n.status ? tone(n.status) : "none";
      if (!byTone.has(key)) byTone.set(key, []);
      byTone.get(key).push(n);
    }
    for (const [key, nodes] of byTone) {
      pen.fillStyle = key === "none" ? this.colors["line-strong"] : this.colors[key];
      pen.beginPath();
      for (const n of nodes) pen.rect(n.x, n.y, Math.max(n.width, least), Math.max(n.height, least));
      pen.fill();
    }
    const chosen = this.node(this.selected);
    if (chosen) {
      pen.strokeStyle = this.colors.accent;
      pen.lineWidth = 3 / scale;
      pen.strokeRect(chosen.x - 4 / scale, chosen.y - 4 / scale, chosen.width + 8 / scale, chosen.height + 8 / scale);
    }
  }

  #boxes(pen, scale, seen) {
    for (const n of this.graph.nodes) {
      if (n.x > seen.right || n.x + n.width < seen.left || n.y > seen.bottom || n.y + n.height < seen.top) continue;
      this.#box(pen, n, scale);
    }
  }

  #box(pen, n, scale) {
    const chosen = n.step === this.selected;
    const color = n.status ? this.colors[tone(n.status)] : this.colors["line-strong"];
    pen.lineWidth = 1.2;
    for (const by of n.branches ? STACK : []) {
      pen.beginPath();
      pen.roundRect(n.x + by, n.y + by, n.width, n.height, 6);
      pen.fillStyle = this.colors.surface;
      pen.fill();
      pen.strokeStyle = color;
      pen.stroke();
    }
    pen.beginPath();
    pen.roundRect(n.x, n.y, n.width, n.height, 6);
    pen.fillStyle = chosen ? this.colors["accent-soft"] : this.colors.surface;
    pen.fill();
    pen.lineWidth = chosen ? 2.4 : 1.2;
    pen.strokeStyle = chosen ? this.colors.accent : n.status || scale < WORDS ? color : this.colors.line;
    pen.stroke();
    pen.beginPath();
    pen.roundRect(n.x, n.y, 5, n.height, [6, 0, 0, 6]);
    pen.fillStyle = color;
    pen.fill();
    if (scale < WORDS) return;
    const left = n.x + 12;
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.fillStyle = this.colors.text;
    pen.font = "600 12.5px system-ui, sans-serif";
    const two = below(n);
    pen.fillText(cut(n.branches ? `${number(n.branches)} branches` : n.step, 28), left, n.y + (two ? n.height / 2 - 2 : n.height / 2 + 4), n.width - 18);
    if (two) {
      pen.fillStyle = n.failed || n.counts?.failed ? this.colors.bad : this.colors["text-soft"];
      pen.font = "11px system-ui, sans-serif";
      pen.fillText(two, left, n.y + n.height / 2 + 13, n.width - 34);
    }
    pen.fillStyle = color;
    pen.font = "700 12px system-ui, sans-serif";
    pen.textAlign = "right";
    pen.fillText(n.status ? MARKS[tone(n.status)] : "", n.x + n.width - 7, n.y + n.height / 2 + 13);
    if (n.tokens) this.#tokens(pen, n);
  }

  /** Tokens that wait at a step: a disc with their number at its upper left corner. */
  #tokens(pen, n) {
    pen.beginPath();
    pen.arc(n.x + 2, n.y + 2, 9, 0, 2 * Math.PI);
    pen.fillStyle = this.colors.wait;
    pen.fill();
    pen.fillStyle = this.colors.surface;
    pen.font = "700 10px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillText(n.tokens > 99 ? "99+" : String(n.tokens), n.x + 2, n.y + 5.5);
  }
}

const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** The second line of a step. */
function below(n) {
  if (n.branches) return `${number(n.steps.length)} steps${n.failed ? `  ${number(n.failed)} failed` : ""}`;
  if (n.counts?.total) return `${number(n.counts.succeeded + n.counts.failed)}/${number(n.counts.total)}${n.counts.failed ? `  ${number(n.counts.failed)} failed` : ""}`;
  const kinds = cut([...new Set(n.kinds)].join(", "), 20);
  return `${kinds}${n.loop ? `  loop` : ""}${n.join ? "  join" : ""}${n.runs > 1 ? `  ×${number(n.runs)}` : ""}`;
}

function meets(points, seen) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  return left <= seen.right && right >= seen.left && top <= seen.bottom && bottom >= seen.top;
}

/** A smooth line through points that goes up and down where it begins and ends. */
function curve(path, points) {
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const middle = (y0 + y1) / 2;
    path.bezierCurveTo(x0, middle, x1, middle, x1, y1);
  }
}

function head(pen, from, to, color) {
  const angle = Math.abs(to[1] - from[1]) > 0.5 ? Math.atan2(Math.sign(to[1] - from[1]), 0) : Math.atan2(to[1] - from[1], to[0] - from[0]);
  pen.beginPath();
  pen.moveTo(to[0], to[1]);
  pen.lineTo(to[0] - 7 * Math.cos(angle - 0.45), to[1] - 7 * Math.sin(angle - 0.45));
  pen.lineTo(to[0] - 7 * Math.cos(angle + 0.45), to[1] - 7 * Math.sin(angle + 0.45));
  pen.closePath();
  pen.fillStyle = color;
  pen.fill();
}
