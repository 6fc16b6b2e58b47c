// What is followed of one execution: its status and steps, kept current by what has changed since the last look.
import { useEffect, useRef, useState } from "../../vendor/preact.js";
import { getChanged, path } from "../../core/api.js";

const RUNNING_MS = 1000;
const ENDED_MS = 5000;
const SLOWEST_MS = 30000;

/** `{head, steps, version, error, look}`: `head` is the newest answer, `steps` all steps that were reached, by their names; `version` grows
 * with each change; `look()` asks at once. */
export function useChanges(id) {
  const [state, set] = useState({ id, head: null, steps: {}, version: 0, error: null });
  const look = useRef(() => {});

  useEffect(() => {
    const known = { cursor: null, etag: null, steps: {}, head: null, version: 0 };
    const abort = new AbortController();
    let timer = 0;
    let failures = 0;
    let busy = false;
    set({ id, head: null, steps: {}, version: 0, error: null });

    const ask = async () => {
      if (busy || abort.signal.aborted) return;
      busy = true;
      clearTimeout(timer);
      try {
        for (let more = true; more; ) {
          const query = known.cursor ? { after: known.cursor, limit: 1000, fields: "event_id" } : { limit: 0 };
          const found = await getChanged(`${path("executions", id)}/changes`, query, known.etag, abort);
          if (found === null) {
            set((s) => (s.error ? { ...s, error: null } : s));
            break;
          }
          const { steps, events, cursor, ...head } = found.body;
          Object.assign(known, { cursor, etag: found.etag, steps: { ...known.steps, ...steps }, head, version: known.version + 1 });
          more = head.more;
        }
        failures = 0;
        set((s) => (s.version === known.version && !s.error ? s : { id, head: known.head, steps: known.steps, version: known.version, error: null }));
      } catch (error) {
        if (error.name === "AbortError") return;
        failures += 1;
        set((s) => ({ ...s, error }));
      } finally {
        busy = false;
      }
      const ms = known.head?.ended ? ENDED_MS : RUNNING_MS;
      if (!document.hidden) timer = setTimeout(ask, Math.min(SLOWEST_MS, ms * 2 ** failures));
    };
    const seen = () => document.hidden || ask();
    look.current = ask;
    document.addEventListener("visibilitychange", seen);
    ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [id]);

  return { ...(state.id === id ? state : { head: null, steps: {}, version: 0, error: null }), look: () => look.current() };
}
