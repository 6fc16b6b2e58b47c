// The redrive form: the place to begin, new values, and a preview of the parts that run again.
import { html, useEffect, useState } from "../../vendor/preact.js";
import { atPlaybook, atRun, get, post } from "../../core/api.js";
import { number, oneLine } from "../../core/format.js";
import { notify } from "../../core/notices.js";
import { Dialog } from "../../components/dialog.js";
import { Editor } from "../../components/editor.js";
import { Field, JsonField } from "../../components/fields.js";
import { bdi, Refused } from "../../components/parts.js";

const PAUSE_MS = 350;

/** `begin` is `STEP`, `STEP/TASK`, `STEP@617`, or empty: where it failed. */
export function Redrive({ run, begin, onClose }) {
  const [from, setFrom] = useState(begin);
  const [ctx, setCtx] = useState(undefined);
  const [args, setArgs] = useState(undefined);
  const [broken, setBroken] = useState({});
  const [source, setSource] = useState(null); // the playbook's text, where it is edited
  const [plan, setPlan] = useState(null);
  const [wrong, setWrong] = useState(null);
  const [busy, setBusy] = useState(false);
  const unfit = Object.values(broken).some(Boolean);
  const changed = source !== null && source.now !== source.before ? source.now : undefined;
  const body = { ...(from ? { from } : {}), ...(ctx ? { ctx } : {}), ...(args ? { args } : {}), ...(changed ? { playbook: changed } : {}) };
  const asked = JSON.stringify(body);

  useEffect(() => {
    if (unfit) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const done = await post(atRun(run.id, "redrive"), { ...body, preview: true }, abort);
        setPlan(done.redrive);
        setWrong(null);
      } catch (error) {
        if (error.name !== "AbortError") {
          setPlan(null);
          setWrong(error);
        }
      }
    }, plan || wrong ? PAUSE_MS : 0);
    return () => (abort.abort(), clearTimeout(timer));
  }, [asked, unfit]);

  const send = async () => {
    setBusy(true);
    try {
      await post(atRun(run.id, "redrive"), body);
      notify("It runs again");
      run.look();
      onClose();
    } catch (error) {
      setWrong(error);
      setBusy(false);
    }
  };
  const edit = async () => {
    try {
      const { playbook } = run.summary;
      const found = await get(atPlaybook(playbook.path), { version: playbook.version || undefined });
      setSource({ before: found.source, now: found.source });
    } catch (error) {
      setWrong(error);
    }
  };
  const json = (name, set) => (value, error) => {
    setBroken((b) => ({ ...b, [name]: Boolean(error) || (value !== undefined && (value === null || typeof value !== "object" || Array.isArray(value))) }));
    if (!error) set(value);
  };
  return html`<${Dialog} title="Redrive" onClose=${onClose} send=${send} act="Redrive" disabled=${busy || unfit || !plan} wide=${source !== null}>
    <${Field} id="redrive-from" label="From" class="mono" placeholder="where it failed" value=${from} change=${(text) => setFrom(text.trim())} hint=${html`<code>STEP</code>, <code>STEP/TASK</code>, <code>STEP@617</code> or <code>STEP/TASK@617</code> (an iteration; without a loop a visit of the task, from 1); empty: where it failed`} />
    <${JsonField} id="redrive-args" label="Arguments of the step to replace" hint=${'A JSON object such as {"rate": 2}; empty: as they were'} change=${json("args", setArgs)} rows="3" />
    <${JsonField} id="redrive-ctx" label="Keys of ctx to set" hint="A JSON object; objects merge. Empty: as it is" change=${json("ctx", setCtx)} rows="3" />
    ${source === null ? html`<div><button type="button" class="button" onClick=${edit} disabled=${!run.summary}>Edit the playbook…</button></div>` : html`<div class="field"><span class="label">Playbook${changed ? " (edited)" : ""}</span><${Editor} value=${source.before} language="yaml" label="Playbook" onChange=${(now) => setSource((s) => ({ ...s, now }))} /></div>`}
    ${unfit ? html`<p class="tone-bad">Arguments and ctx are JSON objects.</p>` : wrong ? html`<${Refused} error=${wrong} />` : plan ? html`<${Plan} plan=${plan} />` : html`<p class="soft">Loading the preview…</p>`}<//>`;
}

/** The tasks of a run; the first with its visit, where a task has several: `fetch@7`. */
const tasksOf = ({ tasks, kept_visits: visits }) => (visits ? tasks.map((task, n) => (n ? task : `${task}@${(visits[task] ?? 0) + 1}`)) : tasks);

/** The parts that would run again, and those that are kept. */
function Plan({ plan }) {
  const rows = [
    ...plan.again.map((r) => ["again", html`<b>${bdi(r.step, 60)}</b>${r.iterations ? html`: iterations ${oneLine(r.iterations.join(", ") || "none", 120)} <span class="soft">(${number(r.kept_iterations)} kept)</span>` : null}${r.tasks ? html`<span class="soft"> tasks ${oneLine(tasksOf(r).join(", "), 80)}</span>` : null}`]),
    ...[["then", plan.then], ["waits", plan.waiting], ["kept", plan.kept]].filter(([, names]) => names.length).map(([word, names]) => [word, html`${bdi(names.join(", "), 200)}`]),
  ];
  return html`<section aria-label="Preview" aria-live="polite"><h3>Preview</h3><dl class="facts">${rows.map(([word, what]) => html`<dt>${word}</dt><dd>${what}</dd>`)}</dl></section>`;
}
