// The loss by the size of a model, for one budget.
import { define } from "./figure.js";
import { curve, dot, groups, nearest, plot, row, rounded, shown, value_at } from "./drawing.js";

const height = 320;
const axes = data => {
  const points = groups(row(data, "loss by size").values, 2), losses = points.map(each => each[1]), least = Math.min(...losses);
  return [points, { from: points[0][0], to: points.at(-1)[0], log: true, name: "parameters" },
    { from: Math.floor(least * 20) / 20 - 0.05, to: Math.max(...losses) + 0.02, name: "loss" }];
};

export default define("29_budget", {
  draw(data, at, about, width) {
    const [points, x, y] = axes(data), [N, loss] = row(data, "chosen").values, p = plot(width, height, x, y);
    const svg = p.svg + curve(points.map(([n, l]) => [p.px(n), p.py(l)]), 0) + dot(p.px(N), p.py(loss));
    return { svg, height, title: `The loss by size: a model of ${rounded(N)} parameters ends at ${shown(loss, 4)}` };
  },
  drag(x, width, data) {
    const [points, x_axis, y_axis] = axes(data);
    return [2, nearest(points.map(([n]) => n), value_at(plot(width, height, x_axis, y_axis), x_axis, x))];
  }
});
