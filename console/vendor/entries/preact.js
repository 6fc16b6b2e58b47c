// What pages are written with: Preact, its hooks, signals, and htm bound to Preact.
import { h } from "preact";
import htm from "htm";

export { Fragment, h, render } from "preact";
export { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "@preact/signals";
export const html = htm.bind(h);
