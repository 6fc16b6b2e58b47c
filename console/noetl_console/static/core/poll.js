// Asking for data, once or again and again.
import { useEffect, useRef, useState } from "../vendor/preact.js";
import { get } from "./api.js";

const SLOWEST_MS = 30000;

/** `{data, error, loading, again}` of what `ask(signal)` resolves to. Asked anew when `deps` change, and `every` so many milliseconds
 * while the page is seen (0: not; a function of the data). The data of before stay until the new ones are there, unless `fresh`. */
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
    let answered = false; // since deps are these
    let abort = new AbortController();
    if (fresh) set({ data: null, error: null, loading: true });
    const look = async () => {
      clearTimeout(timer);
      let data = null;
      try {
        data = await latest.current(abort.signal);
        if (over) return;
        failures = 0;
        answered = true;
        set((s) => (s.data === data && !s.error && !s.loading ? s : { data, error: null, loading: false }));
      } catch (error) {
        if (over || error.name === "AbortError") return;
        failures += 1;
        set((s) => ({ data: answered ? s.data : null, error, loading: false }));
      }
      const ms = typeof period.current === "function" ? period.current(data) : period.current;
      if (ms && !document.hidden) timer = setTimeout(look, Math.min(SLOWEST_MS, ms * 2 ** failures));
    };
    const seen = () => {
      if (!document.hidden && period.current) look();
    };
    current.current = () => {
      abort.abort();
      abort = new AbortController();
      return look();
    };
    document.addEventListener("visibilitychange", seen);
    look();
    return () => {
      over = true;
      clearTimeout(timer);
      abort.abort();
      document.removeEventListener("visibilitychange", seen);
    };
  }, deps);

  return { ...state, again: () => current.current?.() };
}

/** The same of what `/api/WHAT` answers to `query`: nothing, where there is no `what`. Asked anew too when `deps` change. */
export const useGet = (what, query = {}, { deps = [], ...how } = {}) => useData((signal) => (what ? get(what, query, { signal }) : null), [what, JSON.stringify(query), ...deps], how);
