// FSDP's units over time, and what a rank borrows; the line is now.
import { define } from "./figure.js";
import { box, colours, end, groups, legend, line, row, several, text, wrapped } from "./drawing.js";

const [whole, gather, forward, input, weight, gradients, sum, reduction] = [0, 1, 2, 3, 4, 5, 6, 7];
const left = 106, high = 46, lane = 18, curve_high = 84;
const fills = { [gather]: "url(#area-5)", [forward]: "url(#area-0)", [input]: "url(#area-0)", [weight]: "url(#area-3)", [reduction]: "url(#area-1)" };
const lower = kind => [weight, gradients, sum, reduction].includes(kind);
const names = width => legend([["url(#area-5)", "gather"], ["url(#area-0)", "compute with weights"], ["url(#area-3)", "gradients of weights"], ["url(#area-1)", "reduce"],
  [`${colours[2]}" fill-opacity=".3`, "in memory"]], width);

export default define("15_breathing", {
  recorded: true,
  plays: 2,
  draw(data, at, about, width) {
    const [now, last, units, ranks] = row(data, "sizes").values, key = names(width), top = key.height + 8;
    const px = t => left + (width - left - 8) * t / last, spans = groups(row(data, "spans").values, 4), bottom = top + units * high;
    const there = (unit, kind) => spans.some(([u, k, from, to]) => u === unit && k === kind && from <= now && now < to);
    let svg = key.svg;
    for (let unit = 0; unit < units; ++unit) {
      const y = top + unit * high, share = 1 / ranks;
      svg += text(2, y + 22, `unit ${unit}`) + box(52, y, 44, lane, 'fill="none" stroke="currentColor"') + box(52, y, 44 * (there(unit, whole) ? 1 : share), lane, `fill="${colours[2]}"`) +
        box(52, y + lane + 2, 44, lane, 'fill="none" stroke="currentColor"') + box(52, y + lane + 2, 44 * (there(unit, gradients) ? 1 : there(unit, sum) ? share : 0), lane, `fill="${colours[3]}"`);
    }
    for (const [unit, kind, from, to] of [...spans].sort((a, b) => !!fills[a[1]] - !!fills[b[1]])) {
      const y = top + unit * high + (lower(kind) ? lane + 2 : 0), faded = from > now ? ' opacity=".35"' : "";
      if (kind !== sum) svg += box(px(from), y, px(to) - px(from), lane, `fill="${fills[kind] ?? colours[2]}"${fills[kind] ? faded : ' fill-opacity=".3"'}`);
    }
    const base = bottom + 34 + curve_high, held = row(data, "borrowed").values, most = Math.max(4, ...groups(held, 3).map(each => each[2]));
    svg += text(2, bottom + 18, "borrowed, in units");
    for (let v = 0; v <= most; ++v) svg += line(left, base - curve_high * v / most, width - 8, base - curve_high * v / most, 'opacity=".15"') + text(left - 8, base - curve_high * v / most + 5, v, end);
    for (const [from, to, v] of groups(held, 3)) svg += box(px(from), base - curve_high * v / most, px(to) - px(from), curve_high * v / most, `fill="${colours[2]}" fill-opacity="${from > now ? 0.3 : 0.8}"`);
    svg += line(px(now), top - 4, px(now), base, 'stroke-width="2.5"') + text(left, base + 20, "0 s") + text(width - 8, base + 20, `${last.toFixed(1)} s`, end);
    const said = wrapped("At the left is what a rank holds now: of a unit's weights above, of its gradients below.", width);
    svg += said.map((each, i) => text(2, base + 44 + i * 20, each)).join("");
    return { svg, height: base + 32 + said.length * 20,
      title: `After ${now.toFixed(1)} of ${last.toFixed(1)} s a rank has borrowed ${several(data.numbers[1].value, "unit")}, ${data.numbers[2].value} at the peak` };
  },
  drag(x, width, data, about) {
    const last = about.settings[2].values.length - 1;
    return [2, Math.round(Math.min(Math.max((x - left) / (width - left - 8), 0), 1) * last)];
  }
});
