// The history. Without filters, scrolling reaches any place of it at once, whatever its length. With filters, it is read from its end.
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { number, time } from "../../core/format.js";
import { put, route } from "../../core/router.js";
import { Choice, Filter } from "../../components/fields.js";
import { Json } from "../../components/json.js";
import { bdi, Empty, Refused } from "../../components/parts.js";
import { tone } from "../../components/status.js";
import { Virtual } from "../../components/virtual.js";

const PART = 200;
const ROW = 25;
const KEPT = 40; // parts
const FEW = 20; // number of matching events for which one request reads earlier pages
const PAGES = 5; // maximum number of pages that it reads for them
const FIELDS = "event_id,timestamp,name,status,step,task,iteration,attempt,source";

export function Events({ run }) {
  const { query } = route.value;
  const filters = { step: run.step ?? "", name: query.name ?? "", status: query.of ?? "" };
  const filtered = Object.values(filters).some(Boolean);
  return html`<div class="toolbar">
      <${Filter} id="event-name" label="Name" placeholder="Name, e.g. StepFailed" value=${filters.name} change=${(name) => put({ name })} />
      <${Choice} id="event-status" label="Status" options=${["", "error", "success", "in_progress", "paused"].map((s) => [s, s || "Every status"])} value=${filters.status} change=${(of) => put({ of })} />
      <${OfStep} run=${run} />
      <span class="spring"></span><span class="soft">${number(run.head.count)} events</span>
    </div>
    ${filtered ? html`<${Found} key=${JSON.stringify(filters)} run=${run} filters=${filters} />` : html`<${All} run=${run} />`}
    <${Shown} run=${run} />`;
}

/** Every event, in parts that are requested when they are scrolled to. */
function All({ run }) {
  const { id, moment, head } = run;
  const parts = useRef(new Map());
  const [error, setError] = useState(null);
  const [, drawn] = useReducer((n) => n + 1, 0);
  const wanted = useRef(null);
  const count = head.count;
  useEffect(() => {
    parts.current.clear(); // positions may shift while the execution is in progress
    drawn();
    wanted.current && load(...wanted.current);
  }, [run.version]);

  const load = (first, last) => {
    wanted.current = [first, last];
    for (let part = Math.floor(first / PART); part <= Math.floor(last / PART); part++) {
      if (part < 0 || part * PART >= count || parts.current.has(part)) continue;
      const kept = parts.current;
      kept.set(part, null);
      if (kept.size > KEPT) kept.delete(kept.keys().next().value);
      get(atRun(id, "events"), { at: part * PART, limit: PART, fields: FIELDS }).then(
        (page) => { kept.set(part, page.events); setError(null); drawn(); },
        (refused) => { kept.delete(part); setError(refused); },
      );
    }
  };
  const row = (i, style) => html`<${Line} key=${i} n=${i} event=${parts.current.get(Math.floor(i / PART))?.[i % PART]} style=${style} moment=${moment} />`;
  if (error) return html`<${Refused} error=${error} again=${() => { setError(null); load(...wanted.current); }} />`;
  return html`<${Virtual} count=${count} height=${ROW} row=${row} shown=${load} current=${moment.position ?? -1} tabindex="0" role="list" aria-label="Events" />`;
}

/** Events that fit filters, requested from the newest; `line` shows one of them. */
export function Found({ run, filters, fields = FIELDS, height = ROW, line = Line, label = "Events", none = "No event fits" }) {
  const { id } = run;
  const [found, set] = useState({ events: [], back: null, error: null, busy: true });
  const ask = async (more) => {
    set((f) => ({ ...f, busy: true }));
    try {
      let [events, back] = more ? [found.events, found.back] : [[], null];
      const enough = events.length + FEW;
      for (let pages = 0; pages < PAGES && (pages === 0 || (back && events.length < enough)); pages++) {
        const page = await get(atRun(id, "events"), { ...filters, ...(back ? { before: back, limit: PART } : { tail: PART }), fields });
        [events, back] = [[...page.events, ...events], page.back];
      }
      set({ events, back, error: null, busy: false });
    } catch (error) {
      set((f) => ({ ...f, error, busy: false }));
    }
  };
  useEffect(() => void ask(false), [run.version]);
  if (found.error) return html`<${Refused} error=${found.error} again=${() => ask(false)} />`;
  if (!found.events.length && !found.back) return html`<div class="content"><${Empty} title=${found.busy ? "Looking…" : none} /></div>`;
  const row = (i, style) => html`<${line} key=${i} event=${found.events[i]} style=${style} run=${run} moment=${run.moment} />`;
  return html`${found.back ? html`<div class="toolbar"><button class="button" disabled=${found.busy} onClick=${() => ask(true)}>Earlier ones</button></div>` : null}
    <${Virtual} count=${found.events.length} height=${height} row=${row} current=${found.events.length - 1} tabindex="0" role="list" aria-label=${label} />`;
}

function Line({ event, style, moment, n = "" }) {
  if (!event) return html`<div class="line soft" style=${style} role="listitem">…</div>`;
  const current = event.event_id === moment.at;
  return html`<div class="line ${current ? "current" : ""}" style=${style} role="listitem" onClick=${() => put({ at: event.event_id, n })}>
    <span class="number soft">${time(event.timestamp)}</span>
    <button tabindex="-1" class="button plain name tone-${tone(event.status)}" aria-current=${current ? "true" : undefined}><span class="cut">${event.name}</span></button>
    <span class="grow"><b>${bdi(event.step ?? "", 50)}</b>${event.task ? html`<span class="soft"> / ${bdi(event.task, 50)}</span>` : null}${event.iteration !== undefined ? html`<span class="soft"> @${[event.iteration].flat().join(".")}</span>` : null}${event.attempt > 1 ? html`<span class="tone-wait"> attempt ${event.attempt}</span>` : null}</span>
    <span class="soft">${event.source}</span></div>`;
}

/** The event of the time cursor. */
function Shown({ run }) {
  const { event } = run.moment;
  const value = useMemo(() => event?.data ?? null, [event]);
  if (!event) return null;
  return html`<div class="below" tabindex="0" role="region" aria-label="The event of this moment">
    <p><b>${event.name}</b> <span class="soft mono">${event.event_id}</span></p><${Json} value=${value} open=${2} /></div>`;
}

/** The step of a filtered list, and a button that removes the filter. */
export const OfStep = ({ run }) => (run.step ? html`<span class="tag"><span class="cut">step: <bdi>${run.step}</bdi></span></span><button class="button plain" onClick=${() => run.select("")}>every step</button>` : null);
