// Registering a text: first its differences to the newest registered version.
import { html, useState } from "../vendor/preact.js";
import { atPlaybook, get, post } from "../core/api.js";
import { oneLine } from "../core/format.js";
import { useData } from "../core/poll.js";
import { Dialog } from "./dialog.js";
import { Diff } from "./diff.js";
import { Busy, Refused } from "./parts.js";

const ABSENT = 404;

/** The dialog; calls `done(answer)` with the registered version. */
export function Register({ path, source, done, onClose }) {
  const [wrong, setWrong] = useState(null);
  const newest = useData((signal) => get(atPlaybook(path), {}, { signal }), [path], { fresh: true });
  const absent = newest.error?.status === ABSENT;
  const send = async () => {
    try {
      done(await post("playbooks", source));
    } catch (error) {
      setWrong(error);
    }
  };
  const found = newest.data;
  return html`<${Dialog} title=${`Register ${oneLine(path, 80)}`} onClose=${onClose} send=${send} act="Register" wide disabled=${newest.loading}>
    ${newest.loading ? html`<${Busy} what="Reading the newest version" />` : absent ? html`<p>No playbook of this path is registered: this is its first version.</p>` : newest.error ? html`<${Refused} error=${newest.error} />` : html`<p>Compared with version ${found.version}, the newest, which executions use now:</p><${Diff} before=${found.source} after=${source} label="Differences" />`}
    ${wrong ? html`<${Refused} error=${wrong} />` : null}<//>`;
}
