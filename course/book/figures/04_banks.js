// The banks of shared memory, and the lanes that want each.
import { define } from "./figure.js";
import { bold, box, line, middle, row, text } from "./drawing.js";

export default define("04_banks", {
  dragged: 2,
  draw(data, at, about, width) {
    const [pitch, passes] = row(data, "sizes").values, words = row(data, "words").values, wide = (width - 8) / 32, narrow = wide < 17;
    const queue = Array.from({ length: 32 }, () => []), high = Math.min(22, 320 / passes), bottom = 28 + passes * high;
    words.forEach((word, lane) => queue[word % 32].push(lane));
    let svg = text(4, 16, `rows of ${pitch} words: ${passes} pass${passes > 1 ? "es" : ""}`, bold);
    queue.forEach((lanes, bank) => {
      const x = 4 + bank * wide;
      lanes.forEach((lane, i) => {
        const y = bottom - (i + 1) * high;
        svg += box(x + 0.5, y, wide - 1, high - 1, `fill="url(#area-${lanes.length > 1 ? 3 : 2})"`);
        if (!narrow && high > 14) svg += box(x + 1.5, y + high / 2 - 8, wide - 3, 15, 'fill="#fff" opacity=".9"') + text(x + wide / 2, y + high / 2 + 4, lane, middle + ' fill="#111" font-size="12"');
      });
      if (bank % (narrow ? 8 : 4) === 0) svg += text(x + wide / 2, bottom + 18, bank, middle);
    });
    svg += line(4, bottom, width - 4, bottom) + text(width / 2, bottom + 38, narrow ? "bank" : "bank; in it the lanes that read it", middle);
    return { svg, height: bottom + 48, title: `Rows of ${pitch} words: the busiest bank has ${passes} lanes, so a read takes ${passes} passes` };
  }
});
