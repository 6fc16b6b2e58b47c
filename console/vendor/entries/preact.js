// What pages are written with: Preact, its hooks, signals, and htm bound to Preact. What no page uses is not in it.
import { h } from "preact";
import htm from "htm";

export { h, render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
export { signal } from "@preact/signals";
export const html = htm.bind(h);
