// Two matrices and what a rank has of each; its part of Y, the sum, and Y of one rank.
import { define } from "./figure.js";
import { bold, box, colours, row, shown, text } from "./drawing.js";

// Numbers as squares: blue above 0 and orange below, the larger the fuller; a minus tells the sign, too.
function grid(x, y, cell, values, columns, most) {
  return values.map((v, i) => {
    const left = x + i % columns * cell, top = y + Math.floor(i / columns) * cell, size = Math.min(Math.abs(v) / most, 1);
    return box(left, top, cell - 1, cell - 1, `fill="${colours[v < 0 ? 1 : 0]}" fill-opacity="${(0.08 + 0.92 * size).toFixed(2)}"`) +
      (v < 0 && cell > 10 ? box(left + cell * 0.3, top + cell / 2 - 1, cell * 0.4, 1.5, 'fill="#111"') : "");
  }).join("");
}

export default define("20_cuts", {
  recorded: true,
  dragged: 2,
  draw(data, at, about, width) {
    const [tokens, C, F, ranks, rank, cut] = row(data, "sizes").values, unit = Math.min((width - 70) / (F + C), 9);
    const ax = 24, ay = 34, bx = ax + F * unit + 40, share = F / ranks, rows = C / ranks;
    const part = (x, y, wide, high) => box(x, y, wide * unit, high * unit, 'fill="url(#area-2)"');
    const frame = (name, x, y, wide, high) => text(x, y - 8, name, bold) + box(x, y, wide * unit, high * unit, 'fill="none" stroke="currentColor"');
    const mine = cut === 0 ? part(ax + rank * share * unit, ay, share, C) + part(bx, ay + rank * share * unit, C, share)
      : part(ax, ay + rank * rows * unit, F, rows) + part(bx, ay, C, F);
    let svg = mine + frame("A", ax, ay, F, C) + frame("B", bx, ay, C, F);
    svg += text(ax, ay + C * unit + 24, `green: what rank ${rank} of ${ranks} has`);
    const bottom = Math.max(ay + F * unit, ay + C * unit + 34) + 44, cell = Math.min((width - 40) / (3 * C), 20), all = ["part", "Y", "serial"].map(name => row(data, name).values);
    const most = Math.max(...all.flat().map(Math.abs)), names = [cut === 0 ? "its part" : "no sum", "Y", "one rank's"];
    all.forEach((values, i) => {
      const x = 8 + i * (C * cell + 12);
      svg += text(x, bottom - 8, names[i], bold) + grid(x, bottom, cell, values, C, most);
    });
    const same = data.numbers[0].value === 0 || data.numbers[0].value < 1e-9, end = bottom + tokens * cell + 24;
    svg += text(8, end, same ? "The same Y." : `Another Y: it differs by up to ${shown(data.numbers[0].value)}.`, bold);
    return { svg, height: end + 12, title: `${about.settings[0].words[at[0]]} on ${ranks} ranks: ${same ? "the same Y" : `Y differs by ${shown(data.numbers[0].value)}`}; a rank sends ${shown(data.numbers[1].value)} bytes` };
  }
});
