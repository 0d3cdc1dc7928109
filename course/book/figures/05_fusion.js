// Ops in a row, and the arrays that travel between them and memory.
import { define } from "./figure.js";
import { box, colours, line, middle, row, rounded, shown, text } from "./drawing.js";

export default define("05_fusion", {
  dragged: 1,
  draw(data, at, about, width) {
    const [ops, fused, megabytes] = row(data, "sizes").values, wide = (width - 16) / ops, memory = 150;
    let svg = text(8, 16, "chip") + text(8, memory + 34, "memory") + line(8, memory + 16, width - 8, memory + 16, 'stroke-width="3"');
    for (let i = 0; i < ops; ++i) {
      const x = 8 + i * wide, joined = i < fused;
      svg += box(x + 2, 26, wide - 4, 44, `fill="url(#area-${joined ? 2 : 0})" stroke="currentColor"`) +
        box(x + wide / 2 - 11, 38, 22, 20, 'fill="#fff" opacity=".9"') + text(x + wide / 2, 53, i + 1, middle + ' fill="#111"');
      if (!joined || i === 0) svg += arrow(x + wide * 0.28, memory + 12, 74, colours[3]);
      if (!joined || i === fused - 1) svg += arrow(x + wide * 0.72, 74, memory + 12, colours[0]);
      if (joined && i + 1 < fused) svg += line(x + wide - 6, 48, x + wide + 6, 48, 'stroke-width="4"');
    }
    svg += text(width - 8, memory + 34, `each arrow ${rounded(megabytes * 1e6)}B`, 'text-anchor="end"');
    return { svg, height: memory + 46, title: `${ops} ops, the first ${fused} in one kernel: ${shown(data.numbers[1].value)} MB move` };
  }
});

const arrow = (x, from, to, colour) => {
  const down = to > from ? -1 : 1;
  return `<path d="M${x} ${from}V${to}m-5 ${8 * down}l5 ${-8 * down}l5 ${8 * down}" fill="none" stroke="${colour}" stroke-width="2.5"/>`;
};
