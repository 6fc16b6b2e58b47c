// What the execution waits for, with the form that answers a callback.
import { html, useState } from "../../vendor/preact.js";
import { get } from "../../core/api.js";
import { dateTime, limitWords, oneLine, plural, shortId } from "../../core/format.js";
import { useData } from "../../core/poll.js";
import { href } from "../../core/router.js";
import { Answer } from "../../components/answer.js";
import { Dialog } from "../../components/dialog.js";

const SHOWN = 5;

export function Waits({ run }) {
  const waits = run.head.waiting_for ?? [];
  const [answering, setAnswering] = useState(null);
  if (!waits.length || run.moment.at) return null;
  return html`<section class="waits" aria-label="Waits for"><ul>${waits.slice(0, SHOWN).map((w) => html`<li key=${w.wait_id}><span>Waits for <b>${words(w)}</b>${w.task ? html` in <bdi>${oneLine(w.task, 60)}</bdi>` : null}${w.description ? html`: <bdi>${oneLine(w.description, 200)}</bdi>` : null}${w.until ? html` <span class="soft">until ${dateTime(w.until)}</span>` : null}${w.kind === "limit" ? html`<${Held} wait=${w} />` : null}</span>
      ${w.kind === "callback" && !w.signal ? html`<button class="button" onClick=${() => setAnswering(w)}>Answer…</button>` : null}</li>`)}</ul>
    ${waits.length > SHOWN ? html`<p class="soft">and ${plural(waits.length - SHOWN, "other")}</p>` : null}
    ${answering ? html`<${Answering} run=${run} wait=${answering} onClose=${() => setAnswering(null)} />` : null}</section>`;
}

const words = (w) => (w.signal ? `the signal ${w.signal}` : w.kind === "callback" ? "an answer" : w.kind === "child" ? `the execution ${w.child}` : w.kind === "timer" ? "its time" : w.kind === "limit" ? limitWords(w) : w.kind);

/** Since when a place in a limit is waited for, and who holds those there are. */
const Held = ({ wait }) => html` <span class="soft">${wait.position ? `as number ${wait.position} of those that wait` : null}${wait.since ? html` since ${dateTime(wait.since)}` : null}${wait.held_by.length ? html`, held by ${wait.held_by.map((id, i) => html`${i ? ", " : ""}<a href=${href(["executions", id])}>${shortId(id)}</a>`)}${wait.held > wait.held_by.length ? ", …" : ""}` : null}</span>`;

function Answering({ run, wait, onClose }) {
  const path = run.summary?.playbook.path;
  const found = useData((signal) => listed(run.id, wait.wait_id, path, signal), [wait.wait_id]);
  return html`<${Dialog} title=${oneLine(wait.description ?? "Answer", 120)} onClose=${onClose}>
    ${found.loading ? html`<p class="soft">Reading what is asked…</p>` : html`<${Answer} callback=${found.data ?? wait} execution_id=${run.id} done=${() => { onClose(); run.look(); }} />`}<//>`;
}

/** The callback as the list of all that wait has it, with its schema. */
async function listed(id, wait_id, path, signal) {
  for (let cursor = null; ; ) {
    const page = await get("callbacks", { status: "waiting", path, cursor, limit: 100 }, { signal });
    const found = page.callbacks.find((c) => c.execution_id === id && c.wait_id === wait_id);
    if (found || !page.cursor) return found ?? null;
    cursor = page.cursor;
  }
}
