// The timeline of a pipeline schedule: a lane for each rank.
import { bold, box, end, groups, legend, line, middle, row, rounded, shown, text, wrapped } from "./drawing.js";

const letters = "FBIW", area = { F: 0, B: 1, I: 1, W: 2 };

// Where rank r's lane lies, and what a time is in pixels.
export function lanes(data, width) {
  const [, length] = row(data, "sizes").values, left = 56;
  const used = [["F", "forward"], ["B", "backward"], ["I", "gradients of inputs"], ["W", "gradients of weights"]]
    .filter(([letter]) => groups(row(data, "rank 0").values, 5).some(each => letters[each[1]] === letter));
  const names = legend(used.map(([letter, name]) => [`url(#area-${area[letter]})`, `${letter} ${name}`]), width);
  return { left, wide: (width - left - 6) / length, names, top: names.height + 8, high: 34, step: 40 };
}

export function timeline(data, width) {
  const why = row(data, "why not");
  if (why) {
    const lines = wrapped(why.words[0], width);
    return { svg: lines.map((each, i) => text(4, 30 + i * 20, each, bold)).join(""), height: 50 + lines.length * 20, title: why.words[0] };
  }
  const [ranks, length, stages] = row(data, "sizes").values, { left, wide, names, top, high, step } = lanes(data, width);
  let svg = names.svg;
  for (let r = 0; r < ranks; ++r) {
    const y = top + r * step;
    svg += text(2, y + 22, `rank ${r}`) + box(left, y, width - left - 6, high, 'fill="currentColor" opacity=".08"');
    for (const [stage, op, microbatch, begin, until] of groups(row(data, `rank ${r}`).values, 5)) {
      const w = (until - begin) * wide, px = left + begin * wide, second = stage >= ranks;
      svg += box(px, y, Math.max(w - 0.5, 0.5), high, `fill="url(#area-${area[letters[op]]})" stroke="${second ? "#111" : "#fff"}" stroke-width="${second ? 1.2 : 0.4}"`);
      const words = String(microbatch);
      if (w > 9 * words.length + 4) svg += box(px + w / 2 - 4.6 * words.length - 1, y + 8, 9.2 * words.length + 2, 18, 'fill="#fff" opacity=".9"') +
        text(px + w / 2, y + 22, words, middle + ' fill="#111"');
    }
  }
  const bottom = top + ranks * step + 4;
  svg += line(left, bottom, width - 6, bottom) + text(left, bottom + 18, "0") + text(width - 6, bottom + 18, `${rounded(length)} times F`, end) +
    (stages > ranks ? text(left, bottom + 38, "black edge: a later chunk of the rank") : "");
  return { svg, height: bottom + (stages > ranks ? 48 : 28), title: `${ranks} ranks, a step of ${shown(length)} times F, of which ${shown(data.numbers[0].value)}% is bubble` };
}
