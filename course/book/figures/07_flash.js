// What attention keeps and what it holds at a time: all T x T, or a tile.
import { define } from "./figure.js";
import { along, bold, box, colours, curve, dot, groups, legend, line, plot, row, rounded, shown, text } from "./drawing.js";

const height = 300, x_axis = { from: 512, to: 131072, log: true, name: "T, tokens" };
const y_axis = { from: 1e-5, to: 1e4, log: true, name: "GB that a layer keeps" };

export default define("07_flash", {
  draw(data, at, about, width) {
    const [tokens, tile, plain, flash, memory] = row(data, "sizes").values, side = Math.min((width - 40) / 2, 150), right = 24 + side;
    const cell = Math.max(side * tile / tokens, 1.5), points = groups(row(data, "GB kept by tokens").values, 3), p = plot(width, height, x_axis, y_axis);
    let svg = text(4, 16, "plain: T x T", bold) + box(4, 26, side, side, 'fill="url(#area-3)"') + text(right, 16, "flash: a tile", bold) +
      box(right, 26, side, side, 'fill="none" stroke="currentColor" stroke-dasharray="4 3"') +
      box(right, 26 + side * 0.4, side, cell, 'fill="currentColor" opacity=".2"') + box(right + side * 0.55, 26 + side * 0.4, cell, cell, `fill="${colours[0]}"`);
    const names = legend([["url(#area-3)", "plain"], ["url(#area-0)", "flash"]], width), top = side + 34;
    svg += `<g transform="translate(0 ${top})">${names.svg}</g><g transform="translate(0 ${top + names.height})">` + p.svg +
      line(p.left, p.py(memory), p.right, p.py(memory), 'stroke-width="2" stroke-dasharray="6 3"') + text(p.left + 6, p.py(memory) - 6, `an H100 has ${shown(memory)} GB`) +
      curve(points.map(([t, gb]) => [p.px(t), p.py(gb)]), 3) + curve(points.map(([t, , gb]) => [p.px(t), p.py(gb)]), 0) +
      dot(p.px(tokens), p.py(plain)) + dot(p.px(tokens), p.py(flash)) + "</g>";
    return { svg, height: top + names.height + height, title: `${rounded(tokens)} tokens: plain attention keeps ${shown(plain)} GB, flash attention ${shown(flash)} GB` };
  },
  drag: along(0, x_axis, (_, width) => plot(width, height, x_axis, y_axis))
});
