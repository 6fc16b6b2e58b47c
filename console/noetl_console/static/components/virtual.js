// A long list. Only its visible rows are in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const AROUND = 12;
const BY = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
const HIGHEST = 16_000_000; // pixels: beyond this browsers no longer place elements exactly

/** `count` rows of `height` pixels, each made by `row(i, style)`. `shown(first, last)` receives the visible range. `current` is scrolled to when
 * it changes, below the `under` pixels that something covers, unless its row was pressed: that row was in view. In a list, arrows move the
 * focus among the buttons of rows, which Tab passes over. `children` lie behind the rows. Further attributes go to the element that scrolls. */
export function Virtual({ count, height, row, shown, current = -1, under = 0, children, ...rest }) {
  const element = useRef(null);
  const [seen, setSeen] = useState({ top: 0, size: 600 });
  const whole = Math.min(count * height, HIGHEST);
  const stretch = count * height > whole ? (count * height - seen.size) / (whole - seen.size) : 1; // list pixels per pixel of the scroll bar
  const offset = seen.top * stretch;
  const first = Math.max(0, Math.floor(offset / height) - AROUND);
  const last = Math.min(count - 1, Math.ceil((offset + seen.size) / height) + AROUND);

  const look = () => {
    const e = element.current;
    if (e) setSeen((s) => (s.top === e.scrollTop && s.size === e.clientHeight ? s : { top: e.scrollTop, size: e.clientHeight }));
  };
  const place = (i) => {
    const e = element.current;
    const top = i * height;
    if (top - under < e.scrollTop * stretch || top + height > e.scrollTop * stretch + e.clientHeight) e.scrollTop = (top - e.clientHeight / 2) / stretch;
  };
  const at = useRef(-1); // the row that arrows have come to
  const placed = useRef(place);
  placed.current = place;
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(() => {
      if (at.current >= 0 && element.current.contains(document.activeElement)) placed.current(at.current);
      look();
    });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  const pressed = useRef(-1); // the row that was pressed; the focus may have moved on since
  const press = (event) => {
    const row = event.target.closest(".line");
    pressed.current = row ? first + [...row.parentElement.children].indexOf(row) : -1;
  };
  useEffect(() => {
    if (current < 0) return;
    if (current !== pressed.current) place(current);
    pressed.current = -1;
  }, [current]);
  useEffect(() => shown?.(first, last), [first, last, count]);

  const moved = useRef(false); // its button gets the focus as soon as it is there
  const key = (event) => {
    const row = document.activeElement.closest(".line");
    const buttons = [...(row?.querySelectorAll("button") ?? [])];
    const beside = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (beside) buttons[buttons.indexOf(document.activeElement) + beside]?.focus();
    if (!BY[event.key]) return;
    event.preventDefault();
    if (row) at.current = first + [...row.parentElement.children].indexOf(row);
    at.current = Math.max(0, Math.min(count - 1, (at.current < 0 ? Math.floor(offset / height) - 1 : at.current) + BY[event.key]));
    moved.current = true;
    place(at.current);
    focus();
  };
  const focus = () => {
    const button = moved.current && element.current.firstChild.children[at.current - first]?.querySelector("button");
    if (button) {
      moved.current = false;
      button.focus({ preventScroll: true });
    }
  };
  useEffect(focus);

  const rows = [];
  for (let i = first; i <= last; i++) rows.push(row(i, { top: `${i * height - (offset - seen.top)}px`, height: `${height}px` }));
  return html`<div class="virtual" ref=${element} onScroll=${look} onClick=${press} onKeyDown=${rest.role === "list" ? key : undefined} ...${rest}><div class="whole" role="presentation" style=${{ height: `${whole}px` }}>${children}${rows}</div></div>`;
}
