// A layer's time beside the time to gather the next one; a step's time by tokens.
import { define } from "./figure.js";
import { along, box, curve, decades, dot, groups, plot, row, shown, text } from "./drawing.js";

const height = 300, x_axis = { from: 1, to: 64, log: true, name: "thousand tokens of a rank" };
const vertical = data => {
  const all = groups(row(data, "ms by tokens").values, 3).flatMap(([, a, b]) => [a, b]);
  return { ...decades(all), name: "ms of a step" };
};

export default define("15_fsdp", {
  draw(data, at, about, width) {
    const [forward, gather, backward, both] = row(data, "times").values, most = Math.max(forward, gather, backward, both);
    const wide = width - 250;
    let svg = "";
    [["a layer forward", forward, 0], ["gathering the next", gather, 1], ["a layer backward", backward, 0],
      ["gather and reduce", both, 1]].forEach(([name, value, area], i) => {
      svg += text(2, 20 + i * 26, name) + box(140, 6 + i * 26, wide * value / most, 18, `fill="url(#area-${area})"`) +
        text(146 + wide * value / most, 20 + i * 26, `${shown(value)} ms`);
    });
    const curves = groups(row(data, "ms by tokens").values, 3), p = plot(width, height, x_axis, vertical(data));
    svg += `<g transform="translate(0 118)">` + p.svg + curve(curves.map(([n, step]) => [p.px(n), p.py(step)]), 0) +
      curve(curves.map(([n, , computing]) => [p.px(n), p.py(computing)]), 1) +
      box(p.left + 10, p.top + 6, 22, 10, 'fill="url(#area-0)"') + text(p.left + 38, p.top + 16, "a step") +
      box(p.left + 10, p.top + 26, 22, 10, 'fill="url(#area-1)"') + text(p.left + 38, p.top + 36, "computing alone") +
      dot(p.px(about.settings[0].values[at[0]]), p.py(data.numbers[0].value)) + "</g>";
    return { svg, height: height + 118, title: `A layer takes ${shown(forward)} ms forward, gathering the next ${shown(gather)} ms; waiting is ${shown(data.numbers[3].value)}% of a step` };
  },
  drag: along(0, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
