// Five ways to sum arrays, by their size.
import { define } from "./figure.js";
import { along, curve, dot, legend, line, plot, row, rounded, shown } from "./drawing.js";

const height = 360;
const x_axis = { from: 256, to: 2 ** 30, log: true, name: "bytes of the array" };
const y_axis = { from: 1, to: 1e9, log: true, name: "us" };

export default define("10_crossover", {
  draw(data, at, about, width) {
    const bytes = row(data, "chosen").values[0], sizes = row(data, "bytes").values, p = plot(width, height, x_axis, y_axis);
    const best = data.numbers.reduce((a, b) => b.value < a.value ? b : a);
    const names = legend(data.numbers.map((way, i) => [`url(#area-${i})`, way === best ? `${way.name} (fastest)` : way.name]), width);
    let svg = p.svg + line(p.px(bytes), p.top, p.px(bytes), p.bottom, 'stroke-dasharray="3 3"');
    data.numbers.forEach((way, i) => {
      svg += curve(sizes.map((n, k) => [p.px(n), p.py(row(data, way.name).values[k] * 1e6)]), i);
    });
    svg += dot(p.px(bytes), p.py(best.value));
    return { svg: `${names.svg}<g transform="translate(0 ${names.height})">${svg}</g>`, height: names.height + height, title: `All-reduces of ${rounded(bytes)} bytes: ${best.name} is the fastest, in ${shown(best.value)} us` };
  },
  drag: along(3, x_axis, (_, width) => plot(width, height, x_axis, y_axis))
});
