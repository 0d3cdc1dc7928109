// Pieces that arrive while others are multiplied: two lanes, and the time by the matrix's width.
import { define } from "./figure.js";
import { along, bold, box, curve, decades, dot, groups, legend, line, middle, plot, row, shown, text, within } from "./drawing.js";

const height = 300, x_axis = { from: 128, to: 16384, log: true, name: "outputs of a rank's matrix" };
const vertical = data => {
  const all = groups(row(data, "us by outputs").values, 4).flatMap(each => each.slice(1));
  return { ...decades(all), name: "us" };
};

export default define("22_pieces", {
  draw(data, at, about, width) {
    const [ranks, multiply, hop] = row(data, "pieces").values, [outputs, chosen, hidden] = row(data, "chosen").values;
    const step = Math.max(multiply, hop), all = (ranks - 1) * step + multiply, left = 74, px = t => left + (width - left - 6) * t / all;
    const names = legend([["url(#area-0)", "a piece is multiplied"], ["url(#area-1)", "the next one comes"]], width), top = names.height + 4;
    let svg = names.svg + text(2, top + 22, "compute", bold) + text(2, top + 60, "network", bold);
    for (let i = 0; i < ranks; ++i) {
      svg += box(px(i * step), top, px(multiply) - left, 32, 'fill="url(#area-0)" stroke="#fff"');
      if (i + 1 < ranks) svg += box(px(i * step), top + 38, px(hop) - left, 32, 'fill="url(#area-1)" stroke="#fff"');
    }
    const said = `hidden from ${shown(hidden)} on`;
    const p = plot(width, height, x_axis, vertical(data)), points = groups(row(data, "us by outputs").values, 4);
    const ways = legend([["url(#area-0)", "gather, then multiply"], ["url(#area-1)", "one way"], ["url(#area-2)", "both ways"]], width), at_y = top + 84;
    svg += `<g transform="translate(0 ${at_y})">${ways.svg}</g><g transform="translate(0 ${at_y + ways.height})">` + p.svg +
      [0, 1, 2].map(way => curve(points.map(each => [p.px(each[0]), p.py(each[way + 1])]), way)).join("") +
      (hidden > x_axis.from && hidden < x_axis.to ? line(p.px(hidden), p.top, p.px(hidden), p.bottom, 'stroke-dasharray="4 4"') + text(within(p.px(hidden), said, width), p.top - 6, said, middle) : "") +
      dot(p.px(outputs), p.py(chosen)) + "</g>";
    return { svg, height: at_y + ways.height + height, title: `${ranks} pieces: each is multiplied in ${shown(multiply)} us and travels in ${shown(hop)} us; one way takes ${shown(chosen)} us` };
  },
  drag: along(3, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
