// Two lanes: the host that launches, and the chip that computes.
import { define } from "./figure.js";
import { bold, box, colours, end, groups, line, middle, row, rounded, text } from "./drawing.js";

export default define("06_launches", {
  dragged: 0,
  draw(data, at, about, width) {
    const lanes = row(data, "lanes"), spans = groups(lanes.values, 3), last = Math.max(...spans.map(([, , e]) => e));
    const left = 46, px = t => left + (width - left - 8) * t / last;
    let svg = text(2, 44, "host", bold) + text(2, 100, "chip", bold) + line(left, 128, width - 8, 128);
    spans.forEach(([lane, begin, until], i) => {
      const wide = px(until) - px(begin);
      svg += box(px(begin), 20 + lane * 56, wide, 40, `fill="url(#area-${lane})" stroke="${colours[lane]}"`);
      if (wide > 22) svg += box(px(begin) + wide / 2 - 9, 30 + lane * 56, 18 * Math.max(1, lanes.words[i].length / 2), 20, 'fill="#fff" opacity=".9"') +
        text(px(begin) + wide / 2, 45 + lane * 56, lanes.words[i], middle + ' fill="#111"');
    });
    svg += text(left, 146, "0") + text(width - 8, 146, `${rounded(last)} us`, end);
    return { svg, height: 156, title: `Eight ops on two lanes, the host's and the chip's, done after ${rounded(last)} us` };
  }
});
