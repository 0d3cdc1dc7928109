// Sets formulas with KaTeX: a list of {tex, display} in JSON from standard input, a list of HTML to
// standard output. MathML stands beside the drawn form, for screen readers.
const katex = require("katex");
const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));

// "a = b \qquad c = d" -> both formulas, so that a narrow screen shows them below each other.
function parts(tex) {
  const found = [""];
  let depth = 0;
  for (const token of tex.match(/\\(?:[a-zA-Z]+|.)|[^\\]/gs)) {
    if (["{", "\\begin", "\\left"].includes(token)) ++depth;
    if (["}", "\\end", "\\right"].includes(token)) --depth;
    if (token === "\\qquad" && depth === 0) found.push(""); else found[found.length - 1] += token;
  }
  return found.filter(each => each.trim());
}

const set = (tex, displayMode) => katex.renderToString(tex, { displayMode, output: "htmlAndMathml" });
console.log(JSON.stringify(formulas.map(({ tex, display }) =>
  display ? `<span class="formulas">${parts(tex).map(each => set(each, true)).join("")}</span>` : set(tex, false))));
