// A tile of C, what is read for it of A and B, and the time that all tiles' reads take.
import { define } from "./figure.js";
import { along, bold, box, curve, decades, dot, groups, line, plot, row, shown, text } from "./drawing.js";

const height = 300, x_axis = { from: 1, to: 256, log: true, name: "side of a block's tile", ticks: [1, 2, 4, 8, 16, 32, 64, 128, 256] };
const vertical = data => {
  const all = [...groups(row(data, "ms by tile").values, 2).map(each => each[1]), row(data, "sizes").values[3]];
  return { ...decades(all), name: "ms" };
};

export default define("03_tiles", {
  draw(data, at, about, width) {
    const [n, tile, mine, multiplying] = row(data, "sizes").values, points = groups(row(data, "ms by tile").values, 2);
    const side = Math.min((width - 60) / 3, 130), cell = Math.max(side * tile / n, 3), x = [8, 24 + side, 40 + 2 * side], first = side * 0.3;
    let svg = "";
    ["A", "B", "C"].forEach((name, i) => { svg += text(x[i], 16, name, bold) + box(x[i], 22, side, side, 'fill="none" stroke="currentColor"'); });
    const y = 22 + Math.min(first, side - cell), across = Math.min(side * 0.55, side - cell);
    svg += box(x[0], y, side, cell, 'fill="url(#area-0)"') + box(x[1] + across, 22, cell, side, 'fill="url(#area-1)"') + box(x[2] + across, y, cell, cell, 'fill="url(#area-3)"');
    svg += text(x[0], side + 40, `of C a block has ${tile} x ${tile}, a thread ${mine} x ${mine}`);
    const p = plot(width, height, x_axis, vertical(data)), now = points.find(each => each[0] === tile);
    svg += `<g transform="translate(0 ${side + 56})">` + p.svg + line(p.left, p.py(multiplying), p.right, p.py(multiplying), 'stroke-width="2" stroke-dasharray="6 3"') +
      text(p.left + 6, p.py(multiplying) - 6, "multiplying") + curve(points.map(([s, ms]) => [p.px(s), p.py(ms)]), 0) +
      text(p.px(2), p.py(points[1][1]) - 8, "reading") + dot(p.px(tile), p.py(now[1])) + "</g>";
    return { svg, height: side + 56 + height, title: `Tiles of ${tile} x ${tile}: reading takes ${shown(now[1])} ms and multiplying ${shown(multiplying)} ms` };
  },
  drag: along(1, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
