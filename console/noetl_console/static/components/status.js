// Statuses: of executions, steps, iterations and tasks, as a word with an icon and a colour.
import { html } from "../vendor/preact.js";
import { Icon } from "./icons.js";

const LOOKS = {
  completed: ["ok", "check"],
  ok: ["ok", "check"],
  success: ["ok", "check"],
  failed: ["bad", "cross"],
  error: ["bad", "cross"],
  lost: ["bad", "cross"],
  stuck: ["bad", "bang"],
  running: ["run", "play"],
  in_progress: ["run", "play"],
  retrying: ["wait", "retry"],
  waiting: ["wait", "hourglass"],
  suspended: ["wait", "hourglass"],
  paused: ["hold", "pause"],
  cancelling: ["hold", "ban"],
  cancelled: ["hold", "ban"],
  scheduled: ["run", "dot"],
  skipped: ["idle", "dash"],
};

/** The colour of a status: `ok`, `bad`, `run`, `wait`, `hold` or `idle`. */
export const tone = (status) => (LOOKS[status] ?? ["idle"])[0];
export const iconOf = (status) => (LOOKS[status] ?? ["idle", "dot"])[1];

export function Status({ value, note, warnings }) {
  if (!value) return html`<span class="chip"><${Icon} name="dot" />not reached</span>`;
  const [look, icon] = warnings && tone(value) === "ok" ? ["wait", "bang"] : [tone(value), iconOf(value)];
  return html`<span class="chip ${look}"><${Icon} name=${icon} />${value}${note ? html` <span>${note}</span>` : null}</span>`;
}

/** Statuses that nothing but an operator changes. */
export const ENDED = new Set(["completed", "failed", "cancelled"]);
