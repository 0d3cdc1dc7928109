// The planner's fastest layouts, as they were found when the site was made: a step's time by network cards.
import { define } from "./figure.js";
import { along, bold, curve, dot, plot, row, rounded, shown, text, wrapped } from "./drawing.js";

const height = 320, x_axis = { from: 4, to: 500, log: true, name: "GB/s of a network card" };
const vertical = data => {
  const all = row(data, "steps by cards").values.filter(each => each !== null);
  return { from: 0, to: Math.max(...all, 0.001) * 1.1, name: "s of a step" };
};

export default define("28_planner", {
  recorded: true,
  draw(data, at, about, width) {
    const cards = about.settings[3].values, p = plot(width, height, x_axis, vertical(data)), note = row(data, "note").words[0];
    const points = row(data, "steps by cards").values.map((each, i) => each === null ? null : [p.px(cards[i]), p.py(each)]).filter(Boolean);
    const now = data.numbers[0].value;
    const lines = wrapped(note, width);
    const svg = p.svg + (points.length ? curve(points, 0) : "") + points.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="4"/>`).join("") +
      (now === null ? "" : dot(p.px(cards[at[3]]), p.py(now))) + lines.map((each, i) => text(4, height + 16 + i * 20, each, bold)).join("");
    return { svg, height: height + 12 + lines.length * 20, title: `${note}; a step of ${shown(now)} s with cards of ${rounded(cards[at[3]])} GB/s` };
  },
  drag: along(3, x_axis, (data, width) => plot(width, height, x_axis, vertical(data)))
});
