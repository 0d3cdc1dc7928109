// Heads shared out among ranks, and what Ulysses and a ring send.
import { define } from "./figure.js";
import { along, bold, box, curve, dot, groups, legend, line, plot, row, several, shown, text, wrapped } from "./drawing.js";

const height = 280, x_axis = { from: 2, to: 32, log: true, name: "cp, ranks", ticks: [2, 4, 8, 16, 32] };
const vertical = data => {
  const all = groups(row(data, "MB by ranks").values, 4).flatMap(each => [each[1], each[2]]);
  return { from: 0, to: Math.max(...all) * 1.1, name: "MB that a rank sends" };
};

export default define("24_heads", {
  draw(data, at, about, width) {
    const [ranks, heads, kv, divides] = row(data, "sizes").values, cell = (width - 90) / heads, points = groups(row(data, "MB by ranks").values, 4);
    let svg = text(2, 22, "queries", bold) + text(2, 52, "keys", bold);
    for (let i = 0; i < heads; ++i) svg += box(84 + i * cell, 6, cell - 1, 22, `fill="url(#area-${Math.floor(i * ranks / heads) % 6})"`);
    for (let i = 0; i < kv; ++i) {
      const x = 84 + i * heads / kv * cell, wide = heads / kv * cell - 1;
      svg += box(x, 36, wide, 22, divides ? `fill="url(#area-${Math.floor(i * ranks / kv) % 6})"` : 'fill="none" stroke="currentColor"');
    }
    for (let r = 1; r < ranks; ++r) svg += line(84 + r * heads / ranks * cell - 0.5, 2, 84 + r * heads / ranks * cell - 0.5, 62, `stroke-width="${ranks > 8 ? 1 : 2}"`);
    const said = wrapped(divides ? `each of ${ranks} ranks has ${several(heads / ranks, "head")} of queries and ${shown(kv / ranks)} of keys`
      : `${several(kv, "head")} of keys cannot be shared out among ${ranks} ranks`, width), top = 74 + said.length * 20;
    svg += said.map((each, i) => text(2, 84 + i * 20, each, bold)).join("");
    const p = plot(width, height, x_axis, vertical(data)), names = legend([["url(#area-0)", "Ulysses"], ["url(#area-1)", "a ring"]], width);
    const now = points.find(each => each[0] === ranks), works = points.filter(each => each[3]);
    svg += `<g transform="translate(0 ${top})">${names.svg}</g><g transform="translate(0 ${top + names.height})">` + p.svg + (works.length ? curve(works.map(([n, mb]) => [p.px(n), p.py(mb)]), 0) : "") +
      curve(points.map(([n, , mb]) => [p.px(n), p.py(mb)]), 1) + dot(p.px(ranks), p.py(now[divides ? 1 : 2])) + "</g>";
    return { svg, height: top + names.height + height, title: `${ranks} ranks, ${several(kv, "head")} of keys: ${divides ? `with Ulysses a rank sends ${shown(now[1])} MB` : "the heads cannot be shared out"}, in a ring ${shown(now[2])} MB` };
  },
  drag: along(0, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
