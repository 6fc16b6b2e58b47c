// Requests data once, or polls for it.
import { useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "./api.js";

const SLOWEST_MS = 30000;
const IDLE_MS = 8000; // interval to which the requests of an idle page slow down; each poll multiplies it by the number of polls
const GROWTH = 1.5;
let polls = 0; // number of active polls

/** `{data, error, loading, again}`: the data that `ask(signal)` resolves to. They are requested again when `deps` change, and every
 * `every` milliseconds while the page is visible (0: never; may be a function of the data), less and less often while the answer stays
 * the same. Old data stay until new ones arrive, unless `fresh`. */
export function useData(ask, deps, { every = 0, fresh = false } = {}) {
  const [state, set] = useState({ data: null, error: null, loading: true });
  const current = useRef(null);
  const latest = useRef(ask);
  latest.current = ask;
  const period = useRef(every);
  period.current = every;

  useEffect(() => {
    let timer = 0;
    let over = false;
    let failures = 0;
    let still = 0; // answers that were as the one before
    let before;
    let answered = false; // since deps are these
    let abort = new AbortController();
    set((s) => (s.loading && !fresh ? s : { data: fresh ? null : s.data, error: null, loading: true }));
    const look = async () => {
      clearTimeout(timer);
      let data = null;
      try {
        data = await latest.current(abort.signal);
        if (over) return;
        failures = 0;
        answered = true;
        still = data === before ? still + 1 : 0;
        before = data;
        set((s) => (s.data === data && !s.error && !s.loading ? s : { data, error: null, loading: false }));
      } catch (error) {
        if (over || error.name === "AbortError") return;
        failures += 1;
        set((s) => ({ data: answered ? s.data : null, error, loading: false }));
      }
      const ms = typeof period.current === "function" ? period.current(data) : period.current;
      if (ms && !document.hidden) timer = setTimeout(look, Math.min(Math.max(failures ? SLOWEST_MS : 0, IDLE_MS * polls, ms), ms * 2 ** failures * GROWTH ** still));
    };
    const polled = period.current && !(period.current > SLOWEST_MS) ? 1 : 0;
    polls += polled;
    const seen = () => {
      if (!document.hidden && period.current) look();
    };
    current.current = () => {
      abort.abort();
      abort = new AbortController();
      still = 0;
      return look();
    };
    document.addEventListener("visibilitychange", seen);
    look();
    return () => {
      over = true;
      polls -= polled;
      clearTimeout(timer);
      abort.abort();
      document.removeEventListener("visibilitychange", seen);
    };
  }, deps);

  return { ...state, again: () => current.current?.() };
}

/** The same for the answer of `/api/WHAT` to `query`; no request if `what` is empty. It is requested again, too, when `deps` change. */
export const useGet = (what, query = {}, { deps = [], ...how } = {}) => useData((signal) => (what ? get(what, query, { signal }) : null), [what, JSON.stringify(query), ...deps], how);
