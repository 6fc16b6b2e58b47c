// Notices of completed and refused actions, shown for a while.
import { signal } from "../vendor/preact.js";

export const notices = signal([]);
let made = 0;

/** Say `text`; `tone` is `good` or `bad`. A bad notice stays until it is closed. */
export function notify(text, tone = "good") {
  const id = ++made;
  notices.value = [...notices.value.slice(-3), { id, text, tone }];
  if (tone === "good") setTimeout(() => dismiss(id), 5000);
}

export const dismiss = (id) => (notices.value = notices.value.filter((n) => n.id !== id));
