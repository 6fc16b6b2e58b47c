// Output with the escape sequences of terminals: colours and emphasis are kept as words of a style, all others are left out.
const SEQUENCE = /\x1b(?:\[([0-9;:]*)([ -/]*[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[ -/]+[0-~])/g;
const STYLES = { 1: "bold", 3: "italic", 4: "under" };

/** The text without them. */
export const plain = (text) => text.replace(SEQUENCE, "");

/** `[{text, look}]` of a text; `look` are classes, `c0` to `c7` for the colours. */
export function parts(text) {
  const found = [];
  const on = new Set();
  let colour = "";
  let from = 0;
  const add = (to) => to > from && found.push({ text: text.slice(from, to), look: [colour, ...on].filter(Boolean).join(" ") });
  for (const match of text.matchAll(SEQUENCE)) {
    add(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") colour = styled(match[1].split(/[;:]/).map(Number), on, colour);
  }
  add(text.length);
  return found;
}

/** The colour after a sequence; `on` are the emphases. */
function styled(codes, on, colour) {
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) [colour] = ["", on.clear()];
    else if (STYLES[code]) on.add(STYLES[code]);
    else if (code === 22) on.delete("bold");
    else if (code === 23) on.delete("italic");
    else if (code === 24) on.delete("under");
    else if (code === 39) colour = "";
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = `c${code % 10}`;
    else if (code === 38 || code === 48) {
      if (code === 38) colour = codes[i + 1] === 5 && codes[i + 2] < 16 ? `c${codes[i + 2] % 8}` : "";
      i += codes[i + 1] === 5 ? 2 : 4;
    }
  }
  return colour;
}
