// From the peak to the MFU, one loss after the other.
import { define } from "./figure.js";
import { bold, box, line, row, shown, text } from "./drawing.js";

export default define("27_waterfall", {
  recorded: true,
  dragged: 1,
  draw(data, at, about, width) {
    const left = 128, px = share => left + (width - left - 76) * share / 100, high = 24;
    const falls = data.rows.map(each => [each.name, each.values[0]]), mfu = data.numbers[0].value;
    let svg = text(2, 18, "the peak") + box(left, 2, px(100) - left, high - 4, 'fill="url(#area-0)"') + text(px(100) + 5, 18, "100%"), now = 100, y = 2 + high;
    for (const [name, share] of falls) {
      const from = Math.min(now, now - share), to = Math.max(now, now - share);
      svg += text(2, y + 16, name) + line(px(now), y - 4, px(now), y, 'opacity=".5"') + box(px(from), y, px(to) - px(from), high - 4, `fill="url(#area-${name === "recomputation" ? 4 : 3})"`) +
        text(px(to) + 5, y + 16, `${share < 0 ? "+" : "-"}${shown(Math.abs(share))}%`);
      now -= share;
      y += high;
    }
    svg += text(2, y + 16, "MFU", bold) + box(left, y, px(mfu) - left, high - 4, 'fill="url(#area-2)"') + text(px(mfu) + 5, y + 16, `${shown(mfu)}%`, bold);
    const [name, most] = falls.reduce((a, b) => b[1] > a[1] ? b : a);
    return { svg, height: y + high + 6, title: `An MFU of ${shown(mfu)}%; the most is lost to ${name}, ${shown(most)}%` };
  }
});
