// The tokens of each rank between the layers and inside them; what is kept and sent in three ways.
import { define } from "./figure.js";
import { bold, box, legend, row, shown, text } from "./drawing.js";

const short = [["tp alone"], ["shared,", "kept"], ["shared,", "dropped"]];

export default define("21_tokens", {
  recorded: true,
  dragged: 1,
  draw(data, at, about, width) {
    const [T, ranks] = row(data, "sizes").values, held = row(data, "held").values, shares = held.some(each => each < T);
    const left = 56, gap = 20, wide = (width - left - gap - 6) / 2, cell = wide / T, high = 16;
    let svg = text(left, 16, wide < 150 ? "between layers" : "between the layers", bold) + text(left + wide + gap, 16, "inside", bold), first = 0;
    held.forEach((count, r) => {
      const y = 26 + r * (high + 5);
      svg += text(2, y + 13, `rank ${r}`);
      for (let t = 0; t < T; ++t) {
        const mine = !shares || t >= first && t < first + count;
        svg += box(left + t * cell, y, cell - 1, high, mine ? `fill="url(#area-${r % 6})"` : 'fill="none" stroke="currentColor" stroke-opacity=".25"') +
          box(left + wide + gap + t * cell, y + r * high / ranks, cell - 1, Math.max(high / ranks, 2), `fill="url(#area-${r % 6})"`) +
          box(left + wide + gap + t * cell, y, cell - 1, high, 'fill="none" stroke="currentColor" stroke-opacity=".25"');
      }
      if (shares) first += count;
    });
    const top = 26 + ranks * (high + 5) + 10, names = legend([["url(#area-0)", "rank 0 keeps"], ["url(#area-1)", "it sends"], ["url(#area-3)", "and once more"]], width);
    const ways = about.settings[0].words.map(way => row(data, way).values), most = Math.max(...ways.map(([kept]) => kept), ...ways.map(([, sent, again]) => sent + again));
    const from = 76, px = v => (width - from - 90) * v / most;
    svg += `<g transform="translate(0 ${top})">${names.svg}</g>`;
    ways.forEach(([kept, sent, again], i) => {
      const y = top + names.height + 6 + i * 48;
      svg += short[i].map((word, k) => text(2, y + (short[i].length > 1 ? 14 : 22) + k * 18, word, i === at[0] ? bold : "")).join("") + box(from, y, px(kept), 17, 'fill="url(#area-0)"') + text(from + px(kept) + 5, y + 14, `${shown(kept)} kB`) +
        box(from, y + 20, px(sent), 17, 'fill="url(#area-1)"') + box(from + px(sent), y + 20, px(again), 17, 'fill="url(#area-3)"') + text(from + px(sent + again) + 5, y + 34, `${shown(sent + again)} kB`);
    });
    return { svg, height: top + names.height + 6 + 3 * 48, title: `${ranks} ranks and ${T} tokens, ${about.settings[0].words[at[0]]}: rank 0 holds ${held[0]} tokens between the layers and keeps ${shown(data.numbers[1].value)} kB` };
  }
});
