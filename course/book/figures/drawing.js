// What the figures draw with: SVG as text, so that the same lines draw in a browser and, when the
// site is made, the pictures that stand still.
//
// Colours are Okabe and Ito's, which colour-blind readers tell apart; no two areas or lines differ
// by colour alone. Text has the colour of the page.

export const colours = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"];
const dashes = ["", "8 4", "2 3", "10 3 2 3", "5 2 1 2"];

const superscript = n => [...String(n)].map(c => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");

// 0.0123, 4096, 3.2×10⁹; a value that is no number has no figure.
export function shown(value, digits = 3) {
  if (value === null) return "no finite number";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) {
    const [mantissa, power] = value.toExponential(Math.max(digits - 1, 0)).split("e");
    return `${Number(mantissa) === 1 ? "" : `${Number(mantissa)}×`}10${superscript(Number(power))}`;
  }
  return String(Number(value.toPrecision(digits)));
}

// "1 head", "8 heads"
export const several = (count, one) => `${shown(count, 6)} ${one}${count === 1 ? "" : "s"}`;
// 1 minute, 2 minutes, 1 us, 1 times as fast
export const measured = (value, unit, digits) =>
  value === null ? shown(value) : `${shown(value, digits)} ${value === 1 ? unit.replace(/^(\w+ch)es\b/, "$1").replace(/^(?!times)(\w{3,})s\b/, "$1") : unit}`.trim();

// 1 k, 64 k, 1 M, 1 G, 1 P
export function rounded(value) {
  if (value >= 1e18) return shown(value, 2);
  for (const [power, letter] of [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]])
    if (value >= power * 0.9995) return shown(value / power) + letter;
  return shown(value);
}

export const safe = text => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
const at = v => Math.round(v * 10) / 10;

export const text = (x, y, words, more = "") => `<text x="${at(x)}" y="${at(y)}" ${more}>${safe(words)}</text>`;
export const line = (x1, y1, x2, y2, more = "") =>
  `<line x1="${at(x1)}" y1="${at(y1)}" x2="${at(x2)}" y2="${at(y2)}" stroke="currentColor" ${more}/>`;
export const box = (x, y, width, height, more = "") =>
  `<rect x="${at(x)}" y="${at(y)}" width="${at(Math.max(width, 0))}" height="${at(height)}" ${more}/>`;
export const middle = 'text-anchor="middle"', end = 'text-anchor="end"', bold = 'font-weight="bold"';

// Patterns for areas, once in a picture: fill="url(#area-0)".
export const areas = () => "<defs>" + colours.map((colour, i) => {
  const marks = ["", "M0 8L8 0", "M0 4H8", "M4 0V8", "M0 0L8 8", "M0 8L8 0M0 0L8 8"][i];
  return `<pattern id="area-${i}" width="8" height="8" patternUnits="userSpaceOnUse"><rect width="8" height="8" fill="${colour}"/>` +
    `<path d="${marks}" stroke="#fff" stroke-width="1.2"/></pattern>`;
}).join("") + "</defs>";

// Words in as many lines as `width` asks for.
export function wrapped(words, width) {
  const lines = [""];
  for (const word of words.split(" ")) if ((lines.at(-1) + word).length > width / 8.6) lines.push(word); else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  return lines;
}

// Where words that are centred on x have their middle, if all of them are to be seen.
export const within = (x, words, width) => Math.min(Math.max(x, words.length * 4.2), width - words.length * 4.2);

// What areas stand for, [[fill, name], ...], in as many lines as `width` asks for: {svg, height}.
export function legend(items, width) {
  let svg = "", x = 4, y = 14;
  for (const [fill, name] of items) {
    const wide = 32 + name.length * 7.6;
    if (x > 4 && x + wide > width) { x = 4; y += 22; }
    svg += box(x, y - 10, 20, 12, `fill="${fill}"`) + text(x + 26, y, name);
    x += wide + 12;
  }
  return { svg, height: y + 10 };
}

// Axes: x and y are {from, to, log, name, ticks}, the last if they are given; what they return places values, and finds them again.
export function plot(width, height, x, y) {
  const left = 62, right = width - 20, top = 32, bottom = height - 46;
  const share = (axis, v) => axis.log ? Math.log(v / axis.from) / Math.log(axis.to / axis.from) : (v - axis.from) / (axis.to - axis.from);
  const px = v => left + (right - left) * Math.min(Math.max(share(x, v), 0), 1);
  const py = v => bottom - (bottom - top) * Math.min(Math.max(share(y, v), 0), 1);
  let svg = "";
  for (const v of x.ticks ?? ticks(x, Math.max(2, Math.floor((right - left) / 70))))
    svg += line(px(v), top, px(v), bottom, 'opacity=".15"') + text(px(v), bottom + 18, rounded(v), middle);
  for (const v of ticks(y, 6))
    svg += line(left, py(v), right, py(v), 'opacity=".15"') + text(left - 6, py(v) + 4, rounded(v), end);
  svg += text((left + right) / 2, height - 8, x.name, middle) + text(4, 16, y.name);
  return { svg, px, py, left, right, top, bottom };
}

// At most `most` round values of an axis.
function ticks(axis, most) {
  const found = [];
  if (axis.log) {
    const decades = Math.log10(axis.to / axis.from), step = Math.max(1, Math.ceil(decades / most));
    for (let e = Math.ceil(Math.log10(axis.from) - 1e-9); 10 ** e <= axis.to * 1.0001; e += step) found.push(10 ** e);
  } else {
    const raw = (axis.to - axis.from) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw);
    for (let v = Math.ceil(axis.from / step - 1e-9) * step; v <= axis.to + step * 1e-6; v += step) found.push(v);
  }
  return found;
}

export const curve = (points, i, more = "") =>
  `<path d="M${points.map(([x, y]) => at(x) + " " + at(y)).join("L")}" fill="none" stroke="${colours[i]}" stroke-width="2.5" stroke-dasharray="${dashes[i] ?? ""}" ${more}/>`;
export const dot = (x, y) => `<circle cx="${at(x)}" cy="${at(y)}" r="8" fill="${colours[3]}" stroke="#fff" stroke-width="2"/>`;

// [a, b, c, d] -> [[a, b], [c, d]] for 2 at a time.
export const groups = (values, size) =>
  Array.from({ length: values.length / size }, (_, i) => values.slice(i * size, i * size + size));
export const row = (data, name) => data.rows.find(each => each.name === name);
// The place of the value that is nearest, on a logarithmic axis.
export const nearest = (values, v) =>
  values.reduce((best, each, i) => Math.abs(Math.log(each / v)) < Math.abs(Math.log(values[best] / v)) ? i : best, 0);
// What a plot's x stands for.
export const value_at = (p, axis, x) => {
  const share = Math.min(Math.max((x - p.left) / (p.right - p.left), 0), 1);
  return axis.log ? axis.from * (axis.to / axis.from) ** share : axis.from + (axis.to - axis.from) * share;
};

// Whole powers of ten around values: the ends of a logarithmic axis.
export const decades = values => ({ from: 10 ** Math.floor(Math.log10(Math.min(...values))), to: 10 ** Math.ceil(Math.log10(Math.max(...values)) + 0.01), log: true });
// A figure's drag along the x of its plot, as plot_of(data, width) places it: the setting takes the value that is nearest.
export const along = (setting, x_axis, plot_of) => (x, width, data, about) =>
  [setting, nearest(about.settings[setting].values, value_at(plot_of(data, width), x_axis, x))];

// A whole picture of the figure `name`. `title` is what it shows, in words, for those who do not see it. Its patterns have the figure's name: a page
// may have several.
export const picture = (name, width, height, title, inner, still = false) =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" ` +
  `font-family="sans-serif" font-size="14" fill="currentColor"${still ? ' color="#111"' : ""}>` +
  `<title>${safe(title)}</title>${still ? `<rect width="${width}" height="${height}" fill="#fff"/>` : ""}` +
  `${(areas() + inner).replaceAll('"area-', `"${name}-area-`).replaceAll("url(#area-", `url(#${name}-area-`)}</svg>`;
