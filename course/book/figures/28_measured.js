// Steps that others have measured, and the planner's times of them.
import { define } from "./figure.js";
import { bold, box, colours, decades, groups, line, plot, row, several, shown, text, wrapped } from "./drawing.js";

export default define("28_measured", {
  recorded: true,
  dragged: 0,
  draw(data, at, about, width) {
    const points = groups(row(data, "points").values, 3), seconds = points.flatMap(([measured, predicted]) => [measured, predicted]), height = 360;
    const ends = decades(seconds), p = plot(width, height, { ...ends, name: "measured, s" }, { ...ends, name: "predicted, s" }), source = row(data, "source").words[0];
    let svg = p.svg + line(p.px(ends.from), p.py(ends.from), p.px(ends.to), p.py(ends.to), 'stroke-width="1.5"');
    for (const factor of [1.2, 1 / 1.2]) svg += line(p.px(ends.from * Math.max(1, 1 / factor)), p.py(ends.from * Math.max(1, factor)), p.px(ends.to / Math.max(1, factor)), p.py(ends.to * Math.min(1, factor)), 'stroke-dasharray="4 4" opacity=".6"');
    for (const mine of [0, 1]) for (const [measured, predicted, its] of points) if (its === mine)
      svg += mine ? `<circle cx="${p.px(measured)}" cy="${p.py(predicted)}" r="5" fill="${colours[3]}" stroke="#fff"/>` : box(p.px(measured) - 3, p.py(predicted) - 3, 6, 6, 'fill="currentColor" opacity=".3"');
    const from = wrapped(source === "all" ? "all sources" : source, p.right - p.left);
    svg += [...from, "dashed: a fifth off"].map((each, i) => text(p.left + 8, p.top + 16 + i * 20, each, i < from.length ? bold : "")).join("");
    return { svg, height, title: `${source}: predicted times of ${several(data.numbers[0].value, "step")} are ${shown(data.numbers[1].value)}% off on average, ${shown(data.numbers[2].value)}% at worst` };
  }
});
