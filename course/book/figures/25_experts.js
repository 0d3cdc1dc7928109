// Rows that each rank computes, when some experts are hot.
import { define } from "./figure.js";
import { box, line, middle, row, rounded, shown, text } from "./drawing.js";

export default define("25_experts", {
  dragged: 2,
  draw(data, at, about, width) {
    const ranks = row(data, "rows of ranks").values, experts = row(data, "rows of experts").values;
    const most = Math.max(...ranks), mean = ranks.reduce((a, b) => a + b) / ranks.length, bottom = 240, wide = (width - 16) / ranks.length;
    const py = v => bottom - 210 * v / most;
    let svg = text(4, 16, "rows of each rank, by expert");
    ranks.forEach((_, r) => {
      let sum = 0;
      experts.forEach((rows, e) => {
        if (Math.floor(e * ranks.length / experts.length) !== r) return;
        svg += box(8 + r * wide + 2, py(sum + rows), wide - 4, py(sum) - py(sum + rows), `fill="url(#area-${e % 6})" stroke="#fff" stroke-width=".5"`);
        sum += rows;
      });
      svg += text(8 + (r + 0.5) * wide, bottom + 18, r, middle);
    });
    svg += line(8, py(mean), width - 8, py(mean), 'stroke-width="2" stroke-dasharray="6 3"') +
      box(width - 118, py(mean) - 22, 110, 18, 'fill="#fff" opacity=".9"') + text(width - 63, py(mean) - 8, `mean ${rounded(mean)}`, middle + ' fill="#111"') +
      text(width / 2, bottom + 38, "rank", middle);
    return { svg, height: 288, title: `Rows of ${ranks.length} ranks: the busiest has ${shown(most / mean)} times the mean` };
  }
});
