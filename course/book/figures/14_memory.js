// What a rank holds of a model, by stage of ZeRO, beside a chip's memory.
import { define } from "./figure.js";
import { bold, box, legend, line, middle, row, shown, text, within } from "./drawing.js";

const stages = ["DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3"], kinds = ["weights", "gradients", "optimizer"];

export default define("14_memory", {
  dragged: 1,
  draw(data, at, about, width) {
    const memory = row(data, "memory"), limit = memory.values[0], left = 66, right = width - 70;
    const held = stage => data.numbers.find(each => each.name === stage).value;
    const chip = `${memory.words[0]}: ${shown(limit)} GB`;
    const most = Math.max(limit, ...stages.map(held)), px = v => left + (right - left) * v / most;
    let { svg } = legend(kinds.map((kind, i) => [`url(#area-${i})`, kind]), width);
    stages.forEach((stage, i) => {
      const y = 34 + i * 42;
      let sum = 0;
      svg += text(2, y + 20, stage, bold);
      row(data, stage).values.forEach((part, k) => { svg += box(px(sum), y, px(sum + part) - px(sum), 30, `fill="url(#area-${k})"`); sum += part; });
      svg += text(px(sum) + 5, y + 20, `${shown(sum)} GB`, sum <= limit ? bold : "");
    });
    svg += line(px(limit), 28, px(limit), 204, 'stroke-width="2" stroke-dasharray="6 3"') +
      text(within(px(limit), chip, width), 222, chip, middle);
    const fits = stages.find(stage => held(stage) <= limit);
    return { svg, height: 232, title: `Memory of a rank: ${stages.map(s => `${s} ${shown(held(s))} GB`).join(", ")}. ${fits ? `${fits} is the first that fits` : "None fits"} into ${shown(limit)} GB` };
  }
});
