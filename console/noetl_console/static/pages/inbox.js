// The inbox: callbacks of all executions that wait for somebody's answer.
import { html } from "../vendor/preact.js";
import { pages } from "../core/api.js";
import { dateTime, iteration, oneLine } from "../core/format.js";
import { useData } from "../core/poll.js";
import { href, put, route } from "../core/router.js";
import { Answer } from "../components/answer.js";
import { bdi, Busy, Card, Empty, Refused, When } from "../components/parts.js";

const EVERY_MS = 4000;
const PAGES = 10;

export function Inbox() {
  const { query } = route.value;
  const found = useData((signal) => waiting(query.path, signal), [query.path], { every: EVERY_MS });
  const list = found.data?.callbacks ?? [];
  const keyOf = (c) => c && `${c.execution_id}.${c.wait_id}`;
  const opened = list.some((c) => keyOf(c) === query.open) ? query.open : keyOf(list[0]); // after an answer the next one
  const open = (key) => put({ open: key });
  return html`<div class="page">
    <header class="page-head"><h1>Inbox</h1><span class="soft">callbacks that wait for an answer</span><span class="spring"></span>
      ${query.path ? html`<span class="tag"><span class="cut">path: ${query.path}</span></span><button class="button plain" onClick=${() => put({ path: "" })}>any path</button>` : null}</header>
    ${found.error ? html`<${Refused} error=${found.error} again=${found.again} />` : null}
    ${found.loading ? html`<${Busy} what="Looking" />` : !list.length && !found.error ? html`<${Card}><${Empty} title="Nobody waits for you">Tasks of <code>kind: callback</code> that wait for an answer appear here.<//><//>` : null}
    <ul class="form">${list.map((c, n) => {
      const key = keyOf(c);
      return html`<li class="card" key=${key}><header>
        <div class="grow"><h2 class="anywhere"><bdi>${c.description ? oneLine(c.description, 500) : `${c.step} / ${c.task}`}</bdi></h2>
          <p class="soft"><a href=${href(["executions", c.execution_id])}>${bdi(c.playbook.path, 80)}</a> · step ${bdi(c.step, 60)}${c.iteration ? ` @${iteration(c.iteration)}` : ""} · started <${When} at=${c.started_at} />${c.until ? ` · until ${dateTime(c.until)}` : ""}</p></div>
        ${opened === key ? null : html`<button class="button" onClick=${() => open(key)}>Answer…</button>`}</header>
        ${opened === key ? html`<div class="inside"><${Answer} callback=${c} execution_id=${c.execution_id} done=${() => { open(keyOf(list[n + 1])); found.again(); }} /></div>` : null}</li>`;
    })}</ul>
    ${found.data?.more ? html`<p class="soft">There are more. They appear when these are answered.</p>` : null}
  </div>`;
}

/** All waiting callbacks, up to a number of pages. */
async function waiting(path, signal) {
  const callbacks = [];
  let read = 0;
  for await (const page of pages("callbacks", { status: "waiting", path, limit: 100 }, { signal })) {
    if (!page.cursor && !read) return page;
    callbacks.push(...page.callbacks);
    if (++read === PAGES) return { callbacks, more: page.cursor };
  }
  return { callbacks };
}
