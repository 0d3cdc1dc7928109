// Goodput by the interval between two snapshots.
import { define } from "./figure.js";
import { along, curve, dot, groups, plot, row, shown } from "./drawing.js";

const height = 320, x_axis = { from: 0.5, to: 1024, log: true, name: "minutes between two snapshots" };
const y_axis = { from: 0, to: 1, name: "goodput" };

export default define("30_failures", {
  draw(data, at, about, width) {
    const points = groups(row(data, "goodput by interval").values, 2), [interval, goodput] = row(data, "chosen").values;
    const p = plot(width, height, x_axis, y_axis);
    const svg = p.svg + curve(points.map(([n, share]) => [p.px(n), p.py(share)]), 0) + dot(p.px(interval), p.py(goodput));
    return { svg, height, title: `Goodput ${shown(100 * goodput)}% with a snapshot every ${shown(interval)} minutes` };
  },
  drag: along(2, x_axis, (_, width) => plot(width, height, x_axis, y_axis))
});
