// A mask that is painted, square by square, and the tiles that are computed for it.
import { define } from "./figure.js";
import { box, colours, groups, legend, row, text } from "./drawing.js";

const squares = 8;
const names = width => legend([[colours[0], "painted: seen"], [`${colours[1]}" fill-opacity=".45`, "computed and not seen"]], width);
const sides = width => { const side = Math.min(width - 24, 380); return { side, x0: (width - side) / 2, y0: names(width).height + 28 }; };

export default define("08_paint", {
  free: true,
  settings: "settings cells",
  draw(data, at, about, width) {
    const [tokens, tile, square, ...seen] = row(data, "seen").values, { side, x0, y0 } = sides(width), cell = side / tokens, tiles = groups(row(data, "tiles").values, 3);
    let svg = names(width).svg + text(x0, y0 - 8, "keys →, queries ↓");
    for (const [r, c] of tiles) svg += box(x0 + c * tile * cell, y0 + r * tile * cell, tile * cell, tile * cell, `fill="${colours[1]}" fill-opacity=".45"`);
    seen.forEach((yes, i) => {
      svg += box(x0 + i % squares * square * cell, y0 + Math.floor(i / squares) * square * cell, square * cell, square * cell,
        `fill="${yes ? colours[0] : "none"}" stroke="currentColor" stroke-opacity=".25"`);
    });
    for (const [r, c, full] of tiles)
      svg += box(x0 + c * tile * cell + 1.5, y0 + r * tile * cell + 1.5, tile * cell - 3, tile * cell - 3,
        `fill="none" stroke="${full ? colours[5] : colours[3]}" stroke-width="2.5"${full ? "" : ' stroke-dasharray="5 3"'}`);
    const full = tiles.filter(each => each[2]).length;
    return { svg, height: y0 + side + 10, title: `A painted mask: ${full} tiles are full and ${tiles.length - full} partial` };
  },
  // The first square of a drag changes, and those that follow become as it is.
  drag(x, width, data, about, { y, at, held }) {
    const { side, x0, y0 } = sides(width), column = Math.floor((x - x0) / side * squares), line = Math.floor((y - y0) / side * squares);
    if (Math.min(column, line) < 0 || Math.max(column, line) >= squares) return held === undefined ? [] : [held, at[held]];
    const i = line * squares + column;
    return [i, held === undefined ? 1 - at[i] : at[held]];
  }
});
