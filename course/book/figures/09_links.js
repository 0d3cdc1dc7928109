// One message, over the links of a cluster.
import { define } from "./figure.js";
import { bold, box, curve, dot, plot, row, rounded, shown, text } from "./drawing.js";

const height = 320, levels = ["node", "rack", "pod", "cluster"];
const x_axis = { from: 64, to: 2 ** 28, log: true, name: "bytes of the message" };
const y_axis = { from: 0.5, to: 1e5, log: true, name: "us" };

export default define("09_links", {
  draw(data, at, about, width) {
    const chosen = row(data, "chosen").values[0], p = plot(width, height, x_axis, y_axis);
    const bytes = about.settings[1].values[at[1]];
    let svg = p.svg;
    levels.forEach((level, i) => {
      const [, alpha, bandwidth] = row(data, level).values, seconds = n => alpha + n / bandwidth / 1e3;
      const points = about.settings[1].values.map(n => [p.px(n), p.py(seconds(n))]);
      svg += curve(points, i, i === chosen ? 'stroke-width="5"' : "") +
        box(p.left + 8, p.top + 4 + i * 20, 22, 10, `fill="url(#area-${i})"`) + text(p.left + 36, p.top + 14 + i * 20, level, i === chosen ? bold : "");
    });
    const now = data.numbers[0].value;
    svg += dot(p.px(bytes), p.py(now));
    return { svg, height, title: `${rounded(bytes)} bytes over the ${levels[chosen]} take ${shown(now)} us` };
  },
  dragged: 1
});
