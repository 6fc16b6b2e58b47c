// The tests of a playbook's files, run by the local console.
import { html } from "../vendor/preact.js";
import { post } from "../core/api.js";
import { duration, plural } from "../core/format.js";
import { useData } from "../core/poll.js";
import { Dialog } from "./dialog.js";
import { bdi, Busy, Refused } from "./parts.js";

const ELSEWHERE = [403, 404, 405]; // statuses of an API that runs no tests

export function Tests({ path, source, onClose }) {
  const { data, error, loading, again } = useData((signal) => post("console/tests", { path, source }, { signal }), [], { fresh: true });
  const passed = data?.results.filter((each) => each.passed).length;
  return html`<${Dialog} title="Tests of this text" onClose=${onClose} wide>
    ${loading ? html`<${Busy} what="Testing" />` : error ? ELSEWHERE.includes(error.status) ? html`<p>Tests run on the machine of the author, where the file and its tests are: <code>noetl test FILE</code>, or the console of a local store, started in the folder of the file.</p>` : html`<${Refused} error=${error} again=${again} />`
    : data.files.length === 0 ? html`<p>No test file below <code>${data.folder}</code> tests a file with this path. <code>noetl record ID</code> makes a test of an execution; the console looks in the folder in which it was started.</p>`
    : html`<p role="status"><b class=${passed === data.results.length ? "tone-ok" : "tone-bad"}>${passed} of ${plural(data.results.length, "test")} passed</b> with this text, in ${duration(data.seconds * 1000)}.</p>
      ${data.problems.map((text) => html`<pre class="text" tabindex="0"><bdi>${text}</bdi></pre>`)}
      <ul class="tests">${data.results.map((each) => html`<li><span class=${each.passed ? "tone-ok" : "tone-bad"}>${each.passed ? "passed" : "failed"}</span> ${bdi(each.name, 120)} <span class="soft">${bdi(`${each.file}:${each.line}`, 120)}</span>${each.findings.length ? html`<ul>${each.findings.map((f) => html`<li><span class="soft">line ${f.line}</span> <bdi>${f.text}</bdi></li>`)}</ul>` : null}</li>`)}</ul>
      <div><button class="button" onClick=${again}>Test again</button></div>`}<//>`;
}
