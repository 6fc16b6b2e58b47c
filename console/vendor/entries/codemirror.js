// The editor: loaded when one is opened.
export { EditorState, Compartment } from "@codemirror/state";
export { EditorView, hoverTooltip, keymap } from "@codemirror/view";
export { basicSetup } from "codemirror";
export { indentWithTab } from "@codemirror/commands";
export { lintGutter, setDiagnostics } from "@codemirror/lint";
export { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
export { tags } from "@lezer/highlight";
export { yaml } from "@codemirror/lang-yaml";
export { json } from "@codemirror/lang-json";
