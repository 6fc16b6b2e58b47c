// Icons. Each has its own shape, so that they differ by more than colour.
import { html } from "../vendor/preact.js";

const PATHS = {
  check: "M3 8.5l3.2 3.2L13 5",
  cross: "M4 4l8 8M12 4l-8 8",
  play: "M5 3.5v9l7-4.5z",
  hourglass: "M4.5 2.5h7M4.5 13.5h7M5 2.5c0 3 2 3.5 3 5.5 1-2 3-2.5 3-5.5M5 13.5c0-3 2-3.5 3-5.5 1 2 3 2.5 3 5.5",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4.5 4.5h7v7h-7z",
  ban: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M4.2 4.2l7.6 7.6",
  bang: "M8 3v6M8 12.2v.3",
  retry: "M12.5 8a4.5 4.5 0 1 1-1.5-3.4M12.8 2.5v3h-3",
  dash: "M4 8h8",
  dot: "M8 6.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3",
  list: "M2.5 4h11M2.5 8h11M2.5 12h11",
  inbox: "M2.5 9l2-6h7l2 6v4h-11zM2.5 9h3l1 1.8h3l1-1.8h3",
  book: "M3 3h4.5c.3 0 .5.3.5.8V13c0-.6-.4-1-1-1H3zM13 3H8.5c-.3 0-.5.3-.5.8V13c0-.6.4-1 1-1h4z",
  compare: "M5 3v10M11 3v10M2.5 6H5M2.5 10H5M11 6h2.5M11 10h2.5",
  moon: "M12.8 9.5A5.3 5.3 0 0 1 6.5 3.2a5.3 5.3 0 1 0 6.3 6.3z",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1",
  half: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 1 1 0 11",
  help: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.5M8 12.2v.3",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  left: "M10 3.5L5.5 8l4.5 4.5",
  right: "M6 3.5L10.5 8 6 12.5",
  first: "M11.5 3.5L7 8l4.5 4.5M4.5 3.5v9",
  fit: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  leave: "M6.5 3H3v10h3.5M7 8h6.5M11 5.5L13.5 8 11 10.5",
  signal: "M8 8v5M5 11a4.2 4.2 0 1 1 6 0M3 13a7 7 0 1 1 10 0",
};

/** A decorative icon beside words, hidden from screen readers. */
export function Icon({ name }) {
  return html`<svg viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
