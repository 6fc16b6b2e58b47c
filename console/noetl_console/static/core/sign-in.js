// Signing in where the API takes tokens: at the user pool's own page (code grant with PKCE), or with a token that is pasted. Tokens are in the memory of this
// module and nowhere else. Only the proof that the answer is ours is kept on the way to that page and back.
import { signal } from "../vendor/preact.js";
import { access } from "./api.js";

const ASKED = "noetl-sign-in"; // {state, verifier, hash}, while the pool's page is open
const BEFORE = "noetl-signed-in"; // the user has signed in there in this tab: after a reload, the console goes to that page by itself
const EARLY_MS = 30000;

let settings = {};
let tokens = null; // {access, refresh, until}
let waiting = [];
let refreshing = null;

/** `{out, error, page}`: true if the user has to sign in, the reason why that failed before, and true if there is a page for it. */
export const session = signal({ out: false, error: "", page: false });

/** Read the sign-in settings, and sign in if that needs no input. */
export async function begin(where) {
  settings = await (await fetch(where, { cache: "no-cache" })).json();
  if (settings.auth !== "JWT") return;
  access.value = { token, refused, leave };
  const query = new URLSearchParams(location.search);
  const answered = query.has("state");
  const asked = JSON.parse(sessionStorage.getItem(ASKED) ?? "null");
  const before = sessionStorage.getItem(BEFORE);
  sessionStorage.removeItem(ASKED);
  sessionStorage.removeItem(BEFORE);
  if (!answered) {
    if (settings.sign_in && before) await leaveFor();
    else out("");
    return;
  }
  history.replaceState(null, "", location.pathname + (asked?.hash ?? ""));
  dispatchEvent(new HashChangeEvent("hashchange"));
  if (query.get("state") !== asked?.state) out("This answer belongs to no sign-in of this tab.");
  else if (!query.has("code")) out(query.get("error_description") ?? query.get("error") ?? "Nobody signed in.");
  else await granted({ grant_type: "authorization_code", code: query.get("code"), redirect_uri: here(), code_verifier: asked.verifier });
}

/** Go to the pool's page. */
export const leaveFor = async () => {
  const [state, verifier] = [random(), random()];
  sessionStorage.setItem(ASKED, JSON.stringify({ state, verifier, hash: location.hash }));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const url = new URL("/oauth2/authorize", settings.sign_in);
  const asked = { response_type: "code", client_id: settings.client_id, redirect_uri: here(), scope: settings.scope, state, code_challenge_method: "S256", code_challenge: base64url(digest) };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  location.assign(url);
};

/** Use a pasted token. */
export const take = (text) => keep({ access: text.trim().replace(/^Bearer\s+/i, "") });

async function token() {
  if (tokens?.refresh && Date.now() > tokens.until - EARLY_MS) {
    refreshing ??= granted({ grant_type: "refresh_token", refresh_token: tokens.refresh }).finally(() => (refreshing = null));
    await refreshing;
  }
  while (!tokens || Date.now() > tokens.until) {
    if (!session.value.out) out(tokens ? "The token has expired." : "");
    await new Promise((resolve) => waiting.push(resolve));
  }
  return tokens.access;
}

/** Handle the API's refusal of the token `used`. */
function refused(used) {
  if (tokens?.access !== used) return;
  if (tokens.refresh) tokens.until = 0;
  else out("The API does not take this token.");
}

function leave() {
  out("");
  if (!settings.sign_in) return;
  sessionStorage.removeItem(BEFORE);
  const url = new URL("/logout", settings.sign_in);
  url.searchParams.set("client_id", settings.client_id);
  url.searchParams.set("logout_uri", here());
  location.assign(url);
}

async function granted(asked) {
  try {
    const answer = await fetch(new URL("/oauth2/token", settings.sign_in), { method: "POST", credentials: "omit", body: new URLSearchParams({ client_id: settings.client_id, ...asked }) });
    const given = await answer.json();
    if (!given.access_token) throw new Error(given.error ?? `HTTP ${answer.status}`);
    sessionStorage.setItem(BEFORE, "1");
    keep({ access: given.access_token, refresh: given.refresh_token ?? asked.refresh_token });
  } catch (error) {
    out(`Signing in failed: ${error.message}`);
  }
}

function keep(given) {
  tokens = { ...given, until: ends(given.access) };
  session.value = { out: false, error: "", page: Boolean(settings.sign_in) };
  const all = waiting;
  waiting = [];
  for (const go of all) go();
}

function out(error) {
  tokens = null;
  session.value = { out: true, error: error.slice(0, 300), page: Boolean(settings.sign_in) };
}

/** The expiry that a token states. */
function ends(text) {
  try {
    return JSON.parse(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).exp * 1000 || Infinity;
  } catch {
    return Infinity;
  }
}

const here = () => location.origin + location.pathname;
const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
