// A label of an execution; it leads to all that have it.
import { html } from "../vendor/preact.js";
import { href, route } from "../core/router.js";

export function Label({ name, value }) {
  const { parts, query } = route.value;
  const label = value.includes(",") ? name : `${name}:${value}`; // a comma is an "and"
  const kept = parts.length === 1 ? { ...query, cursor: "" } : {}; // what the list is filtered by already
  return html`<a class="tag" href=${href(["executions"], { ...kept, label })} title=${`All with ${label}`}><span class="cut"><bdi>${name}: ${value}</bdi></span></a>`;
}
