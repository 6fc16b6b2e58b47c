// Drafts: edited texts of playbooks, which stay in this browser until they are registered or discarded. One for each version.
const KEY = "noetl.draft.";
const MOST = 20;
const LONGEST = 256 * 1024; // characters of a text

/** The name of the draft of a playbook as the API answers it; that of a new one has no path. */
export const draftName = ({ path, version, digest = "" }) => `${path}@${version}@${digest}`;

/** `{text, at}`, or null. */
export function draftOf(name) {
  try {
    const found = JSON.parse(localStorage.getItem(KEY + name));
    return typeof found?.text === "string" ? found : null;
  } catch {
    return null;
  }
}

/** Keep a text; returns false if it is too long, or the browser keeps nothing. The oldest drafts make room. */
export function keepDraft(name, text) {
  if (text.length > LONGEST) return false;
  try {
    if (localStorage.getItem(KEY + name) === null) makeRoom();
    localStorage.setItem(KEY + name, JSON.stringify({ text, at: new Date().toISOString() }));
    return true;
  } catch {
    return false;
  }
}

export const discardDraft = (name) => {
  try {
    localStorage.removeItem(KEY + name);
  } catch {
    // a browser that keeps nothing has none
  }
};

const names = () => Object.keys(localStorage).filter((key) => key.startsWith(KEY)).map((key) => key.slice(KEY.length));

/** The versions of a playbook that have drafts. */
export function draftVersions(path) {
  try {
    return names().filter((name) => name.startsWith(`${path}@`)).map((name) => Number(name.split("@")[1]));
  } catch {
    return [];
  }
}

function makeRoom() {
  const by = names().map((name) => [draftOf(name)?.at ?? "", name]).sort();
  for (const [, name] of by.slice(0, Math.max(0, by.length - MOST + 1))) discardDraft(name);
}
