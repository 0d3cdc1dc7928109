// The ranks of a mesh in their nodes, and the group of one of them.
import { define } from "./figure.js";
import { bold, box, middle, row, several, text } from "./drawing.js";

const of_group = 'fill="url(#area-1)" stroke="currentColor" stroke-width="2"', of_others = 'fill="none" stroke="currentColor" stroke-opacity=".35"';

// Few nodes: one in a line, and each rank with its number.
function large(width, ranks, group, mine, names) {
  const cell = Math.min(42, (width - 68) / 8), step = cell * 0.8 + 4;
  let svg = text(60, 16, "GPUs of a node →");
  for (let rank = 0; rank < ranks; ++rank) {
    const x = 60 + rank % 8 * cell, y = 26 + Math.floor(rank / 8) * step;
    svg += `<g><title>rank ${rank}: ${names[rank]}</title>` + box(x + 1, y, cell - 2, cell * 0.8, group[rank] ? of_group : of_others);
    if (group[rank]) svg += box(x + cell / 2 - 11, y + cell * 0.4 - 10, 22, 20, 'fill="#fff" opacity=".9"');
    svg += text(x + cell / 2, y + cell * 0.4 + 5, rank, middle + (group[rank] ? ' fill="#111"' : "") + (rank === mine ? " " + bold : "")) + "</g>";
  }
  const nodes = Math.ceil(ranks / 8);
  for (let node = 0; node < nodes; ++node) svg += text(4, 26 + node * step + cell * 0.5, `node ${node}`, 'font-size="12"');
  return { svg, bottom: 26 + nodes * step };
}

// Many nodes: several in a line, a rank is a square. The rank that was asked for has a thick frame.
function small(width, ranks, group, mine, names) {
  const per_line = width < 560 ? 4 : 8, left = 62, pitch = (width - left - 4) / per_line, cell = (pitch - 6) / 8, high = Math.max(cell, 8), step = high + 5;
  const nodes = Math.ceil(ranks / 8), place = rank => [left + Math.floor(rank / 8) % per_line * pitch + rank % 8 * cell, 26 + Math.floor(rank / 8 / per_line) * step];
  let svg = text(4, 16, `${per_line} nodes in a line, 8 GPUs each →`);
  for (let rank = 0; rank < ranks; ++rank) {
    const [x, y] = place(rank);
    svg += `<g><title>rank ${rank}: ${names[rank]}</title>` + box(x, y, cell - 1, high, group[rank] ? 'fill="url(#area-1)" stroke="currentColor"' : of_others) + "</g>";
  }
  const [x, y] = place(mine);
  svg += box(x - 1.5, y - 1.5, cell + 2, high + 3, 'fill="none" stroke="currentColor" stroke-width="3"');
  for (let node = 0; node < nodes; node += 2 * per_line) svg += text(4, 26 + node / per_line * step + high, `node ${node}`, 'font-size="12"');
  return { svg, bottom: 26 + Math.ceil(nodes / per_line) * step };
}

export default define("26_mesh", {
  dragged: 5,
  draw(data, at, about, width) {
    const [ranks, mine] = row(data, "sizes").values, group = row(data, "group").values, names = row(data, "places").words;
    const { svg, bottom } = (ranks <= 64 ? large : small)(width, ranks, group, mine, names);
    const inside = new Set(group.flatMap((yes, rank) => yes ? [Math.floor(rank / 8)] : [])).size, on = `its group lies on ${several(inside, "node")}`;
    return { svg: svg + text(4, bottom + 18, `rank ${mine}: ${names[mine]}`, bold) + text(4, bottom + 38, on), height: bottom + 48,
      title: `Rank ${mine}, ${names[mine]}: ${on}` };
  }
});
