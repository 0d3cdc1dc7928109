// An all_reduce round by round: the chunks of each rank, and the messages that have just come.
import { define } from "./figure.js";
import { bold, box, colours, groups, middle, row, several, text } from "./drawing.js";

export default define("10_steps", {
  recorded: true,
  dragged: 2,
  draw(data, at, about, width) {
    const [ranks, now, rounds] = row(data, "sizes").values, held = groups(row(data, "held").values, ranks), came = groups(row(data, "came").values, 3);
    const pitch = (width - 24) / ranks, wide = Math.min(pitch - 12, 100), high = 22, top = 112, centre = r => 22 + (r + 0.5) * pitch;
    const arrows = new Map();
    for (const [from, to] of came) arrows.set(`${from} ${to}`, (arrows.get(`${from} ${to}`) ?? 0) + 1);
    let svg = text(4, 16, now === 0 ? "the start" : `round ${now} of ${rounds}`, bold) + '<defs><marker id="steps-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#d55e00"/></marker></defs>';
    for (const [pair, chunks] of arrows) {
      const [from, to] = pair.split(" ").map(Number), a = centre(from) + 6 * Math.sign(to - from), b = centre(to) - 6 * Math.sign(to - from), up = 82 - 56 * Math.sqrt(Math.abs(to - from) / ranks);
      svg += `<path d="M${a} 82C${a} ${up} ${b} ${up} ${b} 82" fill="none" stroke="${colours[3]}" stroke-width="${Math.min(1.5 + chunks * 0.8, 5)}" marker-end="url(#steps-tip)"/>`;
    }
    for (let r = 0; r < ranks; ++r) {
      svg += text(centre(r), 102, `rank ${r}`, middle);
      held[r].forEach((whose, chunk) => {
        const x = centre(r) - wide / 2, y = top + chunk * (high + 4), part = wide / ranks, whole = whose === 2 ** ranks - 1, fresh = came.some(([, to, c]) => to === r && c === chunk);
        for (let k = 0; k < ranks; ++k) if (whose >> k & 1) svg += box(x + k * part, y, part, high, `fill="url(#area-${k % 6})"`);
        svg += box(x, y, wide, high, `fill="none" stroke="${fresh ? colours[3] : "currentColor"}" stroke-width="${fresh ? 3 : whole ? 2 : 0.6}"`);
        if (whole) svg += box(x + wide / 2 - 9, y + 3, 18, 16, 'fill="#fff" opacity=".9"') + text(x + wide / 2, y + 16, "Σ", middle + ' fill="#111"');
      });
    }
    for (let chunk = 0; chunk < ranks; ++chunk) svg += text(2, top + chunk * (high + 4) + 16, String.fromCharCode(97 + chunk));
    const bottom = top + ranks * (high + 4) + 16, done = held.flat().filter(each => each === 2 ** ranks - 1).length;
    svg += text(4, bottom, "a colour is a rank's numbers, Σ the sum");
    return { svg, height: bottom + 12, title: `Round ${now} of ${rounds}: ${several(came.length, "chunk")} came, and ${done} of ${ranks * ranks} sums are whole` };
  }
});
