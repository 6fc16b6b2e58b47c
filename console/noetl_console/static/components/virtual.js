// A long list of which only what is seen is in the document.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const AROUND = 12;
const HIGHEST = 16_000_000; // pixels: beyond this browsers no longer place elements exactly

/** `count` rows of `height` pixels, each made by `row(i, style)`. `shown(first, last)` is told which are seen; `current` is scrolled to when
 * it changes, below the `under` pixels that something covers. `children` lie behind the rows. Further attributes go to the element that scrolls. */
export function Virtual({ count, height, row, shown, current = -1, under = 0, children, ...rest }) {
  const element = useRef(null);
  const [seen, setSeen] = useState({ top: 0, size: 600 });
  const whole = Math.min(count * height, HIGHEST);
  const stretch = count * height > whole ? (count * height - seen.size) / (whole - seen.size) : 1; // of where the scroll bar is
  const offset = seen.top * stretch;
  const first = Math.max(0, Math.floor(offset / height) - AROUND);
  const last = Math.min(count - 1, Math.ceil((offset + seen.size) / height) + AROUND);

  const look = () => {
    const e = element.current;
    if (e) setSeen((s) => (s.top === e.scrollTop && s.size === e.clientHeight ? s : { top: e.scrollTop, size: e.clientHeight }));
  };
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const e = element.current;
    if (current < 0 || !e) return;
    const at = current * height;
    if (at - under < e.scrollTop * stretch || at + height > e.scrollTop * stretch + e.clientHeight) e.scrollTop = (at - e.clientHeight / 2) / stretch;
  }, [current]);
  useEffect(() => shown?.(first, last), [first, last, count]);

  const rows = [];
  for (let i = first; i <= last; i++) rows.push(row(i, { top: `${i * height - (offset - seen.top)}px`, height: `${height}px` }));
  return html`<div class="virtual" ref=${element} onScroll=${look} ...${rest}><div class="whole" role="presentation" style=${{ height: `${whole}px` }}>${children}${rows}</div></div>`;
}
