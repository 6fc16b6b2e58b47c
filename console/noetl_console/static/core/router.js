// Addresses: `#/executions/123/graph?step=load` is the page, its parts and its parameters. The address holds the complete state of a page.
import { signal } from "../vendor/preact.js";
import { given } from "./format.js";

function parsed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts: parts.length ? parts : ["executions"], query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** `{parts, query}` of the address. */
export const route = signal(parsed());
addEventListener("hashchange", () => (route.value = parsed()));

/** The address of a page, to be linked to. Parameters that are empty are left out. */
export function href(parts, query = {}) {
  const search = new URLSearchParams(given(query)).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Go to a page; `replace`: the way back leads past this one. */
export function go(parts, query = {}, { replace = false } = {}) {
  const to = href(parts, query);
  if (to === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  route.value = parsed();
}

/** Change parameters of this page. */
export function put(changes, { replace = true } = {}) {
  const { parts, query } = route.peek();
  go(parts, { ...query, ...changes }, { replace });
}

/** Scroll a chosen place or tab into its row. `scrollIntoView` would also let Tab begin there. */
export function reveal(selector) {
  const chosen = document.querySelector(selector);
  if (chosen) chosen.parentElement.scrollLeft = chosen.offsetLeft - 100;
}
