// Flip the bits of an fp32, and see what each format makes of the number.
import { define } from "./figure.js";
import { bold, box, colours, end, legend, row, shown, text } from "./drawing.js";

// How large a bit's box is, how high a line, and where the first begins.
const sizes = width => {
  const names = legend([["url(#area-3)", "sign"], ["url(#area-0)", "exponent"], ["url(#area-2)", "mantissa; filled: 1"]], width);
  return { cell: Math.min(14, (width - 8) / 34), tall: width < 560 ? 62 : 46, names, top: names.height + 22 };
};

// A row of boxes for each format: sign, exponent and mantissa in three colours, 1 filled and 0 not.
export default define("01_bits", {
  settings: "settings bits",
  draw(data, at, about, width) {
    const rounded = row(data, "rounded"), bits = row(data, "bits").words, error = row(data, "error").values;
    const { cell, tall, names, top } = sizes(width);
    let svg = names.svg;
    rounded.words.forEach((format, i) => {
      const y = top + i * tall;
      svg += text(2, y, format, bold) + text(width - 4, y, shown(rounded.values[i], 8) +
        (error[i] === null ? "" : error[i] > 0 ? `, off by ${shown(100 * error[i], 2)}%` : ", exact"), end);
      let x = 2;
      bits[i].split(" ").forEach((field, part) => {
        [...field].forEach(bit => {
          svg += box(x, y + 6, cell - 1.5, cell, `fill="${bit === "1" ? `url(#area-${part === 0 ? 3 : part === 1 ? 0 : 2})` : "none"}" ` +
            `stroke="${colours[part === 0 ? 3 : part === 1 ? 0 : 2]}"`);
          x += cell;
        });
        x += cell / 2;
      });
    });
    const title = rounded.words.map((format, i) => `${format}: ${shown(rounded.values[i], 8)}`).join("; ");
    return { svg, height: top + rounded.words.length * tall, title };
  },
  // The first bit of a drag along fp32's line is flipped, and those that follow become as it is.
  drag(x, width, data, about, { y, at, held }) {
    const { cell, tall, top } = sizes(width), gaps = x > 2 + 10 * cell ? 1 : x > 2 + 1.5 * cell ? 0.5 : 0, i = Math.floor((x - 2) / cell - gaps);
    if (held === undefined && (y < top - 14 || y >= top + tall - 14) || i < 0 || i > 31) return held === undefined ? [] : [held, at[held]];
    return [i, held === undefined ? 1 - at[i] : at[held]];
  }
});
