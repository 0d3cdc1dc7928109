// GPUs that die by a click, and those that work on.
import { define } from "./figure.js";
import { bold, box, legend, line, middle, row, text, wrapped } from "./drawing.js";

const top = 58, left = 74, high = 46;
const names = [["url(#area-2)", "works: microbatches of a step"], ['none" stroke="currentColor', "stands idle"]];
const place_of = (x, y, width, replicas, stages) => {
  const stage = Math.floor((x - left) / (width - left - 4) * stages), replica = Math.floor((y - top) / high);
  return Math.min(stage, replica) < 0 || stage >= stages || replica >= replicas ? undefined : replica * stages + stage;
};

export default define("30_kill", {
  free: true,
  tapped: true,
  settings: "settings cells four",
  draw(data, at, about, width) {
    const [replicas, stages] = row(data, "sizes").values, dead = row(data, "dead").values, load = row(data, "load").values;
    const wide = (width - left - 4) / stages, bottom = top + replicas * high;
    let svg = text(4, 16, "click a GPU: it dies, or is replaced", 'font-size="13"');
    for (let stage = 0; stage < stages; ++stage) svg += text(left + (stage + 0.5) * wide, top - 10, `stage ${stage}`, middle);
    dead.forEach((gone, place) => {
      const x = left + place % stages * wide + 3, y = top + Math.floor(place / stages) * high + 3, w = wide - 6, h = high - 6;
      if (place % stages === 0) svg += text(4, y + 25, `replica ${place / stages}`);
      svg += box(x, y, w, h, `fill="${load[place] ? "url(#area-2)" : "none"}" stroke="currentColor"${gone ? ' stroke-dasharray="4 4" opacity=".6"' : ""}`);
      if (gone) svg += line(x + 6, y + 6, x + w - 6, y + h - 6, 'stroke-width="2.5"') + line(x + 6, y + h - 6, x + w - 6, y + 6, 'stroke-width="2.5"');
      else if (load[place]) svg += box(x + w / 2 - 13, y + 9, 26, 22, 'fill="#fff" opacity=".9"') + text(x + w / 2, y + 25, load[place], middle + ' fill="#111"');
      else svg += text(x + w / 2, y + 25, "idle", middle);
    });
    const key = legend(names, width), said = wrapped(row(data, "said").words[0], width - 40);
    svg += `<g transform="translate(0 ${bottom + 8})">${key.svg}</g>` + said.map((each, i) => text(4, bottom + key.height + 26 + i * 20, each, bold)).join("");
    return { svg, height: bottom + key.height + 16 + said.length * 20,
      title: `Of ${dead.length} GPUs ${dead.filter(Boolean).length} dead, ${load.filter(Boolean).length} at work. ${row(data, "said").words[0]}` };
  },
  // The first GPU of a drag dies or is replaced, and those that follow become as it is.
  drag(x, width, data, about, { y, at, held }) {
    const place = place_of(x, y, width, ...row(data, "sizes").values);
    if (place === undefined) return held === undefined ? [] : [held, at[held]];
    return [place, held === undefined ? 1 - at[place] : at[held]];
  }
});
