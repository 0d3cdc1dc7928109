// Blocks of scores, by the step in which a ring of ranks computes them.
import { define } from "./figure.js";
import { box, colours, groups, middle, row, text } from "./drawing.js";

export default define("23_ring", {
  dragged: 2,
  draw(data, at, about, width) {
    const [ranks, each, now] = row(data, "sizes").values, chunks = ranks * each, side = Math.min(width - 40, 360), cell = side / chunks;
    const x0 = (width - side) / 2, y0 = 24, work = groups(row(data, "work").values, ranks)[now];
    let svg = text(x0, 16, "chunks of keys →, of queries ↓");
    for (const [q, k, rank, step, part] of groups(row(data, "blocks").values, 5)) {
      const x = x0 + k * cell, y = y0 + q * cell, shape = part === 2 ? `M${x} ${y}h${cell}v${cell}h${-cell}z` : `M${x} ${y}v${cell}h${cell}z`;
      svg += `<path d="${shape}" fill="${step === now ? `url(#area-${rank % 6})` : step < now ? colours[5] : "none"}" opacity="${step < now ? 0.35 : 1}" stroke="currentColor" stroke-opacity=".5"/>`;
      if (step === now && cell > 20) svg += box(x + cell / 2 - 9, y + cell / 2 - (part === 2 ? 10 : 2), 18, 18, 'fill="#fff" opacity=".9"') +
        text(x + cell / 2, y + cell / 2 + (part === 2 ? 4 : 12), rank, middle + ' fill="#111"');
    }
    const most = Math.max(...work, 1), top = y0 + side + 30, wide = (width - 16) / ranks;
    svg += text(8, top, `step ${now}: what each rank computes`);
    work.forEach((sum, rank) => {
      svg += box(8 + rank * wide + 3, top + 12, (wide - 6) * sum / most, 22, `fill="url(#area-${rank % 6})"`) +
        box(8 + rank * wide + 3, top + 12, wide - 6, 22, 'fill="none" stroke="currentColor"') + text(8 + (rank + 0.5) * wide, top + 52, rank, middle);
    });
    return { svg, height: top + 62, title: `Step ${now} of ${ranks} ranks: the busiest computes ${most / 2} blocks, the idlest ${Math.min(...work) / 2}` };
  }
});
