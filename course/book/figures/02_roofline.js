// Drag a matmul along a chip's roof.
import { define } from "./figure.js";
import { colours, curve, dot, end, groups, line, middle, nearest, plot, row, shown, text, value_at } from "./drawing.js";

const x_axis = { from: 0.1, to: 1e4, log: true, name: "intensity, FLOPs per byte" };
const y_axis = { from: 1e10, to: 1e16, log: true, name: "FLOP/s" };
const height = 340;

export default define("02_roofline", {
  draw(data, at, about, width) {
    const [bandwidth, peak, ridge] = row(data, "roof").values, [intensity, rate] = row(data, "point").values;
    const path = groups(row(data, "rows of A from 1 to 16384").values, 2);
    const p = plot(width, height, x_axis, y_axis);
    const roof = [x_axis.from, ridge, x_axis.to].map(i => [p.px(i), p.py(Math.min(peak, i * bandwidth))]);
    const svg = p.svg + line(p.px(ridge), p.top, p.px(ridge), p.bottom, 'stroke-dasharray="4 4"') +
      text(p.px(ridge), p.top - 6, `ridge ${shown(ridge)}`, middle) + curve(roof, 0) +
      path.map(([i, r]) => `<circle cx="${p.px(i)}" cy="${p.py(r)}" r="4" fill="${colours[1]}"/>`).join("") +
      text(p.right - 4, p.bottom - 8, "small dots: m = 1, 2, 4, ...", end) + dot(p.px(intensity), p.py(rate));
    const limit = intensity < ridge ? "memory limits it" : "the multipliers limit it";
    return { svg, height, title: `A matmul of ${shown(intensity)} FLOPs per byte under a roof with its ridge at ${shown(ridge)}: ${limit}` };
  },
  // The rows of A whose intensity is nearest.
  drag(x, width, data) {
    const path = groups(row(data, "rows of A from 1 to 16384").values, 2);
    return [0, nearest(path.map(([i]) => i), value_at(plot(width, height, x_axis, y_axis), x_axis, x))];
  }
});
