// Filters of the list that are rarely used, and its views that are kept in this browser: each is an address.
import { html, useState } from "../vendor/preact.js";
import { go, href, route } from "../core/router.js";
import { Dialog } from "../components/dialog.js";
import { Field } from "../components/fields.js";
import { Icon } from "../components/icons.js";
import { bdi } from "../components/parts.js";

const KEY = "noetl.views";
const FIELDS = ["path", "since", "until", "search"];

export function ListFilters({ onClose }) {
  const { query } = route.value;
  const [chosen, choose] = useState(() => Object.fromEntries(FIELDS.map((name) => [name, query[name] ?? ""])));
  const [views, setViews] = useState(kept);
  const [name, setName] = useState("");
  const field = (key, label, more) => html`<${Field} id=${`filter-${key}`} label=${label} value=${chosen[key]} change=${(text) => choose({ ...chosen, [key]: text })} ...${more} />`;
  const instant = (key, label) => html`<${Field} id=${`filter-${key}`} label=${label} type="datetime-local" step="1" value=${local(chosen[key])} change=${(text) => choose({ ...chosen, [key]: text && new Date(text).toISOString() })} />`;
  const show = () => (go(["executions"], { ...query, ...chosen, hours: chosen.since ? "" : query.hours, cursor: "" }), onClose());
  const store = (all) => (localStorage.setItem(KEY, JSON.stringify(all)), setViews(all));
  const keep = () => (store({ ...views, [name.trim()]: { ...query, cursor: "" } }), setName(""));
  return html`<${Dialog} title="Filters and views" onClose=${onClose} send=${show} act="Show">
    ${field("path", "Playbook", { placeholder: "its whole path" })}
    ${instant("since", "Started since")}${instant("until", "Started until")}
    ${field("search", "Search attributes", { placeholder: "customer=acme&total=12", hint: "As playbooks name them; all must match." })}
    <fieldset class="field group"><legend>Views kept in this browser</legend>
      ${Object.entries(views).map(([word, of]) => html`<div class="filters" key=${word}><a href=${href(["executions"], of)} onClick=${() => onClose()}>${bdi(word, 80)}</a><button type="button" class="button plain" aria-label=${`Forget ${word}`} onClick=${() => store(Object.fromEntries(Object.entries(views).filter(([other]) => other !== word)))}><${Icon} name="cross" /></button></div>`)}
      <${Field} id="view-name" label="Name of this view" value=${name} change=${setName} hint="Keeps the filters and the order that the list has now. The address is the same view for others." />
      <button type="button" class="button" disabled=${!name.trim()} onClick=${keep}>Keep</button></fieldset><//>`;
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

/** An instant as such a field has it: in the viewer's zone. */
function local(instant) {
  const at = new Date(instant);
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}
