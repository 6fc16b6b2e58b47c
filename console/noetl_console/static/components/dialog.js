// A dialog over the page: it keeps the keyboard until it is closed.
import { html, useEffect, useRef } from "../vendor/preact.js";
import { Icon } from "./icons.js";

export function Dialog({ title, onClose, children, footer, wide = false }) {
  const element = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    element.current.querySelector(".inside :is(input, textarea, select)")?.focus();
    return () => before?.focus?.();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${cancel}>
    <header><h2>${title}</h2><button class="button plain" aria-label="Close" onClick=${onClose}><${Icon} name="cross" /></button></header>
    <div class="inside">${children}</div>
    ${footer ? html`<footer>${footer}</footer>` : null}
  </dialog>`;
}
