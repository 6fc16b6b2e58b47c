// A graph on a canvas: panning, zooming, choosing with the pointer and the keyboard.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { dark } from "../core/theme.js";
import { Picture, WORDS } from "./graph-picture.js";
import { Icon } from "./icons.js";

const CLOSEST = 2.5;
const FARTHEST = 0.01;
const MARGIN = 24;
const DOTS = 0.03; // scale below which the whole graph would be unreadable
const LEGIBLE = 0.6; // scale below which a part is shown first
const READ = 0.9; // the scale of that part
const TOWARDS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** `graph` with a layout; `selected` is a step; `select(step)` and `enter(step)` are told of a click and of a double click or Enter, `unfold(node)`
 * of one that stands for branches. It opens on `begin`, a step; when `gone` grows it goes to what is selected. */
export function GraphView({ graph, selected, select, enter, unfold, begin, gone = 0, label, children }) {
  const canvas = useRef(null);
  const map = useRef(null);
  const mapped = useRef(0); // the scale of the map
  const size = useRef(null);
  const [mark, setMark] = useState(null); // folded branches that the keys have come to
  const view = useRef({ x: 0, y: 0, scale: 1 }); // the graph's point at the upper left corner, and pixels per unit
  const picture = useRef(null);
  const frame = useRef(0);
  const [moving, setMoving] = useState(false);
  const kept = useRef(false); // the user has moved it: a new size keeps the middle

  const draw = () => {
    if (frame.current) return;
    frame.current = requestAnimationFrame(() => {
      frame.current = 0;
      if (!canvas.current || !picture.current) return;
      picture.current.draw(canvas.current, view.current);
      mapped.current = picture.current.map(map.current, view.current, { width: canvas.current.clientWidth, height: canvas.current.clientHeight });
      const { x, y, scale } = view.current;
      canvas.current.dataset.drawn = [x, y, scale].map((n) => n.toFixed(2)).join(" ");
    });
  };
  const fit = () => {
    const { clientWidth: width, clientHeight: height } = canvas.current;
    const { width: w, height: h } = picture.current.size;
    const across = Math.max(FARTHEST, Math.min(1.1, (width - 2 * MARGIN) / w));
    const whole = Math.min(across, (height - 2 * MARGIN) / h);
    const scale = whole < DOTS ? Math.min(across, 0.6) : whole; // a graph that is far too tall is shown from its beginning
    view.current = { scale, x: (w - width / scale) / 2, y: Math.min(-MARGIN / scale, (h - height / scale) / 2) };
    if (h * scale > height - 2 * MARGIN) view.current.y = -MARGIN / scale;
    draw();
  };
  const zoom = (factor, x = canvas.current.clientWidth / 2, y = canvas.current.clientHeight / 2) => {
    kept.current = true;
    const { scale, x: left, y: top } = view.current;
    const next = Math.max(FARTHEST, Math.min(CLOSEST, scale * factor));
    view.current = { scale: next, x: left + x / scale - x / next, y: top + y / scale - y / next };
    draw();
  };
  /** Put a point of the graph into the middle, as far as there is something around it. */
  const center = (x, y, scale = view.current.scale) => {
    const { width: w, height: h } = picture.current.size;
    const [width, height] = [canvas.current.clientWidth / scale, canvas.current.clientHeight / scale];
    const margin = MARGIN / scale;
    const within = (at, seen, all) => (all + 2 * margin <= seen ? (all - seen) / 2 : Math.max(-margin, Math.min(at - seen / 2, all + margin - seen)));
    view.current = { scale, x: within(x, width, w), y: within(y, height, h) };
    draw();
  };
  const middle = (node, scale) => center(node.x + node.width / 2, node.y + node.height / 2, scale);
  const open = () => {
    const { clientWidth: width, clientHeight: height } = canvas.current;
    const { width: w, height: h } = picture.current.size;
    const node = picture.current.node(begin) ?? picture.current.graph.nodes.find((n) => n.entry);
    kept.current = false;
    if (!node || Math.min((width - 2 * MARGIN) / w, (height - 2 * MARGIN) / h) >= LEGIBLE) fit();
    else middle(node, READ);
  };
  const reveal = (node) => {
    const { clientWidth: width, clientHeight: height } = canvas.current;
    const { x, y, scale } = view.current;
    const inside = node.x > x && node.y > y && node.x + node.width < x + width / scale && node.y + node.height < y + height / scale;
    if (!inside || scale < WORDS) kept.current = true, middle(node, Math.max(scale, READ));
  };

  useLayoutEffect(() => {
    const before = picture.current;
    picture.current = new Picture(graph, before);
    picture.current.selected = selected;
    if (!before || before.shape !== picture.current.shape) {
      setMark(null);
      open();
    }
    draw();
  }, [graph]);
  useEffect(() => {
    picture.current.selected = mark ?? selected;
    const node = picture.current.node(mark ?? selected);
    if (node) reveal(node);
    draw();
  }, [selected, mark]);
  useEffect(() => {
    const node = picture.current.node(selected);
    if (gone && node) kept.current = true, middle(node, Math.max(view.current.scale, READ));
  }, [gone]);
  useEffect(() => {
    picture.current.repaint();
    draw();
  }, [dark.value]);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = canvas.current;
      const { width: before = width, height: was = height } = size.current ?? {};
      const { x, y, scale } = view.current; // the middle stays
      view.current = { scale, x: x + (before - width) / 2 / scale, y: y + (was - height) / 2 / scale };
      size.current = { width, height };
      if (!kept.current) open();
      const node = picture.current.node(picture.current.selected);
      if (node && (before !== width || was !== height)) reveal(node);
      draw();
    });
    observer.observe(canvas.current);
    const wheel = (event) => {
      event.preventDefault();
      const box = canvas.current.getBoundingClientRect();
      const step = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
      zoom(Math.exp(-step / 500), event.clientX - box.left, event.clientY - box.top);
    };
    canvas.current.addEventListener("wheel", wheel, { passive: false });
    return () => {
      observer.disconnect();
      canvas.current?.removeEventListener("wheel", wheel);
      cancelAnimationFrame(frame.current);
    };
  }, []);

  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const { x, y, scale } = view.current;
    return picture.current.at(x + (event.clientX - box.left) / scale, y + (event.clientY - box.top) / scale);
  };
  const grab = useRef(null);
  const down = (event) => {
    grab.current = { x: event.clientX, y: event.clientY, from: { ...view.current }, moved: false };
    canvas.current.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    const g = grab.current;
    if (!g) return;
    const [dx, dy] = [event.clientX - g.x, event.clientY - g.y];
    if (!g.moved && Math.hypot(dx, dy) < 4) return;
    if (!g.moved) setMoving(true);
    g.moved = kept.current = true;
    view.current = { ...view.current, x: g.from.x - dx / view.current.scale, y: g.from.y - dy / view.current.scale };
    draw();
  };
  const up = (event) => {
    const g = grab.current;
    grab.current = null;
    setMoving(false);
    if (g && !g.moved) press(at(event));
  };
  const press = (node) => (node?.branches ? unfold(node) : (setMark(null), select(node?.step ?? "")));
  const mapMove = (event) => {
    if (!event.buttons || !mapped.current) return;
    kept.current = true;
    event.currentTarget.setPointerCapture(event.pointerId);
    const box = event.currentTarget.getBoundingClientRect();
    center((event.clientX - box.left) / mapped.current, (event.clientY - box.top) / mapped.current);
  };
  const key = (event) => {
    if (event.key in TOWARDS) {
      const next = picture.current.towards(mark ?? selected, ...TOWARDS[event.key]);
      if (next?.branches) setMark(next.step);
      else if (next) press(next);
    } else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "f") fit();
    else if (event.key === "Enter" && mark) unfold(picture.current.node(mark));
    else if (event.key === "Enter" && selected) enter?.(selected);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return html`<div class="sheet">
    <canvas ref=${canvas} class=${moving ? "moving" : ""} tabindex="0" role="img" aria-label=${label} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up}
      onPointerCancel=${() => { grab.current = null; setMoving(false); }} onDblClick=${(e) => { const node = at(e); if (node && !node.branches) enter?.(node.step); }} onKeyDown=${key}></canvas>
    <canvas ref=${map} class="map" aria-hidden="true" onPointerDown=${mapMove} onPointerMove=${mapMove}></canvas>
    <span class="unseen" role="status">${mark ? marked(graph.nodes.find((n) => n.step === mark)) : ""}</span>
    <div class="zoom">${children}
      <button class="button plain" onClick=${() => zoom(1.25)} aria-label="Closer" title="Closer (+)"><${Icon} name="plus" /></button>
      <button class="button plain" onClick=${() => zoom(0.8)} aria-label="Farther" title="Farther (-)"><${Icon} name="minus" /></button>
      <button class="button plain" onClick=${fit} aria-label="All of it" title="All of it (f)"><${Icon} name="fit" /></button>
    </div>
  </div>`;
}

/** Folded branches in words. */
const marked = (node) => (node ? `${node.branches} branches of ${node.fork}: ${node.steps.length} steps${node.status ? `, ${node.status}` : ""}; Enter unfolds them` : "");
