// A model's parameters by their place, and the FLOPs of a token by the length of its sequence.
import { define } from "./figure.js";
import { along, box, colours, curve, decades, dot, groups, legend, plot, row, rounded, shown, text } from "./drawing.js";

const height = 300, x_axis = { from: 512, to: 1 << 20, log: true, name: "T, tokens of a sequence" };
const parts = ["attention's matrices", "feed-forward", "tables and norms"];
const vertical = data => {
  const all = groups(row(data, "GFLOP of a token").values, 3).map(each => each[1]);
  return { ...decades(all), name: "GFLOP of a token, forward and backward" };
};

export default define("12_model", {
  draw(data, at, about, width) {
    const held = row(data, "parameters"), all = held.values.reduce((a, b) => a + b), points = groups(row(data, "GFLOP of a token").values, 3);
    const names = legend(parts.map((part, i) => [`url(#area-${i})`, part]), width), p = plot(width, height, x_axis, vertical(data)), [T, flops] = row(data, "chosen").values;
    let svg = names.svg, x = 4;
    held.values.forEach((part, i) => {
      const wide = (width - 8) * part / all;
      svg += box(x, names.height + 2, wide, 30, `fill="url(#area-${i})"`);
      x += wide;
    });
    const lines = legend([[colours[3], "weights and scores"], [colours[0], "weights alone, 6 N"]], width), top = names.height + 44;
    svg += `<g transform="translate(0 ${top})">${lines.svg}</g><g transform="translate(0 ${top + lines.height})">` + p.svg + curve(points.map(([t, , without]) => [p.px(t), p.py(without)]), 0) +
      curve(points.map(([t, each]) => [p.px(t), p.py(each)]), 3) + dot(p.px(T), p.py(flops)) + "</g>";
    const title = `${held.words[0]}: ${parts.map((part, i) => `${shown(100 * held.values[i] / all)}% ${part}`).join(", ")}; at ${rounded(T)} tokens a token takes ${shown(flops)} GFLOP`;
    return { svg, height: top + lines.height + height, title };
  },
  drag: along(1, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
