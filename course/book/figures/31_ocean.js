// The largest run that the latency between workers allows, by steps between two meetings.
import { define } from "./figure.js";
import { along, curve, decades, dot, groups, plot, row, shown } from "./drawing.js";

const height = 320, x_axis = { from: 1, to: 1024, log: true, name: "inner steps between two meetings" };
const vertical = data => {
  const all = groups(row(data, "FLOPs by inner steps").values, 2).map(each => each[1]);
  return { ...decades(all), name: "FLOPs of the largest run" };
};

export default define("31_ocean", {
  draw(data, at, about, width) {
    const points = groups(row(data, "FLOPs by inner steps").values, 2), [inner, flops] = row(data, "chosen").values;
    const y = vertical(data), p = plot(width, height, x_axis, y);
    const svg = p.svg +
      curve(points.map(([n, f]) => [p.px(n), p.py(f)]), 0) + dot(p.px(inner), p.py(flops));
    return { svg, height, title: `With ${inner} inner steps the largest run has ${shown(flops)} FLOPs` };
  },
  drag: along(2, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
