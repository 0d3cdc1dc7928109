// Place the backward passes of a pipeline; the library's executor says what comes of it.
import { define } from "./figure.js";
import { bold, groups, row, shown, text, wrapped } from "./drawing.js";
import { lanes, timeline } from "./schedule.js";

const microbatches = 4, backward = 1;

export default define("18_game", {
  free: true,
  draw(data, at, about, width) {
    const { svg, height } = timeline(data, width), stuck = row(data, "stuck").words[0];
    const said = wrapped(stuck ? `Stuck: ${stuck}.` : `The step takes ${shown(data.numbers[0].value)} times F.`, width);
    return { svg: svg + said.map((each, i) => text(4, height + 10 + i * 20, each, bold)).join(""), height: height + 4 + said.length * 20, title: stuck ? `The ranks wait for each other forever: ${stuck}` : `A step of ${shown(data.numbers[0].value)} times F` };
  },
  // The backward pass that is nearest is taken; where it is dropped says how many forward passes come before it.
  drag(x, width, data, about, { y, held }) {
    const { left, wide, top, step } = lanes(data, width), time = (x - left) / wide;
    const rank = held === undefined ? Math.floor((y - top) / step) : Math.floor(held / microbatches), events = row(data, `rank ${rank}`);
    if (!events) return [];
    const all = groups(events.values, 5), taken = all.find(([, op, , from, to]) => op === backward && from <= time && time < to);
    if (held === undefined && !taken) return [];
    const setting = held ?? rank * microbatches + taken[2];
    if (held === undefined) return [setting, about.settings[setting].values.indexOf(forwards_before(all, taken[3]))];
    const before = Math.min(Math.max(forwards_before(all, time), 1), microbatches);
    return [setting, before - 1];
  }
});

const forwards_before = (events, time) => Math.max(events.filter(([, op, , from, to]) => op !== backward && (from + to) / 2 < time).length, 1);
