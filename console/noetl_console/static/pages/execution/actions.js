// The actions on an execution, and its waits, with the form that answers a callback.
import { html, useState } from "../../vendor/preact.js";
import { atRun, post } from "../../core/api.js";
import { dateTime, waitWords, plural, shortId } from "../../core/format.js";
import { useKeys } from "../../core/keys.js";
import { notify } from "../../core/notices.js";
import { href } from "../../core/router.js";
import { Answer } from "../../components/answer.js";
import { Dialog } from "../../components/dialog.js";
import { Check, COMPENSATE, Field, JsonField } from "../../components/fields.js";
import { Icon } from "../../components/icons.js";
import { bdi, Refused } from "../../components/parts.js";
import { ENDED } from "../../components/status.js";
import { Redrive } from "./redrive.js";

export function Actions({ run }) {
  const { id, head } = run;
  const [asked, ask] = useState("");
  const over = ENDED.has(head.status);
  const held = head.status === "paused" || head.status === "stuck";
  const act = async (what, body = {}) => {
    try {
      const done = await post(atRun(id, what), body);
      notify(`The execution is ${done.status}`);
      run.look();
    } catch (error) {
      notify(error.message, "bad");
    }
  };
  const close = () => ask("");
  useKeys([
    { keys: "p", what: over ? "(Pause)" : held ? "Resume" : "Pause", run: () => over || act(held ? "resume" : "pause") },
    { keys: "c", what: "Cancel…", run: () => over || ask("cancel") },
    { keys: "r", what: "Redrive…", run: () => over && ask("redrive") },
  ]);
  return html`<div class="actions">
    <a class="button" href=${href(["compare"], { a: id })}><${Icon} name="compare" />Compare…</a>
    ${over || head.status === "cancelling" ? null : held ? html`<button class="button primary" onClick=${() => act("resume")}><${Icon} name="play" />Resume</button>` : html`<button class="button" onClick=${() => act("pause")}><${Icon} name="pause" />Pause</button>`}
    ${over ? null : html`<button class="button" onClick=${() => ask("signal")}><${Icon} name="signal" />Signal…</button>
      <button class="button danger" onClick=${() => ask("cancel")}><${Icon} name="ban" />Cancel…</button>`}
    ${over ? html`<button class="button ${head.status === "failed" ? "primary" : ""}" onClick=${() => ask("redrive")}><${Icon} name="retry" />Redrive…</button>` : null}
    ${asked === "cancel" ? html`<${Cancel} act=${act} onClose=${close} />` : null}
    ${asked === "signal" ? html`<${Signal} run=${run} onClose=${close} />` : null}
    ${asked === "redrive" ? html`<${Redrive} run=${run} begin="" onClose=${close} />` : null}
  </div>`;
}

function Cancel({ act, onClose }) {
  const [reason, setReason] = useState("");
  const [compensate, setCompensate] = useState(false);
  const send = () => {
    act("cancel", { ...(reason ? { reason } : {}), ...(compensate ? { compensate } : {}) });
    onClose();
  };
  return html`<${Dialog} title="Cancel the execution" onClose=${onClose} leave="Keep it" send=${send} act="Cancel the execution" look="danger">
    <p>Nothing new starts, open runs and children end. A redrive can take it up again.</p>
    <${Field} id="reason" label="Reason, for the record" value=${reason} change=${setReason} />
    <${Check} label=${COMPENSATE} checked=${compensate} change=${setCompensate} /><//>`;
}

function Signal({ run, onClose }) {
  const waited = (run.head.waiting_for ?? []).find((w) => w.signal)?.signal ?? "";
  const [name, setName] = useState(waited);
  const [data, setData] = useState({});
  const [wrong, setWrong] = useState(null);
  const send = async () => {
    try {
      await post("events", { execution_id: run.id, name, data: data ?? null });
      notify(`The signal ${name} was sent`);
      run.look();
      onClose();
    } catch (error) {
      setWrong(error);
    }
  };
  return html`<${Dialog} title="Send a signal" onClose=${onClose} send=${send} act="Send">
    <${Field} id="signal-name" label="Name" required value=${name} change=${setName} />
    <${JsonField} id="signal-data" label="Data" hint="JSON; the data of the signal" value=${data} change=${setData} />${wrong ? html`<${Refused} error=${wrong} />` : null}<//>`;
}

const SHOWN = 5;

export function Waits({ run }) {
  const waits = run.head.waiting_for ?? [];
  if (!waits.length || run.moment.at) return null;
  return html`<section class="waits" aria-label="Waits"><h2>Waits</h2><ul>${waits.slice(0, SHOWN).map((w) => html`<li key=${w.wait_id}><p>Waits for <b>${waitWords(w)}</b>${w.task ? html` in ${bdi(w.task, 60)}` : null}${w.until ? html` <span class="soft">until ${dateTime(w.until)}</span>` : null}${w.kind === "limit" ? html`<${Held} wait=${w} />` : null}</p>
      ${w.description ? html`<p class="text"><bdi>${w.description}</bdi></p>` : null}
      ${w.kind === "callback" && !w.signal ? html`<${Answer} callback=${w} execution_id=${run.id} done=${run.look} />` : null}</li>`)}</ul>
    ${waits.length > SHOWN ? html`<p class="soft">and ${plural(waits.length - SHOWN, "other")}</p>` : null}</section>`;
}

/** The start of a wait for a place in a limit, and the holders of its places. */
const Held = ({ wait }) => html` <span class="soft">${wait.position ? `as number ${wait.position} in the queue` : null}${wait.since ? html` since ${dateTime(wait.since)}` : null}${wait.held_by.length ? html`, held by ${wait.held_by.map((id, i) => html`${i ? ", " : ""}<a href=${href(["executions", id])}>${shortId(id)}</a>`)}${wait.held > wait.held_by.length ? ", …" : ""}` : null}</span>`;
