// The editor, loaded when one is opened. It is in a shadow root, whose style sheets need no style element.
import { html, useEffect, useRef } from "../vendor/preact.js";

/** A text in `language` (`yaml`, `json`). Changes call `onChange(text)`; `diagnostics` are those of the API. With `onHelp` it is a
 * playbook, whose keys are completed and explained: `onHelp(text)` receives the documentation of the key at the cursor. */
export function Editor({ value, language = "yaml", label, onChange, onHelp, diagnostics = [], height = "340px", readOnly = false }) {
  const box = useRef(null);
  const held = useRef(null); // {editor, module}
  const told = useRef(onChange);
  told.current = onChange;
  const found = useRef(diagnostics);
  found.current = diagnostics;

  useEffect(() => {
    let over = false;
    Promise.all([import("../vendor/codemirror.js"), onHelp && import("./schema-help.js")]).then(([m, help]) => {
      if (over) return;
      const root = box.current.shadowRoot ?? box.current.attachShadow({ mode: "open" });
      const editor = new m.EditorView({ root, parent: root, state: m.EditorState.create({ doc: value, extensions: [...extensions(m, language, label, height, readOnly, (text) => told.current?.(text)), help ? help.extensions(m, onHelp) : []] }) });
      held.current = { editor, m };
      mark(editor, m, found.current);
    });
    return () => {
      over = true;
      held.current?.editor.destroy();
    };
  }, []);
  useEffect(() => {
    const h = held.current;
    if (h && h.editor.state.doc.toString() !== value && readOnly) h.editor.dispatch({ changes: { from: 0, to: h.editor.state.doc.length, insert: value } });
  }, [value]);
  useEffect(() => void (held.current && mark(held.current.editor, held.current.m, diagnostics)), [diagnostics]);
  return html`<div class="editor" ref=${box}></div>`;
}

function extensions(m, language, label, height, readOnly, change) {
  const style = m.HighlightStyle.define([
    { tag: [m.tags.propertyName, m.tags.definition(m.tags.propertyName)], color: "var(--key)" },
    { tag: [m.tags.string, m.tags.special(m.tags.string)], color: "var(--string)" },
    { tag: [m.tags.number, m.tags.bool, m.tags.null, m.tags.keyword, m.tags.atom], color: "var(--literal)" },
    { tag: m.tags.comment, color: "var(--text-soft)", fontStyle: "italic" },
  ]);
  const theme = m.EditorView.theme({
    "&": { height, fontSize: "12px", color: "var(--text)", backgroundColor: "var(--surface)" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
    ".cm-content": { caretColor: "var(--text)" },
    ".cm-cursor": { borderLeftColor: "var(--text)" },
    ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--text-soft)", borderRight: "1px solid var(--line)" },
    ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)" },
    ".cm-tooltip, .cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)", border: "1px solid var(--line)" },
  });
  return [
    m.basicSetup,
    m.keymap.of([m.indentWithTab]),
    language === "json" ? m.json() : m.yaml(),
    m.lintGutter(),
    m.syntaxHighlighting(style),
    theme,
    m.EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    m.EditorState.readOnly.of(readOnly),
    m.EditorView.domEventHandlers({ beforeinput: overwrite }),
    m.EditorView.updateListener.of((update) => update.docChanged && change(update.state.doc.toString())),
  ];
}

/** Let the editor itself replace a selection with typed text. A browser would add an inline style, which the content policy forbids. */
function overwrite(event, editor) {
  if (event.inputType !== "insertText" || event.isComposing || !event.data || editor.state.readOnly || editor.state.selection.main.empty) return false;
  editor.dispatch(editor.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  event.preventDefault();
  return true;
}

function mark(editor, m, diagnostics) {
  const { doc } = editor.state;
  const marks = diagnostics.map((d) => {
    const line = doc.line(Math.max(1, Math.min(doc.lines, d.line || 1)));
    const from = Math.min(line.to, line.from + Math.max(0, (d.col || 1) - 1));
    const word = /^[^\s:,\]}]+/.exec(doc.sliceString(from, line.to));
    return { from, to: word ? from + word[0].length : line.to, severity: d.severity === "error" ? "error" : d.severity === "warning" ? "warning" : "info", message: `${d.code} ${d.message}${d.hint ? ` (${d.hint})` : ""}` };
  });
  editor.dispatch(m.setDiagnostics(editor.state, marks));
}
