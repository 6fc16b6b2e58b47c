// The time cursor: the event as of which the page shows everything (null: now), and the slider that moves it.
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { atRun, get } from "../../core/api.js";
import { number, time } from "../../core/format.js";
import { useKeys } from "../../core/keys.js";
import { put } from "../../core/router.js";
import { Icon } from "../../components/icons.js";

/** `{event, position, seek, now, error}` of the event `at`, which is the `n`-th where that is known (`position` is null where it is not).
 * `seek(n)` goes to the n-th event; calls during a request replace each other: only the last one waits. */
export function useMoment(id, at, n) {
  const [found, set] = useState({ event: null, position: null, error: null });
  const wish = useRef(null);
  const busy = useRef(false);
  const loaded = useRef(null); // the event that `found` is

  const ask = async (where) => {
    const page = await get(atRun(id, "events"), { at: where, limit: 1 });
    return { event: page.events[0] ?? null, position: page.position ?? (Number.isInteger(n) ? n : null), error: null };
  };
  const seek = async (position) => {
    wish.current = position;
    if (busy.current) return;
    busy.current = true;
    try {
      while (wish.current !== null) {
        const wanted = wish.current;
        wish.current = null;
        const next = await ask(wanted);
        if (next.event) {
          loaded.current = next.event.event_id;
          set(next);
          put({ at: next.event.event_id, n: next.position });
        }
      }
    } catch (error) {
      set((f) => ({ ...f, error }));
    } finally {
      busy.current = false;
    }
  };
  const now = () => {
    wish.current = null;
    loaded.current = null;
    set({ event: null, position: null, error: null });
    put({ at: "", n: "" });
  };

  useEffect(() => {
    if (!at) {
      loaded.current = null;
      set({ event: null, position: null, error: null });
    } else if (at !== loaded.current) {
      let over = false;
      ask(at).then((next) => over || ((loaded.current = at), set(next)), (error) => over || set({ event: null, position: null, error }));
      return () => (over = true);
    }
    return undefined;
  }, [id, at]);

  return { ...found, at: at || null, seek, now };
}

export function Slider({ head, moment }) {
  const { count } = head;
  const last = Math.max(0, count - 1);
  const exact = !moment.event || moment.position !== null;
  const position = moment.position ?? (moment.event ? about(head, moment.event, last) : last);
  const by = (n) => count && moment.seek(Math.max(0, Math.min(last, position + n)));
  useKeys([
    { keys: "[", what: "To the event before", run: () => by(-1) },
    { keys: "]", what: "To the next event", run: () => by(1) },
    { keys: "{", what: "100 events back", run: () => by(-100) },
    { keys: "}", what: "100 events on", run: () => by(100) },
    { keys: "0", what: "To the present", run: moment.now },
  ]);
  const event = moment.event;
  const words = event ? `${event.name}${event.step ? ` ${event.step}` : ""}` : "now";
  return html`<div class="slider" role="group" aria-label="Time">
    <button class="button plain" onClick=${() => moment.seek(0)} aria-label="To the first event" title="To the first event"><${Icon} name="first" /></button>
    <button class="button plain" onClick=${() => by(-1)} disabled=${position <= 0} aria-label="To the event before" title="To the event before ( [ )"><${Icon} name="left" /></button>
    <input type="range" min="0" max=${last} value=${position} disabled=${!count} aria-label="Event" aria-valuetext=${`${number(position + 1)} of ${number(count)}: ${words}`}
      onInput=${(e) => moment.seek(Number(e.currentTarget.value))} />
    <button class="button plain" onClick=${() => by(1)} disabled=${!moment.at || position >= last} aria-label="To the next event" title="To the next event ( ] )"><${Icon} name="right" /></button>
    <span class="where"><span class="number">${exact ? "" : "about "}${number(Math.min(position + 1, count))}</span><span class="soft"> of ${number(count)}</span></span>
    <span class="event cut" title=${event?.event_id}>${event ? html`<span class="number soft">${time(event.timestamp)}</span> <b>${event.name}</b> <bdi>${event.step ?? ""}</bdi>${event.iteration !== undefined ? ` ${[event.iteration].flat().join(".")}` : ""}` : html`<span class="soft">as it is now</span>`}</span>
    <button class="button" onClick=${moment.now} disabled=${!moment.at} title="To the present ( 0 )">Now</button>
  </div>`;
}

/** The approximate position of an event, estimated from its time. */
function about(head, event, last) {
  const [began, at] = [Date.parse(head.started_at), Date.parse(event.timestamp)];
  return Math.max(0, Math.min(last, Math.round((last * (at - began)) / Math.max(1, head.duration_ms))));
}
