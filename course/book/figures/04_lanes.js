// The cells of three matrices that one lane of a warp holds in its registers.
import { define } from "./figure.js";
import { bold, box, groups, middle, row, text, wrapped } from "./drawing.js";

export default define("04_lanes", {
  dragged: 1,
  draw(data, at, about, width) {
    const wide = { A: 0, B: 0, C: 0 }, tall = { A: 0, B: 0, C: 0 };
    for (const name of "ABC") [tall[name], wide[name]] = row(data, `${name} sizes`).values;
    const cell = Math.min(20, (width - 60) / (wide.A + wide.C)), left = 24, top = 44 + tall.B * cell;
    const places = { A: [left, top], B: [left + wide.A * cell + 24, 24], C: [left + wide.A * cell + 24, top] };
    let svg = "";
    for (const [i, name] of [..."ABC"].entries()) {
      const [x, y] = places[name], per = row(data, `${name} sizes`).values[2];
      svg += text(x - 16, y + 14, name, bold);
      for (let r = 0; r < tall[name]; ++r)
        for (let c = 0; c < wide[name]; ++c) svg += box(x + c * cell, y + r * cell, cell, cell, 'fill="none" stroke="currentColor" stroke-opacity=".3"');
      groups(row(data, `${name} cells`).values, 2).forEach(([r, c], k) => {
        svg += box(x + c * cell, y + r * cell, cell, cell, `fill="url(#area-${i})"`);
        if (cell >= 14) svg += box(x + c * cell + 2, y + r * cell + 2, cell - 4, cell - 4, 'fill="#fff" opacity=".9"') +
          text(x + (c + 0.5) * cell, y + r * cell + cell / 2 + 5, Math.floor(k / per), middle + ' fill="#111" font-size="12"');
      });
    }
    const lane = about.settings[1].values[at[1]], bottom = top + tall.C * cell, first = groups(row(data, "A cells").values, 2);
    const said = wrapped(cell >= 14 ? `cells of lane ${lane}; the number is their register` : `cells of lane ${lane}`, width);
    svg += said.map((each, i) => text(4, bottom + 22 + i * 20, each)).join("");
    return { svg, height: bottom + 14 + said.length * 20, title: `Lane ${lane} holds of A the cells ${first.map(([r, c]) => `(${r}, ${c})`).join(" ")}; the numbers are registers` };
  }
});
