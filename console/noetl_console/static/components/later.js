// A part of a page whose module is loaded when it is shown.
import { html, useEffect, useState } from "../vendor/preact.js";
import { Busy } from "./parts.js";

/** The component that `load()` resolves to, with the other properties. */
export function Later({ load, ...rest }) {
  const [found, set] = useState(null);
  useEffect(() => void load().then((View) => set({ View })), []);
  return found ? html`<${found.View} ...${rest} />` : html`<${Busy} />`;
}
