// The beginning: the shell into the page.
import { h, render } from "./vendor/preact.js";
import { startTheme } from "./core/theme.js";
import { Shell } from "./shell.js";

startTheme();
const app = document.getElementById("app");
app.replaceChildren();
render(h(Shell), app);
