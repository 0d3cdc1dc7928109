// A matrix spread over two axes of a mesh, before and after; the axes are dragged onto its dims.
import { define } from "./figure.js";
import { bold, box, colours, groups, middle, row, shown, text, wrapped } from "./drawing.js";

// Where an axis can stand around a matrix: nothing, rows, columns, sums; by the setting's place.
const sides = width => {
  const side = Math.min((width - 140) / 2, 200);
  return { side, top: 92, left: [46, Math.min(width - side - 24, side + 190)], high: 92 + side + 68 };
};
const spots = (width, matrix) => {
  const { side, top, left } = sides(width), x = left[matrix];
  return [[x + side * 0.2, top + side + 36], [x - 24, top + side / 2], [x + side / 2, top - 26], [x + side * 0.85, top + side + 36]];
};
// Setting 0 and 2 are X, 1 and 3 are Y; two in one place stand side by side, X first.
const place_of = (width, at, setting) => {
  const matrix = setting >> 1, [x, y] = spots(width, matrix)[at[setting]], both = at[2 * matrix] === at[2 * matrix + 1];
  const apart = both ? (setting % 2 ? 13 : -13) : 0;
  return at[setting] === 1 ? [x, y + apart] : [x + apart, y];
};
const nearest_of = (points, x, y) =>
  points.reduce((best, [a, b], i) => Math.hypot(a - x, b - y) < Math.hypot(points[best][0] - x, points[best][1] - y) ? i : best, 0);

function matrix_drawn(data, name, x, y, side) {
  const whole = row(data, "sizes").values[0], blocks = new Map();
  groups(row(data, name).values, 4).forEach((held, rank) => blocks.set(held.join(), [...blocks.get(held.join()) ?? [], rank]));
  let svg = "", i = 0;
  for (const [held, ranks] of blocks) {
    const [r0, r1, c0, c1] = held.split(",").map(v => v / whole * side), many = ranks.length > 4;
    const words = many ? `${ranks.length} ranks` : ranks.join(" "), wide = words.length * 8 + 8;
    svg += box(x + c0, y + r0, c1 - c0, r1 - r0, `fill="url(#area-${i++ % 6})" stroke="#fff" stroke-width="2"`);
    if (c1 - c0 > wide && r1 - r0 > 16) svg += box(x + (c0 + c1 - wide) / 2, y + (r0 + r1) / 2 - 9, wide, 18, 'fill="#fff" opacity=".9"') +
      text(x + (c0 + c1) / 2, y + (r0 + r1) / 2 + 5, words, middle + ' fill="#111"');
  }
  return svg;
}

export default define("11_reshard", {
  free: true,
  draw(data, at, about, width) {
    const { side, top, left, high } = sides(width), why = row(data, "why not"), steps = row(data, "steps");
    let svg = "";
    ["before", "after"].forEach((name, matrix) => {
      const x = left[matrix];
      svg += text(x, 16, name) + text(x, 36, row(data, name).words[0], bold) + matrix_drawn(data, name, x, top, side);
      ["copies", "", "", "sums"].forEach((word, spot) => {
        const [sx, sy] = spots(width, matrix)[spot];
        svg += box(sx - (spot === 1 ? 13 : 26), sy - (spot === 1 ? 26 : 13), spot === 1 ? 26 : 52, spot === 1 ? 52 : 26, 'rx="13" fill="currentColor" opacity=".1"') +
          text(sx, sy + 28, word, middle + ' font-size="12"');
      });
      for (const setting of [2 * matrix, 2 * matrix + 1]) {
        const [cx, cy] = place_of(width, at, setting);
        svg += `<circle cx="${cx}" cy="${cy}" r="12" fill="${setting % 2 ? "#fff" : colours[0]}" stroke="${colours[0]}" stroke-width="2"/>` +
          text(cx, cy + 5, "XY"[setting % 2], `${middle} ${bold} fill="${setting % 2 ? "#111" : "#fff"}"`);
      }
    });
    const said = why ? wrapped(why.words[0], width) : steps.words.length ? steps.words.flatMap((each, i) => wrapped(`${i + 1}. ${each}, ${shown(steps.values[i])} us`, width)) : ["Nothing is to be done."];
    svg += said.map((each, i) => text(4, high + 16 + i * 20, each, bold)).join("");
    const title = `${row(data, "before").words[0]} to ${row(data, "after").words[0]}: ${said.join("; ")}`;
    return { svg, height: high + 16 + said.length * 20, title };
  },
  drag(x, width, data, about, { y, at, held }) {
    const setting = held ?? nearest_of([0, 1, 2, 3].map(each => place_of(width, at, each)), x, y);
    return [setting, nearest_of(spots(width, setting >> 1), x, y)];
  }
});
