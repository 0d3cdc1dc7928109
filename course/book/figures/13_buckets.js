// A step of DDP on one rank: what it computes, and when its gradients travel.
import { define } from "./figure.js";
import { bold, box, end, groups, legend, line, row, shown, text } from "./drawing.js";

export default define("13_buckets", {
  recorded: true,
  dragged: 1,
  draw(data, at, about, width) {
    const lanes = ["computed", "travelled"].map(name => groups(row(data, name).values, 2)), last = data.numbers[0].value;
    const left = 78, px = t => left + (width - left - 8) * t / last, names = legend([["url(#area-0)", "computes"], ["url(#area-1)", "gradients travel"]], width);
    const top = names.height + 6;
    let svg = names.svg + text(2, top + 26, "compute", bold) + text(2, top + 76, "network", bold);
    lanes.forEach((spans, lane) => spans.forEach(([begin, until]) => {
      svg += box(px(begin), top + lane * 50, px(until) - px(begin), 40, `fill="url(#area-${lane})" stroke="#fff" stroke-width=".6"`);
    }));
    svg += line(left, top + 104, width - 8, top + 104) + text(left, top + 122, "0") + text(width - 8, top + 122, `${shown(last)} ms`, end);
    return { svg, height: top + 132, title: `A step of ${shown(last)} ms, in which gradients are waited for during ${shown(data.numbers[1].value)} ms` };
  }
});
