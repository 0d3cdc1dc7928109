// Which inputs of a chain of layers are kept, from left to right in time.
import { define } from "./figure.js";
import { box, colours, groups, legend, line, row, text } from "./drawing.js";

const [keep, restore, drop, run, reverse] = [0, 1, 2, 3, 4];

export default define("17_revolve", {
  dragged: 2,
  draw(data, at, about, width) {
    const [layers, , upto] = row(data, "sizes").values, actions = groups(row(data, "actions").values, 2);
    const steps = actions.filter(([kind]) => kind === run || kind === reverse).length;
    const left = 58, top = 26, high = Math.max(14, Math.min(24, 320 / layers)), wide = (width - left - 8) / steps;
    let svg = text(2, 16, "layer"), time = 0, now = 0;
    const kept = new Map(), end = top + layers * high;
    const stays = (layer, from, to) => { svg += box(left + from * wide, top + layer * high + high * 0.35, (to - from) * wide, high * 0.3, `fill="${colours[2]}"`); };
    for (let i = 0; i < layers; i += Math.ceil(layers / 12)) svg += text(left - 10, top + i * high + high * 0.75, i, 'text-anchor="end"');
    actions.forEach(([kind, layer], i) => {
      if (i === upto) now = time;
      if (kind === keep) kept.set(layer, time);
      if (kind === drop) { stays(layer, kept.get(layer) ?? time, time); kept.delete(layer); }
      if (kind === run || kind === reverse) {
        svg += box(left + time * wide, top + layer * high + 1, Math.max(wide - 0.5, 1), high - 2, `fill="url(#area-${kind === run ? 5 : 3})" opacity="${i < upto ? 1 : 0.3}"`);
        ++time;
      }
    });
    if (upto >= actions.length) now = time;
    for (const [layer, from] of kept) stays(layer, from, time);
    const names = legend([["url(#area-5)", "forward again"], ["url(#area-3)", "backward"], [colours[2], "kept"]], width);
    svg += line(left + now * wide, top - 6, left + now * wide, end + 6, 'stroke-width="2.5"') +
      `<g transform="translate(0 ${end + 12})">${names.svg}</g>`;
    return { svg, height: end + 12 + names.height, title: `${layers} layers run backwards in ${steps} steps; the line is at ${upto} of ${actions.length} actions` };
  }
});
