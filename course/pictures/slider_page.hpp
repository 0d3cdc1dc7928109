// A page with sliders: figures on a grid of settings, in one HTML file that needs no network and no
// server.
//
//     SliderTable table = {"A step", {{"GPUs", "", {8, 16}}, {"cards", "GB/s", {25, 50}}},
//     {{"step", "s", 2}}}; fill(table, [](const std::vector<double>& at) { return
//     SliderPoint{{seconds(at[0], at[1])}, "a note"}; });
//     slider_page(table)     the page: a slider for each axis, the figures, the note, and a chart
//                            along one axis
//     slider_row(table, 3)   one point as a line of text
//
// The figures are computed here; the page's script only looks them up. In a notebook: show_page().
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

struct SliderAxis {
  std::string name, unit;
  std::vector<double> values;
  size_t start = 0;  // where the slider stands first
};
struct SliderFigure {
  std::string name, unit;
  int decimals = 1;
};
// NaN is a figure that there is not: it is shown as "none".
struct SliderPoint {
  std::vector<double> figures;
  std::string note = {};
};
struct SliderTable {
  std::string title;
  std::vector<SliderAxis> axes;
  std::vector<SliderFigure> figures;
  std::vector<SliderPoint> points = {};  // of the last axis neighbours stand together
};

inline size_t grid_size(const SliderTable& table) {
  size_t size = 1;
  for (const SliderAxis& axis : table.axes) size *= axis.values.size();
  return size;
}

// The values of all axes at a point.
inline std::vector<double> setting(const SliderTable& table, size_t point) {
  std::vector<double> at(table.axes.size());
  for (size_t i = at.size(); i-- > 0; point /= table.axes[i].values.size())
    at[i] = table.axes[i].values[point % table.axes[i].values.size()];
  return at;
}

// Where all sliders stand first.
inline size_t start_of(const SliderTable& table) {
  size_t point = 0;
  for (const SliderAxis& axis : table.axes) point = point * axis.values.size() + axis.start;
  return point;
}

inline void fill(SliderTable& table,
                 const std::function<SliderPoint(const std::vector<double>&)>& of) {
  table.points.clear();
  for (size_t i = 0; i < grid_size(table); ++i) table.points.push_back(of(setting(table, i)));
}

// Errors: no axis, an axis without values, a start beyond them, points that are not those of the
// grid.
inline void check(const SliderTable& table, Where where = Where::current()) {
  if (table.axes.empty() || table.figures.empty())
    fail(where, "a page of {} sliders and {} figures: it has at least one of each",
         table.axes.size(), table.figures.size());
  for (const SliderAxis& axis : table.axes)
    if (axis.start >= axis.values.size())
      fail(where, "the slider of {} starts at value {} of {}", axis.name, axis.start,
           axis.values.size());
  if (table.points.size() != grid_size(table))
    fail(where, "{} points for a grid of {}", table.points.size(), grid_size(table));
  for (const SliderPoint& point : table.points)
    if (point.figures.size() != table.figures.size())
      fail(where, "a point of {} figures in a table of {}", point.figures.size(),
           table.figures.size());
}

inline std::string slider_row(const SliderTable& table, size_t point,
                              Where where = Where::current()) {
  check(table, where);
  if (point >= table.points.size())
    fail(where, "point {} of {}: they count from 0", point, table.points.size());
  std::string row;
  const std::vector<double> at = setting(table, point);
  const auto add = [&row](const std::string& name, const std::string& value,
                          const std::string& unit) {
    row += fmt::format("{}{} {}{}", row.empty() ? "" : ", ", name, value,
                       unit.empty() ? "" : " " + unit);
  };
  for (size_t i = 0; i < at.size(); ++i)
    add(table.axes[i].name, fmt::format("{}", at[i]), table.axes[i].unit);
  row += ":";
  for (size_t i = 0; i < table.figures.size(); ++i) {
    const SliderFigure& figure = table.figures[i];
    const double value = table.points[point].figures[i];
    const std::string text =
        std::isnan(value) ? "none" : fmt::format("{:.{}f}", value, figure.decimals);
    row += fmt::format("{} {} {}{}", i == 0 ? "" : ",", figure.name, text,
                       figure.unit.empty() || std::isnan(value) ? "" : " " + figure.unit);
  }
  const std::string& note = table.points[point].note;
  return row + (note.empty() ? "\n" : fmt::format("; {}\n", note));
}

namespace slider_detail {

// A string of JavaScript, which also cannot end the script that it stands in.
inline std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '<' || code < 0x20)
      all += fmt::format("\\u{:04x}", code);
    else
      all += c;
  }
  return all + "\"";
}
inline std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}
inline std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> all;
  for (const double each : values) all.push_back(number(each));
  return fmt::format("[{}]", fmt::join(all, ","));
}

inline std::string json(const SliderTable& table) {
  std::vector<std::string> axes, figures, points;
  for (const SliderAxis& a : table.axes)
    axes.push_back(fmt::format("{{\"name\":{},\"unit\":{},\"values\":{},\"start\":{}}}",
                               quoted(a.name), quoted(a.unit), numbers(a.values), a.start));
  for (const SliderFigure& f : table.figures)
    figures.push_back(fmt::format("{{\"name\":{},\"unit\":{},\"decimals\":{}}}", quoted(f.name),
                                  quoted(f.unit), f.decimals));
  for (const SliderPoint& p : table.points)
    points.push_back(fmt::format("[{},{}]", numbers(p.figures), quoted(p.note)));
  return fmt::format("{{\"title\":{},\n\"axes\":[{}],\n\"figures\":[{}],\n\"points\":[\n{}]}}",
                     quoted(table.title), fmt::join(axes, ",\n"), fmt::join(figures, ",\n"),
                     fmt::join(points, ",\n"));
}

inline constexpr const char* head =
    R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sliders</title><style>
body { font: 15px sans-serif; color: #222; background: #fff; max-width: 720px; margin: 12px auto; padding: 0 10px; }
h1 { font-size: 18px; } label { display: grid; grid-template-columns: 12em 1fr 11em; gap: 10px; align-items: center; margin: 4px 0; }
input:focus, select:focus { outline: 2px solid #4477aa; } output { font-weight: bold; }
#figures { display: flex; flex-wrap: wrap; gap: 8px 28px; margin-top: 12px; } #figures b { display: block; font-size: 27px; }
#note { min-height: 1.3em; } .keys { color: #666; font-size: 13px; } svg { width: 100%; border: 1px solid #bbb; }
</style></head><body><h1></h1><div id="axes"></div><div id="figures" aria-live="polite"></div><p id="note"></p>
<p>Chart: <select id="figure" aria-label="figure of the chart"></select> along
<select id="axis" aria-label="axis of the chart"></select></p>
<svg id="chart" viewBox="0 0 700 240" role="img" aria-label="the chosen figure along the chosen axis" font-size="13"></svg>
<p class="keys">Keys: 1, 2, ... choose a slider; the arrows move it.</p><script>
const table = )html";

inline constexpr const char* script =
    R"html(;
const $ = id => document.getElementById(id), at = table.axes.map(axis => axis.start);
const point = at => table.points[at.reduce((sum, k, i) => sum * table.axes[i].values.length + k, 0)];
const say = (value, figure) => value === null ? "none" : value.toFixed(figure.decimals) + " " + figure.unit;
const add = (parent, tag, text) => { const e = document.createElement(tag); e.textContent = text; parent.append(e); return e; };
const words = (x, y, text, anchor) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${text}</text>`;
const safe = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

function draw() {
  const f = +$("figure").value, a = +$("axis").value, figure = table.figures[f], axis = table.axes[a];
  const line = axis.values.map((_, k) => point(at.map((now, i) => i === a ? k : now))[0][f]);
  const most = Math.max(0, ...line.filter(v => v !== null)) || 1, least = Math.min(0, ...line.filter(v => v !== null));
  const x = k => 90 + 580 * (axis.values.length > 1 ? k / (axis.values.length - 1) : 0.5);
  const y = v => 185 - 150 * (v - least) / (most - least);
  let svg = words(10, 18, safe(figure.name + (figure.unit ? ", " + figure.unit : "")), "start");
  for (const v of [least, (least + most) / 2, most])
    svg += `<path d="M90 ${y(v)}H670" stroke="#ddd"/>` + words(82, y(v) + 4, v.toFixed(figure.decimals), "end");
  svg += words(380, 230, safe(axis.name + (axis.unit ? ", " + axis.unit : "")), "middle");
  let pen = "M", path = "", dots = "";
  line.forEach((v, k) => {
    svg += words(x(k), 206, axis.values[k], "middle");
    if (v === null) { svg += words(x(k), 170, "none", "middle"); pen = "M"; return; }
    path += pen + x(k) + " " + y(v); pen = "L";
    dots += `<circle cx="${x(k)}" cy="${y(v)}" r="${k === at[a] ? 8 : 4}" fill="${k === at[a] ? "#b2182b" : "#4477aa"}"/>`;
  });
  $("chart").innerHTML = svg + `<path d="${path}" fill="none" stroke="#4477aa" stroke-width="2"/>` + dots;
}
function show() {
  const [values, note] = point(at);
  table.axes.forEach((axis, i) => { $("value" + i).textContent = axis.values[at[i]] + " " + axis.unit;
    $("axis" + i).setAttribute("aria-valuetext", $("value" + i).textContent); });
  $("figures").replaceChildren();
  table.figures.forEach((figure, f) => { const box = add($("figures"), "div", figure.name); add(box, "b", say(values[f], figure)); });
  $("note").textContent = note;
  draw();
}
document.title = document.querySelector("h1").textContent = table.title;
table.axes.forEach((axis, i) => {
  const label = add($("axes"), "label", ""), name = add(label, "span", (i + 1) + ". " + axis.name), input = add(label, "input", "");
  Object.assign(input, { type: "range", id: "axis" + i, min: 0, max: axis.values.length - 1, step: 1 });
  input.value = at[i];
  input.oninput = () => { at[i] = +input.value; $("axis").value = i; show(); };
  add(label, "output", "").id = "value" + i;
  add($("axis"), "option", axis.name).value = i;
});
table.figures.forEach((figure, f) => add($("figure"), "option", figure.name).value = f);
$("figure").onchange = $("axis").onchange = draw;
document.onkeydown = event => { const slider = $("axis" + (event.key - 1)); if (slider && !event.ctrlKey && !event.altKey) slider.focus(); };
show();
</script></body></html>
)html";

}  // namespace slider_detail

inline std::string slider_page(const SliderTable& table, Where where = Where::current()) {
  check(table, where);
  return slider_detail::head + slider_detail::json(table) + slider_detail::script;
}

}  // namespace yotta
