// Light and dark: as the system has it, unless chosen here.
import { signal } from "../vendor/preact.js";

const KEY = "noetl.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** `system`, `light` or `dark`. */
export const theme = signal(localStorage.getItem(KEY) ?? "system");
/** True if the page is dark now. Canvases are redrawn when it changes. */
export const dark = signal(false);

function apply() {
  dark.value = theme.value === "dark" || (theme.value === "system" && system.matches);
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
}

export function startTheme() {
  system.addEventListener("change", apply);
  apply();
}

export function choose(value) {
  theme.value = value;
  localStorage.setItem(KEY, value);
  apply();
}

/** The value of a colour of the style sheets, for canvases. */
export function colors(...names) {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
