// A step's time by the size of the group that shares one copy of the weights.
import { define } from "./figure.js";
import { box, colours, dot, groups, line, plot, row, shown, text } from "./drawing.js";

const height = 300;

export default define("16_hsdp", {
  dragged: 0,
  draw(data, at, about, width) {
    const all = groups(row(data, "groups").values, 4), best = row(data, "best").values[0];
    const apart = Math.ceil(all.length * 38 / (width - 80)), ticks = all.map(each => each[0]).filter((_, i) => i % apart === 0);
    const most = Math.max(...all.map(each => each[1])), p = plot(width, height,
      { from: 0.7, to: all.at(-1)[0] * 1.4, log: true, name: "ranks of a group", ticks }, { from: 0, to: most * 1.15, name: "s of a step" });
    const wide = (p.right - p.left) / (all.length + 1) - 6;
    let svg = p.svg;
    for (const [ranks, seconds, , fits] of all) {
      const x = p.px(ranks);
      svg += box(x - wide / 2, p.py(seconds), wide, p.bottom - p.py(seconds), fits ? 'fill="url(#area-0)"' : `fill="none" stroke="${colours[3]}" stroke-width="2" stroke-dasharray="4 3"`);
      if (ranks === best) svg += dot(x, p.py(seconds) - 14);
    }
    svg += line(p.left, p.bottom, p.right, p.bottom) +
      box(4, height + 6, 20, 12, 'fill="url(#area-0)"') + text(30, height + 17, "fits") +
      box(84, height + 6, 20, 12, `fill="none" stroke="${colours[3]}" stroke-width="2" stroke-dasharray="4 3"`) + text(110, height + 17, "needs more memory");
    return { svg, height: height + 28, title: best ? `Groups of ${best} ranks are the fastest that fit, ${shown(data.numbers[1].value)} s a step` : "No group fits into memory" };
  }
});
