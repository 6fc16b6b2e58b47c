// A dialog over the page: it keeps the keyboard until it is closed.
import { html, useEffect, useRef } from "../vendor/preact.js";
import { Icon } from "./icons.js";

/** With `send`, the dialog is a form; `act` labels its submit button (empty: no button). */
export function Dialog({ title, onClose, children, send, act, look = "primary", disabled = false, leave = "Close", wide = false }) {
  const element = useRef(null);
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    dialog.querySelector(".inside :is(input, textarea, select)")?.focus();
    return () => dialog.close(); // closing gives the focus back
  }, []);
  const instead = (then) => (event) => (event.preventDefault(), then());
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${instead(onClose)}>
    <header><h2>${title}</h2><button class="button plain" aria-label="Close" onClick=${onClose}><${Icon} name="cross" /></button></header>
    ${send ? html`<form id="in-dialog" class="inside" onSubmit=${instead(send)}>${children}</form>
      <footer><button class="button" onClick=${onClose}>${leave}</button>${act ? html`<button class="button ${look}" form="in-dialog" disabled=${disabled}>${act}</button>` : null}</footer>` : html`<div class="inside">${children}</div>`}
  </dialog>`;
}
