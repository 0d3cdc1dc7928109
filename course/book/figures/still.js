// Draws the figures that stand still, from answers of the library on this machine.
//
//     node still.js FOLDER <answers     a JSON list of {name, about, data}; FOLDER gets NAME_360.svg and NAME_720.svg,
//                                       and the titles come to standard output
import { readFileSync, writeFileSync } from "node:fs";
import { picture } from "./drawing.js";

const titles = {};
for (const { name, about, data } of JSON.parse(readFileSync(0, "utf8"))) {
  const figure = (await import(`./${name}.js`)).default, at = about.settings.map(each => each.start);
  for (const width of [360, 720]) {
    const drawn = figure.draw(data, at, about, width);
    writeFileSync(`${process.argv[2]}/${name}_${width}.svg`, picture(name, width, drawn.height, drawn.title, drawn.svg, true));
    titles[name] = drawn.title;
  }
}
console.log(JSON.stringify(titles));
