// The beginning: the shell into the page, where nobody has to sign in first.
import { h, render } from "./vendor/preact.js";
import { startTheme } from "./core/theme.js";
import { Shell } from "./shell.js";

startTheme();
const app = document.getElementById("app");
const settings = document.querySelector('meta[name="noetl-sign-in"]').content;
let view = Shell;
if (settings) {
  await (await import("./core/sign-in.js")).begin(settings);
  view = (await import("./components/sign-in.js")).Entrance;
}
app.replaceChildren();
render(h(view), app);
