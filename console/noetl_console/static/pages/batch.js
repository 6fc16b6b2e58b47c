// One action on many executions: on those chosen, or on all that fit the filters; what it would be done to is shown before it is.
import { html, useEffect, useState } from "../vendor/preact.js";
import { get, post } from "../core/api.js";
import { number, oneLine, plural, shortId } from "../core/format.js";
import { href } from "../core/router.js";
import { Dialog } from "../components/dialog.js";
import { Refused } from "../components/parts.js";
import { Status } from "../components/status.js";

const MOST = 1000; // executions of one batch
const AT_ONCE = 50;
const SHOWN = 8;
const ACTIONS = { cancel: ["Cancel", "cancelled"], pause: ["Pause", "paused"], resume: ["Resume", "resumed"], redrive: ["Redrive", "redriven"] };

/** `ids`: those chosen, or null: all that `filters` (of the address) fit. `onClose(done)` is told whether anything was done. */
export function Batch({ ids, filters, onClose }) {
  const [action, setAction] = useState(filters.status === "failed" || filters.status === "cancelled" ? "redrive" : "cancel");
  const [given, setGiven] = useState({});
  const [plan, setPlan] = useState(null);
  const [work, setWork] = useState(null); // {done, refused, at, over}
  const [wrong, setWrong] = useState(null);
  useEffect(() => {
    const abort = new AbortController();
    setPlan(null);
    setWrong(null);
    planned(ids, filters, action, abort.signal).then(setPlan, (error) => error.name === "AbortError" || setWrong(error));
    return () => abort.abort();
  }, [action]);

  const [word, past] = ACTIONS[action];
  const would = plan?.would ?? [];
  const send = async (event) => {
    event.preventDefault();
    const sum = { done: 0, refused: [], of: would.length, over: false };
    setWork({ ...sum });
    try {
      for (let i = 0; i < would.length; i += AT_ONCE) {
        const part = await post("executions/batch", { filter: { ids: would.slice(i, i + AT_ONCE).map((e) => e.execution_id) }, action, limit: AT_ONCE, ...(Object.keys(given).length ? { with: given } : {}) });
        sum.done += part.executions.filter((e) => e.outcome === "done").length;
        sum.refused = sum.refused.concat(part.executions.filter((e) => e.outcome !== "done"));
        setWork({ ...sum });
      }
    } catch (error) {
      setWrong(error);
    }
    setWork({ ...sum, over: true });
  };
  const set = (name, value) => setGiven(({ [name]: _, ...rest }) => (value ? { ...rest, [name]: value } : rest));
  const close = () => onClose(Boolean(work));
  const footer = html`<span class="spring"></span><button class="button" onClick=${close}>Close</button>${work?.over ? null : html`<button class="button ${action === "cancel" ? "danger" : "primary"}" type="submit" form="batch" disabled=${!would.length || Boolean(work)}>${word} ${would.length ? plural(would.length, "execution") : ""}</button>`}`;
  return html`<${Dialog} title=${ids ? `Act on ${plural(ids.length, "chosen execution")}` : "Act on all that fit"} onClose=${close} footer=${footer}><form id="batch" class="form" onSubmit=${send}>
    ${ids ? null : html`<p class="soft">Those of ${said(filters)}.</p>`}
    <div class="field"><label for="batch-action">Action</label><select id="batch-action" disabled=${Boolean(work)} onChange=${(e) => { setAction(e.currentTarget.value); setGiven({}); }}>${Object.entries(ACTIONS).map(([name, [words]]) => html`<option value=${name} selected=${name === action}>${words}</option>`)}</select></div>
    ${action === "cancel" ? html`<div class="field"><label for="batch-reason">Reason, for the record</label><input id="batch-reason" type="text" value=${given.reason ?? ""} onInput=${(e) => set("reason", e.currentTarget.value)} /></div>
      <label class="field inline"><input type="checkbox" checked=${Boolean(given.compensate)} onChange=${(e) => set("compensate", e.currentTarget.checked)} />Then undo finished steps by their <code>compensate</code></label>` : null}
    ${action === "redrive" ? html`<div class="field"><label for="batch-from">From</label><input id="batch-from" type="text" class="mono" placeholder="where each failed" value=${given.from ?? ""} onInput=${(e) => set("from", e.currentTarget.value.trim())} /><span class="hint"><code>STEP</code> or <code>STEP/TASK</code>; empty: where each failed</span></div>` : null}
    ${wrong ? html`<${Refused} error=${wrong} />` : null}
    ${work ? html`<${Work} work=${work} past=${past} />` : plan ? html`<${Plan} plan=${plan} past=${past} />` : wrong ? null : html`<p class="soft" role="status">Looking which they are…</p>`}</form><//>`;
}

/** In words, of what. */
function said(filters) {
  const parts = ["status", "path", "label", "since", "q"].filter((name) => filters[name]).map((name) => `${name === "q" ? "search" : name} ${filters[name]}`);
  return html`<bdi>${oneLine(parts.join(", ") || "the whole list", 200)}</bdi>`;
}

/** To which executions the action would be done, and which would refuse it: `{would, refused, more}`. */
async function planned(ids, filters, action, signal) {
  const chosen = ids ?? (filters.label || filters.q ? await fitting(filters, signal) : null);
  const found = { would: [], refused: [], more: (chosen?.length ?? 0) >= MOST };
  const add = ({ executions }) => {
    for (const each of executions) (each.outcome === "would" ? found.would : found.refused).push(each);
  };
  if (chosen) {
    for (let i = 0; i < chosen.length; i += AT_ONCE) add(await post("executions/batch", { filter: { ids: chosen.slice(i, i + AT_ONCE) }, action, preview: true }, { signal }));
    return found;
  }
  const { status, path, since } = filters;
  const filter = { ...(status ? { status: status === "retrying" ? "running" : status } : {}), ...(path ? { path } : {}), ...(since ? { since } : {}), until: new Date().toISOString() };
  for (let cursor = null; found.would.length < MOST; ) {
    const page = await post("executions/batch", { filter, action, preview: true, limit: 100, ...(cursor ? { cursor } : {}) }, { signal });
    add(page);
    cursor = page.cursor;
    if (!cursor) return found;
  }
  return { ...found, would: found.would.slice(0, MOST), more: true };
}

/** Ids of executions by filters that a batch does not have. */
async function fitting({ status, path, since, label, q }, signal) {
  const found = [];
  for (let cursor = null; found.length < MOST; ) {
    const page = await get("executions", { status: status === "retrying" ? "running" : status, path, since, label, q, cursor, limit: 100 }, { signal });
    found.push(...page.executions.map((e) => e.execution_id));
    cursor = page.cursor;
    if (!cursor) break;
  }
  return found.slice(0, MOST);
}

function Plan({ plan, past }) {
  const { would, refused, more } = plan;
  return html`<section class="form" aria-label="Preview" aria-live="polite"><h3>What would happen</h3>
    <p>${would.length ? html`<b>${plural(would.length, "execution")}</b> would be ${past}.` : `None would be ${past}.`}${refused.length ? html` <span class="soft">${plural(refused.length, "other")} would not, being what ${refused.length === 1 ? "it is" : "they are"} now.</span>` : null}${more ? html` <span class="tone-wait">These are the first ${number(MOST)}; do it again for the rest.</span>` : null}</p>
    <${Some} of=${would} /></section>`;
}

/** The first of them. */
function Some({ of }) {
  if (!of.length) return null;
  return html`<div class="scroll box" tabindex="0" role="group" aria-label="Executions"><table><tbody>${of.slice(0, SHOWN).map((e) => html`<tr><td><${Status} value=${e.status} /></td><td class="anywhere"><bdi>${oneLine(e.playbook?.path ?? "", 80)}</bdi></td><td class="mono"><a href=${href(["executions", e.execution_id])} target="_blank">${shortId(e.execution_id)}</a></td>${e.error ? html`<td class="anywhere"><bdi>${oneLine(e.error.message, 120)}</bdi></td>` : null}</tr>`)}</tbody></table>
    ${of.length > SHOWN ? html`<p class="soft">and ${plural(of.length - SHOWN, "other")}</p>` : null}</div>`;
}

function Work({ work, past }) {
  const { done, refused, of, over } = work;
  return html`<section class="form" aria-label="What was done" aria-live="polite"><p>${over ? "" : html`<span class="busy" aria-hidden="true"></span> `}<b>${number(done)}</b> of ${plural(of, "execution")} ${done === 1 ? "is" : "are"} ${past}${over ? "." : "…"}${refused.length ? html` <span class="tone-bad">${number(refused.length)} refused it:</span>` : null}</p><${Some} of=${refused} /></section>`;
}
