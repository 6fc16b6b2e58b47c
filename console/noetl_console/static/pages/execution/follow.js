// Follows one execution: its status and steps, updated with the changes since the last request.
import { useRef } from "../../vendor/preact.js";
import { atRun, getChanged } from "../../core/api.js";
import { useData } from "../../core/poll.js";

const RUNNING_MS = 1000;
const ENDED_MS = 15000;

/** `{head, steps, version, error, look}`: `head` is the newest answer, `steps` all steps that were reached, by their names; `version` grows
 * with each change; `look()` asks at once. */
export function useChanges(id) {
  const known = useRef({});
  const look = async (signal) => {
    let now = known.current.id === id ? known.current : { id, steps: {}, version: 0 };
    for (let more = true; more; ) {
      const query = now.cursor ? { after: now.cursor, limit: 1000, fields: "event_id" } : { limit: 0 };
      const found = await getChanged(atRun(id, "changes"), query, now.etag, { signal });
      if (found === null) break;
      const { steps, events, cursor, ...head } = found.body;
      now = { id, cursor, etag: found.etag, head, steps: { ...now.steps, ...steps }, version: now.version + 1 };
      more = head.more;
    }
    return (known.current = now);
  };
  const { data, error, again } = useData(look, [id], { every: (now) => (now?.head.ended ? ENDED_MS : RUNNING_MS) });
  const { head = null, steps = {}, version = 0 } = data?.id === id ? data : {}; // not that of another execution, until this one is read
  return { head, steps, version, error, look: again };
}
