// The levels of a machine, from registers to the data centre; one of them is open.
import { define } from "./figure.js";
import { bold, box, colours, end, row, rounded, several, text } from "./drawing.js";

const frame = 196, first = frame + 44, high = 26;
const short = (name, width) => width < 420 ? name.replace(" and L1", ", L1") : name;

// `count` boxes that fill an area, in full lines; the first one has a colour.
function cells(count, x, y, width, height, first_fill) {
  const fits = columns => Math.abs(Math.log(columns * columns * height * 1.6 / (count * width))); // boxes that are a little wider than high
  const columns = Array.from({ length: count }, (_, i) => i + 1).filter(n => count % n === 0).reduce((a, b) => fits(b) < fits(a) ? b : a);
  const w = width / columns, h = height * columns / count, gap = Math.min(w, h) > 16 ? 3 : 1;
  let svg = "";
  for (let i = 0; i < count; ++i)
    svg += box(x + i % columns * w + gap, y + Math.floor(i / columns) * h + gap, w - 2 * gap, h - 2 * gap, `fill="${i ? "none" : first_fill}" fill-opacity=".5" stroke="currentColor"`);
  return { svg, w: w - 2 * gap, h: h - 2 * gap, x: x + gap, y: y + gap };
}

export default define("09_zoom", {
  tapped: true,
  steps: { setting: 0, back: "Zoom in", on: "Zoom out" },
  draw(data, at, about, width) {
    const all = data.rows.slice(0, -1), chosen = row(data, "chosen").values[0], here = all[chosen];
    const [, bandwidth, parts] = here.values, [part, more] = here.words, words = `${several(parts, part)} ${more}`.trim();
    let svg = box(2, 2, width - 4, frame, 'rx="6" fill="none" stroke="currentColor" stroke-width="2"') + text(12, 22, short(here.name, width), bold) + text(width - 12, 22, words, end) +
      box(12, 32, width - 24, 22, `fill="${colours[1]}" fill-opacity=".35"`) + text(18, 48, `a chip gets ${rounded(bandwidth)}B/s`);
    const inside = cells(parts, 10, 60, width - 20, frame - 66, colours[5]);
    svg += inside.svg;
    if (chosen > 2 && inside.w > 60 && inside.h > 36) svg += cells(all[chosen - 1].values[2], inside.x + 4, inside.y + 4, inside.w - 8, inside.h - 8, "none").svg;
    svg += text(width - 92, first - 10, "holds", end) + text(width - 8, first - 10, "gives", end);
    all.forEach(({ name, values: [bytes, gives] }, i) => {
      const y = first + i * high;
      if (i === chosen) svg += box(0, y, width, high, 'fill="url(#area-5)" fill-opacity=".35"');
      const now = i === chosen ? bold : "";
      svg += text(8, y + 18, short(name, width)) + text(width - 92, y + 18, `${rounded(bytes)}B`, `${end} ${now}`) + text(width - 8, y + 18, `${rounded(gives)}B/s`, `${end} ${now}`);
    });
    return { svg, height: first + all.length * high + 6, title: `${here.name}, ${words}. It holds ${rounded(here.values[0])}B, and gives a chip ${rounded(bandwidth)}B/s` };
  },
  drag(x, width, data, about, { y, at }) {
    const level = Math.floor((y - first) / high);
    return level >= 0 && level < about.settings[0].values.length ? [0, level] : [0, at[0]];
  }
});
