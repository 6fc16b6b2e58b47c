// What can be done to an execution now.
import { html, useState } from "../../vendor/preact.js";
import { path, post } from "../../core/api.js";
import { notify } from "../../core/notices.js";
import { useKeys } from "../../core/keys.js";
import { href } from "../../core/router.js";
import { Dialog } from "../../components/dialog.js";
import { Icon } from "../../components/icons.js";
import { Refused } from "../../components/parts.js";
import { JsonField } from "../../components/schema-form.js";
import { ENDED } from "../../components/status.js";
import { Redrive } from "./redrive.js";

export function Actions({ run }) {
  const { id, head } = run;
  const [asked, ask] = useState("");
  const over = ENDED.has(head.status);
  const held = head.status === "paused" || head.status === "stuck";
  const act = async (what, body = {}) => {
    try {
      const done = await post(`${path("executions", id)}/${what}`, body);
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
  const send = (event) => {
    event.preventDefault();
    act("cancel", { ...(reason ? { reason } : {}), ...(compensate ? { compensate } : {}) });
    onClose();
  };
  const footer = html`<button class="button" onClick=${onClose}>Keep it</button><button class="button danger" form="cancel" type="submit">Cancel the execution</button>`;
  return html`<${Dialog} title="Cancel the execution" onClose=${onClose} footer=${footer}><form id="cancel" class="form" onSubmit=${send}>
    <p>Nothing new starts, open runs and children end. A redrive can take it up again.</p>
    <div class="field"><label for="reason">Reason, for the record</label><input id="reason" type="text" value=${reason} onInput=${(e) => setReason(e.currentTarget.value)} /></div>
    <label class="field inline"><input type="checkbox" checked=${compensate} onChange=${(e) => setCompensate(e.currentTarget.checked)} />Then undo finished steps by their <code>compensate</code></label></form><//>`;
}

function Signal({ run, onClose }) {
  const waited = (run.head.waiting_for ?? []).find((w) => w.signal)?.signal ?? "";
  const [name, setName] = useState(waited);
  const [data, setData] = useState({});
  const [wrong, setWrong] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    try {
      await post("events", { execution_id: run.id, name, data: data ?? null });
      notify(`The signal ${name} was sent`);
      run.look();
      onClose();
    } catch (error) {
      setWrong(error);
    }
  };
  const footer = html`<button class="button" onClick=${onClose}>Close</button><button class="button primary" form="signal" type="submit">Send</button>`;
  return html`<${Dialog} title="Send a signal" onClose=${onClose} footer=${footer}><form id="signal" class="form" onSubmit=${send}>
    <div class="field"><label for="signal-name">Name</label><input id="signal-name" type="text" required value=${name} onInput=${(e) => setName(e.currentTarget.value)} /></div>
    <${JsonField} id="signal-data" label="Data" hint="JSON; what it brings" value=${data} change=${setData} />${wrong ? html`<${Refused} error=${wrong} />` : null}</form><//>`;
}
