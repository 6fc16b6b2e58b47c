// The longest executions. The index sorts them only by start, so a number of matching ones are read and sorted here.
import { get } from "../core/api.js";

const READ = 500;
const SHOWN = 50;

/** A page of the longest among the newest that fit. `order` has their number; `told(n)` receives the number searched. */
export async function longest(fitting, signal, told) {
  const read = [];
  let cursor;
  let searched = 0;
  do {
    const page = await get("executions", { ...fitting, cursor, limit: READ - read.length }, { signal });
    told((searched += page.searched));
    read.push(...page.executions);
    cursor = page.cursor;
  } while (cursor && read.length < READ);
  const took = (row) => (row.redrive ?? row).duration_ms;
  return { executions: read.sort((a, b) => took(b) - took(a)).slice(0, SHOWN), long: true, order: `The longest of ${cursor ? `the newest ${read.length} that fit; older ones were not read.` : `all ${read.length} that fit.`}` };
}
