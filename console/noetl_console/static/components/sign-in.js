// The sign-in form: instead of the pages at first, and over them when a token has expired. The pages then keep their state.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { leaveFor, session, take } from "../core/sign-in.js";
import { Shell } from "../shell.js";

export function Entrance() {
  const { out } = session.value;
  const [entered, enter] = useState(false);
  useEffect(() => void (out || enter(true)), [out]);
  return html`${entered ? html`<${Shell} />` : null}${out ? html`<${SignIn} />` : null}`;
}

function SignIn() {
  const { error, page } = session.value;
  const [text, set] = useState("");
  const element = useRef(null);
  useEffect(() => void element.current.showModal(), []);
  const submit = (event) => {
    event.preventDefault();
    if (page) leaveFor();
    else if (text.trim()) take(text);
  };
  return html`<dialog ref=${element} aria-label="Sign in" onCancel=${(event) => event.preventDefault()}>
    <header><h2>Sign in to NoETL</h2></header>
    <form id="sign-in" class="inside" onSubmit=${submit}>
      ${error ? html`<p class="failure" role="alert"><bdi>${error}</bdi></p>` : null}
      ${page
        ? html`<p>Your groups in the user pool determine your rights.</p>`
        : html`<label class="field">Access token<input type="password" autocomplete="off" spellcheck=${false} value=${text} onInput=${(e) => set(e.currentTarget.value)} /></label>
            <p class="dim">It stays in the memory of this tab until you close it.</p>`}
    </form>
    <footer><button class="button primary" type="submit" form="sign-in">Sign in</button></footer>
  </dialog>`;
}
