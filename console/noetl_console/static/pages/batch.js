// One action on many executions: the chosen ones, or all that fit the filters. A preview lists them first.
import { html, useEffect, useState } from "../vendor/preact.js";
import { pages, post } from "../core/api.js";
import { number, plural, shortId } from "../core/format.js";
import { href } from "../core/router.js";
import { Dialog } from "../components/dialog.js";
import { Check, Choice, COMPENSATE, Field } from "../components/fields.js";
import { bdi, Refused } from "../components/parts.js";
import { Status } from "../components/status.js";

const MOST = 1000; // executions of one batch
const AT_ONCE = 50;
const SHOWN = 8;
const ACTIONS = { cancel: ["Cancel", "cancelled"], pause: ["Pause", "paused"], resume: ["Resume", "resumed"], redrive: ["Redrive", "redriven"] };

/** The dialog for the chosen `ids`, or with null for all that fit `filters` (of the address). Calls `onClose(done)`; `done` is true if anything was done. */
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
  const send = async () => {
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
  return html`<${Dialog} title=${ids ? `Act on ${plural(ids.length, "chosen execution")}` : "Act on all that fit"} onClose=${() => onClose(Boolean(work))} send=${send} act=${work?.over ? "" : `${word} ${would.length ? plural(would.length, "execution") : ""}`} look=${action === "cancel" ? "danger" : "primary"} disabled=${!would.length || Boolean(work)}>
    ${ids ? null : html`<p class="soft">Filters: ${said(filters)}.</p>`}
    <div class="field"><${Choice} id="batch-action" label="Action" seen options=${Object.entries(ACTIONS).map(([name, [words]]) => [name, words])} value=${action} disabled=${Boolean(work)} change=${(name) => (setAction(name), setGiven({}))} /></div>
    ${action === "cancel" ? html`<${Field} id="batch-reason" label="Reason, for the record" value=${given.reason ?? ""} change=${(text) => set("reason", text)} />
      <${Check} label=${COMPENSATE} checked=${Boolean(given.compensate)} change=${(on) => set("compensate", on)} />` : null}
    ${action === "redrive" ? html`<${Field} id="batch-from" label="From" class="mono" placeholder="where each failed" value=${given.from ?? ""} change=${(text) => set("from", text.trim())} hint=${html`<code>STEP</code> or <code>STEP/TASK</code>; empty: where each failed`} />` : null}
    ${wrong ? html`<${Refused} error=${wrong} />` : null}
    ${work ? html`<${Work} work=${work} past=${past} />` : plan ? html`<${Plan} plan=${plan} past=${past} />` : wrong ? null : html`<p class="soft" role="status">Loading the preview…</p>`}<//>`;
}

/** Filters in words. */
function said(filters) {
  const parts = ["status", "path", "label", "since", "until", "q", "search"].filter((name) => filters[name]).map((name) => `${{ q: "search", search: "attributes" }[name] ?? name} ${filters[name]}`);
  return html`${bdi(parts.join(", ") || "none (the whole list)", 200)}`;
}

/** The executions that would accept the action, and those that would refuse it: `{would, refused, more}`. */
async function planned(ids, filters, action, signal) {
  const chosen = ids ?? (filters.label || filters.q || filters.search ? await fitting(filters, signal) : null);
  const found = { would: [], refused: [], more: (chosen?.length ?? 0) >= MOST };
  const add = ({ executions }) => {
    for (const each of executions) (each.outcome === "would" ? found.would : found.refused).push(each);
  };
  if (chosen) {
    for (let i = 0; i < chosen.length; i += AT_ONCE) add(await post("executions/batch", { filter: { ids: chosen.slice(i, i + AT_ONCE) }, action, preview: true }, { signal }));
    return found;
  }
  const { status, path, since, until } = filters;
  const filter = { ...(status ? { status } : {}), ...(path ? { path } : {}), ...(since ? { since } : {}), until: until || new Date().toISOString() };
  for (let cursor = null; found.would.length < MOST; ) {
    const page = await post("executions/batch", { filter, action, preview: true, limit: 100, ...(cursor ? { cursor } : {}) }, { signal });
    add(page);
    cursor = page.cursor;
    if (!cursor) return found;
  }
  return { ...found, would: found.would.slice(0, MOST), more: true };
}

/** Ids of executions by filters that a batch does not have. */
async function fitting(filters, signal) {
  const found = [];
  for await (const { executions } of pages("executions", { ...filters, limit: 100 }, { signal })) {
    found.push(...executions.map((e) => e.execution_id));
    if (found.length >= MOST) break;
  }
  return found.slice(0, MOST);
}

function Plan({ plan, past }) {
  const { would, refused, more } = plan;
  return html`<section class="form" aria-label="Preview" aria-live="polite"><h3>Preview</h3>
    <p>${would.length ? html`<b>${plural(would.length, "execution")}</b> would be ${past}.` : `None would be ${past}.`}${refused.length ? html` <span class="soft">${plural(refused.length, "other")} would not: ${refused.length === 1 ? "its present status does" : "their present statuses do"} not allow it.</span>` : null}${more ? html` <span class="tone-wait">These are the first ${number(MOST)}. Repeat the action for the others.</span>` : null}</p>
    <${Some} of=${would} /></section>`;
}

/** A table of the first executions. */
function Some({ of }) {
  if (!of.length) return null;
  return html`<div class="scroll box" tabindex="0" role="group" aria-label="Executions"><table><tbody>${of.slice(0, SHOWN).map((e) => html`<tr><td><${Status} value=${e.status} /></td><td class="anywhere">${bdi(e.playbook?.path ?? "", 80)}</td><td class="mono"><a href=${href(["executions", e.execution_id])} target="_blank">${shortId(e.execution_id)}</a></td>${e.error ? html`<td class="anywhere">${bdi(e.error.message, 120)}</td>` : null}</tr>`)}</tbody></table>
    ${of.length > SHOWN ? html`<p class="soft">and ${plural(of.length - SHOWN, "other")}</p>` : null}</div>`;
}

function Work({ work, past }) {
  const { done, refused, of, over } = work;
  return html`<section class="form" aria-label="Result" aria-live="polite"><p>${over ? "" : html`<span class="busy" aria-hidden="true"></span> `}<b>${number(done)}</b> of ${plural(of, "execution")} ${done === 1 ? "is" : "are"} ${past}${over ? "." : "…"}${refused.length ? html` <span class="tone-bad">${number(refused.length)} refused it:</span>` : null}</p><${Some} of=${refused} /></section>`;
}
