// The output of tasks: the view, and the entries of one step. Their module is loaded when they are shown.
import { html } from "../../vendor/preact.js";
import { Later } from "../../components/later.js";

export const Logs = (props) => html`<${Later} load=${async () => (await import("./log-lines.js")).Logs} ...${props} />`;
export const Entries = (props) => html`<${Later} load=${async () => (await import("./log-lines.js")).Entries} ...${props} />`;
