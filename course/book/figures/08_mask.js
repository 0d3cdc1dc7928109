// A mask over scores, and the tiles that are computed for it.
import { define } from "./figure.js";
import { box, colours, groups, legend, row, text } from "./drawing.js";

const visible = [() => true, (q, k) => k <= q, (q, k, w) => k <= q && q - k < w,
  (q, k, w, d) => k <= q && Math.floor(q / d) === Math.floor(k / d)];

export default define("08_mask", {
  dragged: 1,
  draw(data, at, about, width) {
    const [tokens, tile, kind, window, document] = row(data, "seen").values;
    const side = Math.min(width - 24, 420), cell = side / tokens, x0 = (width - side) / 2;
    const names = legend([[colours[0], "score that is seen"], [`${colours[1]}" fill-opacity=".45`, "computed and not seen"]], width), y0 = names.height + 28;
    let svg = names.svg + text(x0, y0 - 8, "keys →, queries ↓") + box(x0, y0, side, side, 'fill="none" stroke="currentColor"');
    for (const [r, c, full] of groups(row(data, "tiles").values, 3))
      svg += box(x0 + c * tile * cell, y0 + r * tile * cell, tile * cell, tile * cell,
        `fill="${colours[full ? 5 : 1]}" fill-opacity=".45" stroke="${colours[full ? 0 : 3]}"`);
    for (let q = 0; q < tokens; ++q) {
      let from = -1;
      for (let k = 0; k <= tokens; ++k) {
        const seen = k < tokens && visible[kind](q, k, window, document);
        if (seen && from < 0) from = k;
        if (!seen && from >= 0) { svg += box(x0 + from * cell, y0 + q * cell, (k - from) * cell, cell, `fill="${colours[0]}"`); from = -1; }
      }
    }
    const full = groups(row(data, "tiles").values, 3).filter(each => each[2]).length;
    return { svg, height: y0 + side + 10, title: `Scores of ${tokens} queries and keys: ${full} tiles are full and ${row(data, "tiles").values.length / 3 - full} partial` };
  }
});
