// The time cursor: which event of the past everything on the page is as of. Null: now.
import { useEffect, useRef, useState } from "../../vendor/preact.js";
import { get, path } from "../../core/api.js";
import { put } from "../../core/router.js";

/** `{event, position, seek, now, error}` of the event `at`, which is the `n`-th where that is known (`position` is null where it is not).
 * `seek(n)` goes to the n-th event; while one request is under way only the newest wish waits. */
export function useMoment(id, at, n) {
  const [found, set] = useState({ event: null, position: null, error: null });
  const wish = useRef(null);
  const busy = useRef(false);
  const loaded = useRef(null); // the event that `found` is

  const ask = async (where) => {
    const page = await get(`${path("executions", id)}/events`, { at: where, limit: 1 });
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
