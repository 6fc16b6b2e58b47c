// The HTTP API: every request of the console goes through `get` and `post`.
import { signal } from "../vendor/preact.js";
import { given } from "./format.js";

const base = new URL(document.querySelector('meta[name="noetl-api"]').content, document.baseURI);

/** The source of tokens for an API that requires them: `{token(), refused(token), leave()}`; null: none are needed (core/sign-in.js). */
export const access = signal(null);

/** A refused request, or one that was not answered (`status` 0). */
export class ApiError extends Error {
  constructor(status, { code = "", message = "", details = [] } = {}) {
    super(message || `HTTP ${status}`);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

const kept = new Map(); // the last answer of each address
const KEPT = 60;

/** A path made of parts, each percent-encoded. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** The path of an execution, or of something below it. */
export const atRun = (id, ...rest) => path("executions", id, ...rest);
export const atPlaybook = (name, ...rest) => path("playbooks", ...name.split("/"), ...rest);

function address(what, query) {
  const url = new URL(`api/${what}`, base);
  for (const [name, value] of given(query)) url.searchParams.set(name, String(value));
  return url;
}

/** The answer of `/api/WHAT`. Empty parameters are left out. An unchanged answer is the same object as before. */
export async function get(what, query = {}, { signal } = {}) {
  const url = address(what, query);
  const before = kept.get(url.href);
  const response = await sent(url, { signal, headers: before?.etag ? { "If-None-Match": before.etag } : {} });
  if (response.status === 304 && before) return before.body;
  const etag = response.headers.get("ETag") ?? "";
  const text = await response.text();
  const body = before?.text === text ? before.body : parsed(response, text);
  kept.delete(url.href);
  kept.set(url.href, { etag, text, body });
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return body;
}

/** Its pages, one after the other, until there are no more; `by` is the parameter that says where the next begins. */
export async function* pages(what, query, { by = "cursor", signal } = {}) {
  for (let cursor = null; ; ) {
    const page = await get(what, { ...query, [by]: cursor }, { signal });
    yield page;
    cursor = page.cursor;
    if (!cursor) return;
  }
}

/** `{body, etag}` of `/api/WHAT`, or null: since the answer that had `etag` nothing has changed. */
export async function getChanged(what, query, etag, { signal } = {}) {
  const response = await sent(address(what, query), { signal, headers: etag ? { "If-None-Match": etag } : {} });
  return response.status === 304 ? null : { body: await read(response), etag: response.headers.get("ETag") };
}

/** The answer of `/api/WHAT` to a body: an object is sent as JSON, a text as YAML. `also` are error statuses whose body is wanted. */
export async function post(what, body = {}, { signal, also = [] } = {}) {
  const text = typeof body === "string";
  const headers = { "Content-Type": text ? "application/yaml" : "application/json" };
  const response = await sent(new URL(`api/${what}`, base), { method: "POST", headers, body: text ? body : JSON.stringify(body), signal });
  return read(response, also);
}

/** The answer of `/api/WHAT` to DELETE. */
export const remove = async (what) => read(await sent(new URL(`api/${what}`, base), { method: "DELETE" }));

async function sent(url, options) {
  const by = access.peek();
  const token = by && (await by.token());
  try {
    const response = await fetch(url, { cache: "no-store", credentials: "same-origin", ...options, headers: token ? { ...options.headers, Authorization: `Bearer ${token}` } : options.headers });
    if (response.status !== 401 || !by) return response;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "unreachable", message: by ? "The API does not answer." : "The console's server does not answer. Is `noetl console` still running?" });
  }
  by.refused(token);
  return sent(url, options);
}

const read = async (response, also) => parsed(response, await response.text(), also);

function parsed(response, text, also = []) {
  let body;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(response.status, { message: text.slice(0, 300) });
  }
  if (response.ok || (also.includes(response.status) && !body?.error)) return body;
  throw new ApiError(response.status, body?.error);
}
