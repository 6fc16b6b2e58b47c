// A trigger: its next firings in its zone and in the viewer's, and the outcomes of the last ones.
import { html } from "../vendor/preact.js";
import { ago, duration, plural } from "../core/format.js";
import { useGet } from "../core/poll.js";
import { href } from "../core/router.js";
import { bdi, Card, pending, Table } from "../components/parts.js";
import { tone } from "../components/status.js";

const EVERY_MS = 30000;
const LATE_MS = 90000; // the sweep each minute starts occurrences that no wake started
const LOWEST = 8; // pixels of the bar of the shortest one
const HIGHEST = 44;

/** `of` is a trigger as lists have it, at the path `at` of the API. */
export function Schedule({ of, at }) {
  const found = useGet(at, {}, { every: EVERY_MS });
  const wait = pending(found, "Reading the trigger");
  const { upcoming = [], firings = [] } = found.data ?? {};
  return html`<${Card} title=${html`${bdi(of.path, 80)} <span class="soft">${bdi(of.name, 60)}</span>`} label=${`Schedule of ${of.path}`}>${wait ?? html`<div class="inside form">
    <${Past} firings=${[...firings].reverse()} late=${LATE_MS + (of.source.jitter_s ?? 0) * 1000} />
    ${of.kind === "schedule" ? html`<${Next} upcoming=${upcoming} zone=${of.source.timezone ?? "UTC"} />` : null}</div>`}<//>`;
}

function Next({ upcoming, zone }) {
  const mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zones = [...new Set([zone, mine])];
  const form = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", hour12: false, timeZoneName: "short" };
  const clocks = zones.map((timeZone) => new Intl.DateTimeFormat(undefined, { ...form, timeZone }));
  if (!upcoming.length) return html`<p class="soft">It will not fire by itself: it is disabled, or has no occurrence left.</p>`;
  return html`<h3>Next ${plural(upcoming.length, "firing")}</h3>
    <${Table} label="Next firings" heads=${[...zones.map((z) => (z === zone ? `${z} (the schedule's${z === mine ? " and yours" : ""})` : `${z} (yours)`)), "In"]}>
      ${upcoming.map((each) => html`<tr key=${each}>${clocks.map((clock) => html`<td class="nowrap">${clock.format(new Date(each))}</td>`)}<td class="nowrap soft">${ago(each).replace("in ", "")}</td></tr>`)}<//>`;
}

/** A bar for each firing, the oldest first. Its height is the duration; it links to the execution. */
function Past({ firings, late }) {
  const all = firings.map((firing) => ({ ...firing, late_ms: firing.execution ? Date.parse(firing.execution.started_at) - Date.parse(firing.at) : 0 }));
  const longest = Math.max(1, ...all.map((f) => f.execution?.duration_ms ?? 0));
  const count = (words, fits) => (all.some(fits) ? `, ${all.filter(fits).length} ${words}` : "");
  const isLate = (f) => f.late_ms > late;
  return html`<h3>Past</h3>${all.length ? html`<ol class="strip" aria-label="Past firings">${all.map((f) => html`<li key=${f.id}><${Bar} of=${f} late=${isLate(f)} height=${LOWEST + (HIGHEST - LOWEST) * Math.sqrt((f.execution?.duration_ms ?? 0) / longest)} /></li>`)}</ol>
    <p class="soft">${plural(all.length, "firing")}${count("late", isLate)}${count("failed", (f) => f.execution?.status === "failed")}${count("not started", (f) => f.result !== "started")}. The height is the duration, at most ${duration(longest)}; a late one has a dot.</p>` : html`<p class="soft">It has not fired within seven days.</p>`}`;
}

function Bar({ of: f, late, height }) {
  const { status, duration_ms, started_at } = f.execution ?? {};
  const clock = new Date(f.at).toLocaleString();
  const words = `${clock}: ${status ? `${status}, ${status === "running" ? "for" : "took"} ${duration(duration_ms)}${late ? `, started ${duration(f.late_ms)} late` : ""}` : `${f.result}${f.reason ? `: ${f.reason}` : ""}`}`;
  const bar = html`<i class=${tone(status) === "idle" ? "idle" : tone(status)} style=${{ height: `${Math.round(height)}px` }}></i>${late ? html`<b class="late"></b>` : null}`;
  return f.execution_id ? html`<a href=${href(["executions", f.execution_id])} aria-label=${words} title=${started_at ? `${words} (${started_at})` : words}>${bar}</a>` : html`<span role="img" aria-label=${words} title=${words}>${bar}</span>`;
}
