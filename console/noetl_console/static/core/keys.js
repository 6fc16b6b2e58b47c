// The keyboard: pages register their keys, and `?` lists them.
import { signal, useEffect, useRef } from "../vendor/preact.js";

/** `[{keys, what, run}]` of all components on the screen; `keys` is `j`, `Shift+K`, or two keys after each other: `g e`. */
export const bindings = signal([]);
/** Single keys may be disabled, for people who dictate to the machine. */
export const enabled = signal(localStorage.getItem("noetl.keys") !== "off");
export function enable(on) {
  enabled.value = on;
  localStorage.setItem("noetl.keys", on ? "on" : "off");
}

const SEQUENCE_MS = 1200;
let before = "";
let beforeAt = 0;

/** Keys of a component, while it is shown. They run the actions of its latest rendering. */
export function useKeys(list) {
  const latest = useRef(list);
  latest.current = list;
  const shown = list.map((b) => `${b.keys} ${b.what}`).join();
  useEffect(() => {
    const made = list.map(({ keys, what }, i) => ({ keys, what, run: (event) => latest.current[i]?.run(event) }));
    bindings.value = [...bindings.peek(), ...made];
    return () => (bindings.value = bindings.peek().filter((b) => !made.includes(b)));
  }, [shown]);
}

const written = (target) => target instanceof Element && target.closest("input, textarea, select, [contenteditable], .editor") !== null;

export function startKeys() {
  addEventListener("keydown", (event) => {
    const all = (event.ctrlKey || event.metaKey) && event.key === "k"; // wherever one is
    if (((event.ctrlKey || event.metaKey || written(event.target)) && !all) || event.altKey || event.defaultPrevented) return;
    if ((event.key === "Enter" || event.key === " ") && event.target.closest("a, button, summary")) return; // it is pressed
    if (document.querySelector("dialog[open]") && event.key !== "Escape") return;
    if (!enabled.value && event.key.length === 1 && !all) return;
    const key = all ? "Ctrl+K" : event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
    const two = performance.now() - beforeAt < SEQUENCE_MS ? `${before} ${key}` : "";
    const list = [...bindings.peek()].reverse(); // the newest component is on top: its keys come first
    const found = list.find((b) => b.keys === two) ?? list.find((b) => b.keys === key);
    [before, beforeAt] = found ? ["", 0] : [key, performance.now()];
    if (found) {
      event.preventDefault();
      found.run(event);
    }
  });
}
