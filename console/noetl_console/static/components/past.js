// The outcomes of earlier answers to a question.
import { html } from "../vendor/preact.js";
import { atRun } from "../core/api.js";
import { duration, money, number, oneLine, plural, shortId, stored } from "../core/format.js";
import { useGet } from "../core/poll.js";
import { href } from "../core/router.js";
import { bdi, Busy, Table } from "./parts.js";

/** The outcomes, for the question with the wait id `wait` in the execution `id`; nothing if it no longer waits. */
export function Past({ id, wait }) {
  const found = useGet(atRun(id, "past-answers"), { wait_id: wait });
  if (found.error) return found.error.status === 404 ? null : html`<p class="soft">The outcomes of earlier answers are unreadable: ${found.error.message}</p>`;
  if (!found.data) return html`<${Busy} what="Reading earlier answers" />`;
  const { answers, read, more } = found.data;
  const of = `${plural(read, "ended execution")} of this playbook${more ? "; more are kept" : ""}`;
  if (!answers.length) return html`<p class="soft past">${read ? `No earlier answer in the logs of ${of}.` : "No execution of this playbook has ended yet."}</p>`;
  return html`<section class="past" aria-label="Earlier answers"><${Table} label="Outcomes of earlier answers" heads=${["Answer", "Led to", ["Took", "right"], ["Cost", "right"], "Newest"]}>
    ${answers.map((a) => html`<tr key=${a.answer}><td class="nowrap"><b>${bdi(a.words, 60)}</b> <span class="soft">${number(a.count)} ×</span></td>
      <td>${Object.entries(a.statuses).map(([status, n]) => html`<span class="nowrap ${status === "failed" ? "tone-bad" : ""}">${number(n)} ${status}</span> `)}</td><td class="right number nowrap">${duration(a.duration_ms)}</td><td class="right number nowrap">${a.cost === null ? "" : money(a.cost)}</td>
      <td>${a.newest.map((e) => html`<span class="sub"><a class="mono" href=${href(["executions", e.execution_id])}>${shortId(e.execution_id)}</a> ${e.error ? html`<span class="tone-bad">${bdi(e.error, 80)}</span>` : e.result === undefined || e.result === null ? e.status : bdi(stored(e.result) || e.result, 80)}</span>`)}</td></tr>`)}<//>
    <p class="soft">From the logs of ${of}; durations and costs are medians.</p></section>`;
}
