// A graph on a canvas: panning, zooming, choosing with the pointer and the keyboard.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { dark } from "../core/theme.js";
import { Picture } from "./graph-picture.js";
import { Icon } from "./icons.js";

const CLOSEST = 2.5;
const FARTHEST = 0.01;
const MARGIN = 24;
const DOTS = 0.03; // where all of it would be less than this, it says nothing
const TOWARDS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

/** `graph` with a layout; `selected` is a step; `select(step)` and `enter(step)` are told of a click and of a double click or Enter. */
export function GraphView({ graph, selected, select, enter, label }) {
  const canvas = useRef(null);
  const view = useRef({ x: 0, y: 0, scale: 1 }); // the graph's point at the upper left corner, and pixels per unit
  const picture = useRef(null);
  const frame = useRef(0);
  const [moving, setMoving] = useState(false);

  const draw = () => {
    if (frame.current) return;
    frame.current = requestAnimationFrame(() => {
      frame.current = 0;
      if (!canvas.current || !picture.current) return;
      picture.current.draw(canvas.current, view.current);
      canvas.current.dataset.drawn = "";
    });
  };
  const fit = () => {
    const { clientWidth: width, clientHeight: height } = canvas.current;
    const { width: w, height: h } = picture.current.size;
    const across = Math.max(FARTHEST, Math.min(1.1, (width - 2 * MARGIN) / w));
    const whole = Math.min(across, (height - 2 * MARGIN) / h);
    const scale = whole < DOTS ? Math.min(across, 0.6) : whole; // what is far too tall is shown from its beginning
    view.current = { scale, x: (w - width / scale) / 2, y: Math.min(-MARGIN / scale, (h - height / scale) / 2) };
    if (h * scale > height - 2 * MARGIN) view.current.y = -MARGIN / scale;
    draw();
  };
  const zoom = (factor, x = canvas.current.clientWidth / 2, y = canvas.current.clientHeight / 2) => {
    const { scale, x: left, y: top } = view.current;
    const next = Math.max(FARTHEST, Math.min(CLOSEST, scale * factor));
    view.current = { scale: next, x: left + x / scale - x / next, y: top + y / scale - y / next };
    draw();
  };
  const reveal = (node) => {
    const { clientWidth: width, clientHeight: height } = canvas.current;
    const { x, y, scale } = view.current;
    const inside = node.x > x && node.y > y && node.x + node.width < x + width / scale && node.y + node.height < y + height / scale;
    if (inside && scale > 0.3) return;
    const closer = Math.max(scale, 0.7);
    view.current = { scale: closer, x: node.x + node.width / 2 - width / closer / 2, y: node.y + node.height / 2 - height / closer / 2 };
    draw();
  };

  useLayoutEffect(() => {
    const before = picture.current;
    picture.current = new Picture(graph, before);
    picture.current.selected = selected;
    if (!before || before.shape !== picture.current.shape) fit();
    draw();
  }, [graph]);
  useEffect(() => {
    picture.current.selected = selected;
    const node = picture.current.node(selected);
    if (node) reveal(node);
    draw();
  }, [selected]);
  useEffect(() => {
    picture.current.repaint();
    draw();
  }, [dark.value]);
  useEffect(() => {
    const observer = new ResizeObserver(draw);
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
    g.moved = true;
    view.current = { ...view.current, x: g.from.x - dx / view.current.scale, y: g.from.y - dy / view.current.scale };
    draw();
  };
  const up = (event) => {
    const g = grab.current;
    grab.current = null;
    setMoving(false);
    if (g && !g.moved) select(at(event)?.step ?? "");
  };
  const key = (event) => {
    if (event.key in TOWARDS) {
      const next = picture.current.towards(selected, ...TOWARDS[event.key]);
      if (next) select(next.step);
    } else if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "f") fit();
    else if (event.key === "Enter" && selected) enter?.(selected);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return html`<div class="sheet">
    <canvas ref=${canvas} class=${moving ? "moving" : ""} tabindex="0" role="img" aria-label=${label} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up}
      onPointerCancel=${() => { grab.current = null; setMoving(false); }} onDblClick=${(e) => { const node = at(e); if (node) enter?.(node.step); }} onKeyDown=${key}></canvas>
    <div class="zoom">
      <button class="button plain" onClick=${() => zoom(1.25)} aria-label="Closer" title="Closer (+)"><${Icon} name="plus" /></button>
      <button class="button plain" onClick=${() => zoom(0.8)} aria-label="Farther" title="Farther (-)"><${Icon} name="minus" /></button>
      <button class="button plain" onClick=${fit} aria-label="All of it" title="All of it (f)"><${Icon} name="fit" /></button>
    </div>
  </div>`;
}
