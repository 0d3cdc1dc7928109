// A timeline as one self-contained page of HTML: wheel to zoom, drag to move, point at a bar to read what it is,
// click on it to see what it waited for, and what that had waited for: the chain of causes.
//
//     page = frame + rows as JSON + a script that draws what is in view on a canvas
//
// Nothing is loaded from anywhere, so the page can be mailed, and opened without a network.
#pragma once

#include "yotta/machine/timelines/timeline_json.hpp"

namespace yotta {

namespace detail {

// {"seconds": s, "left_out": ranks, "first_image": i, "names": [...], "colors": [...], "rows": [{"rank", "lane", "bars": [[begin, end, name, critical,
// kind, peer, bytes, flops, cause's row, cause's bar], ...]}, ...]}
inline std::string page_data(const Trace& trace, const Timeline& timeline) {
  std::map<std::pair<int, int>, std::pair<size_t, size_t>> place;  // event -> row, bar
  for (size_t r = 0; r < timeline.rows.size(); ++r)
    for (size_t b = 0; b < timeline.rows[r].bars.size(); ++b) {
      const EventId id = timeline.rows[r].bars[b].event;
      place[{id.rank, id.index}] = {r, b};
    }
  std::string data =
      fmt::format("{{\"seconds\":{:.17g},\"left_out\":{},\"first_image\":{},\"names\":[",
                  timeline.seconds, timeline.ranks_left_out, first_image);
  for (size_t i = 0; i < timeline.names.size(); ++i)
    data += fmt::format("{}\"{}\"", i > 0 ? "," : "", json_escaped(timeline.names[i]));
  data += "],\"colors\":[";
  for (size_t i = 0; i < timeline_colors.size(); ++i)
    data += fmt::format("{}\"{}\"", i > 0 ? "," : "", timeline_colors[i]);
  data += "],\"rows\":[";
  for (size_t r = 0; r < timeline.rows.size(); ++r) {
    const TimelineRow& row = timeline.rows[r];
    data += fmt::format("{}\n{{\"rank\":{},\"lane\":\"{}\",\"both\":{},\"bars\":[",
                        r > 0 ? "," : "", row.rank, json_escaped(row.name), row.lane < 0);
    for (size_t b = 0; b < row.bars.size(); ++b) {
      const TimelineBar& bar = row.bars[b];
      const TraceEvent& event = trace.at(bar.event);
      const auto cause = place.find({event.cause.rank, event.cause.index});
      const bool known = cause != place.end();
      data += fmt::format("{}[{:.12g},{:.12g},{},{},{},{},{},{:.6g},{},{}]", b > 0 ? "," : "",
                          bar.begin, bar.end, bar.name, bar.critical ? 1 : 0,
                          static_cast<int>(event.kind), event.peer, event.bytes, event.flops,
                          known ? static_cast<int64_t>(cause->second.first) : -1,
                          known ? static_cast<int64_t>(cause->second.second) : -1);
    }
    data += "]}";
  }
  return data + "]}";
}

inline constexpr const char* page_head = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Timeline</title>
<meta name="viewport" content="width=device-width">
<style>
body { font: 14px sans-serif; margin: 16px; color: #222 }
canvas { width: 100%; border: 1px solid #ccc; cursor: grab; display: block }
#about { min-height: 3.6em; white-space: pre-line; margin: 8px 0 }
#legend span { display: inline-block; margin-right: 16px }
#legend i { display: inline-block; width: 12px; height: 12px; margin-right: 5px }
</style></head><body>
<h1 style="font-size:18px">Timeline</h1>
<p>Wheel: zoom. Drag: move. Point at a bar to read it; click on it for the chain of what it waited for. A dark line
lies over the critical path.
<label><input type="checkbox" id="critical"> critical path only</label> <button id="all">whole run</button></p>
<div id="legend"></div><canvas id="view"></canvas><div id="about"></div>
<script>const data = )html";

inline constexpr const char* page_script = R"html(;
const canvas = document.getElementById("view"), g = canvas.getContext("2d");
const about = document.getElementById("about"), critical = document.getElementById("critical");
const top0 = 28, rowHeight = 22, kinds = ["computes", "sends", "receives", "reduces", "waits"];
g.font = "12px sans-serif";
const left = 72 + Math.max(...data.rows.map(row => g.measureText(row.lane).width), 80);
let from = 0, to = data.seconds || 1, chain = new Set(), drag = null;
const x = t => left + (t - from) / (to - from) * (canvas.clientWidth - left - 10);
const timeAt = px => from + (px - left) / (canvas.clientWidth - left - 10) * (to - from);
function text(t) {
  const a = Math.abs(t);
  if (a === 0) return "0";
  const [size, unit] = a < 1e-6 ? [1e-9, " ns"] : a < 1e-3 ? [1e-6, " us"] : a < 1 ? [1e-3, " ms"] : [1, " s"];
  return Number((t / size).toPrecision(4)) + unit;
}
function box(row, bar, r) {  // top and height: messages both ways share a row
  const y = top0 + r * rowHeight;
  if (!row.both || (bar[4] !== 1 && bar[4] !== 2)) return [y + 4, rowHeight - 6];
  return bar[4] === 1 ? [y + 4, 7.5] : [y + 12.5, 7.5];
}
function ticks() {  // some eight round times in view
  const least = (to - from) / 8, power = Math.pow(10, Math.floor(Math.log10(least)));
  const step = power * [1, 2, 5, 10].find(each => each * power >= least);
  const times = [];
  for (let i = Math.ceil(from / step); i * step <= to * (1 + 1e-12); ++i) times.push(i * step);
  return times;
}
function draw() {
  const scale = window.devicePixelRatio || 1, height = top0 + data.rows.length * rowHeight + 6;
  canvas.style.height = height + "px";
  canvas.width = canvas.clientWidth * scale; canvas.height = height * scale;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, canvas.clientWidth, height);
  g.font = "12px sans-serif"; g.fillStyle = "#222";
  for (const t of ticks()) {
    g.fillStyle = "#ddd"; g.fillRect(x(t), top0 - 6, 1, height);
    g.fillStyle = "#222"; g.textAlign = x(t) > canvas.clientWidth - 40 ? "right" : "center";
    g.fillText(text(t), x(t), 14);
  }
  g.textAlign = "left";
  data.rows.forEach((row, r) => {
    const y = top0 + r * rowHeight;
    if (r === 0 || data.rows[r - 1].rank !== row.rank) {
      g.fillStyle = "#999"; g.fillRect(0, y - 0.5, canvas.clientWidth, 1);
      g.fillStyle = "#222"; g.font = "bold 12px sans-serif"; g.fillText("rank " + row.rank, 4, y + 15);
      g.font = "12px sans-serif";
    }
    g.fillStyle = "#222"; g.fillText(row.lane, 62, y + 15);
    row.bars.forEach((bar, b) => {
      if (bar[1] < from || bar[0] > to || (critical.checked && !bar[3])) return;
      const a = Math.max(x(bar[0]), left), w = Math.max(Math.min(x(bar[1]), canvas.clientWidth - 10) - a, 0.7);
      const [top, h] = box(row, bar, r);
      g.fillStyle = bar[2] < 0 ? "#eee" : data.colors[bar[2] % data.colors.length];
      g.fillRect(a, top, w, h);
      if (chain.has(r + "," + b)) { g.strokeStyle = "#c00"; g.lineWidth = 2; g.strokeRect(a, top, w, h); }
      if (bar[3]) { g.fillStyle = "#222"; g.fillRect(a, y + 1.5, w, 2); }
      if (bar[2] >= 0 && w > 60) {
        g.save(); g.beginPath(); g.rect(a, top, w, h); g.clip(); g.fillStyle = "#222";
        g.font = (h < 10 ? "8" : "12") + "px sans-serif";
        g.fillText(data.names[bar[2]], a + 4, top + h / 2 + (h < 10 ? 3 : 4)); g.restore();
      }
    });
  });
}
function find(event) {
  const place = canvas.getBoundingClientRect(), px = event.clientX - place.left, py = event.clientY - place.top;
  const r = Math.floor((py - top0) / rowHeight), row = data.rows[r];
  if (!row || px < left) return null;
  const t = timeAt(px), margin = (to - from) / canvas.clientWidth * 2;
  let best = null;
  row.bars.forEach((bar, b) => {
    const [top, h] = box(row, bar, r);
    if (bar[0] - margin <= t && t <= bar[1] + margin && py >= top - 2 && py <= top + h + 2) best = [r, b];
  });
  return best;
}
function say([r, b]) {
  const row = data.rows[r], bar = data.rows[r].bars[b];
  let line = "rank " + row.rank + ", " + row.lane + ": " + kinds[bar[4]] + " " + (bar[2] < 0 ? "" : data.names[bar[2]]) +
    ", " + text(bar[1] - bar[0]) + " (" + text(bar[0]) + " to " + text(bar[1]) + ")";
  if (bar[5] >= 0) line += (bar[4] === 1 ? ", to " : ", from ") +
    (bar[5] < data.first_image ? "rank " + bar[5] : "the image on chip " + (bar[5] - data.first_image));
  if (bar[6] > 0) line += ", " + bar[6].toLocaleString("en") + " bytes";
  if (bar[7] > 0) line += ", " + bar[7].toExponential(3) + " FLOPs";
  if (bar[3]) line += ", on the critical path";
  if (bar[8] >= 0) {
    const why = data.rows[bar[8]], cause = why.bars[bar[9]];
    line += "\nnot earlier because of: rank " + why.rank + ", " + why.lane + ", " +
      (cause[2] < 0 ? "wait" : data.names[cause[2]]) + ", until " + text(cause[1]);
  }
  return line;
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  const t = timeAt(event.clientX - canvas.getBoundingClientRect().left), factor = Math.exp(event.deltaY * 0.0015);
  from = Math.max(0, t - (t - from) * factor); to = Math.min(data.seconds, t + (to - t) * factor);
  draw();
}, { passive: false });
canvas.addEventListener("mousedown", event => { drag = { at: event.clientX, from, to, moved: false }; });
window.addEventListener("mouseup", event => {
  if (drag && !drag.moved) {
    chain = new Set();
    for (let next = find(event); next && next[0] >= 0; ) {
      chain.add(next[0] + "," + next[1]);
      const bar = data.rows[next[0]].bars[next[1]];
      next = [bar[8], bar[9]];
    }
    draw();
  }
  drag = null;
});
canvas.addEventListener("mousemove", event => {
  if (drag) {
    const moved = (event.clientX - drag.at) / (canvas.clientWidth - left - 10) * (drag.to - drag.from);
    const shift = Math.max(Math.min(moved, drag.from), drag.to - data.seconds);
    if (Math.abs(event.clientX - drag.at) > 3) drag.moved = true;
    from = drag.from - shift; to = drag.to - shift;
    return draw();
  }
  const found = find(event);
  about.textContent = found ? say(found) : "";
});
critical.addEventListener("change", draw);
document.getElementById("all").addEventListener("click", () => { from = 0; to = data.seconds || 1; draw(); });
window.addEventListener("resize", draw);
document.getElementById("legend").innerHTML = data.names.map((name, i) =>
  "<span><i style='background:" + data.colors[i % data.colors.length] + "'></i></span>").join("");
document.querySelectorAll("#legend span").forEach((span, i) => span.append(data.names[i]));
document.getElementById("legend").insertAdjacentHTML("beforeend", "<span><i style='background:#eee'></i>waits</span>");
document.querySelector("h1").textContent = "Timeline: " + text(data.seconds) +
  (data.left_out ? " (" + data.left_out + " more ranks are not shown)" : "");
draw();
</script></body></html>
)html";

}  // namespace detail

// The page; ranks beyond `most_ranks` are left out.
inline std::string timeline_page(const Trace& trace, int most_ranks = 64) {
  std::string data = detail::page_data(trace, make_timeline(trace, most_ranks));
  for (size_t at = 0; (at = data.find("</", at)) != data.npos;)
    data.replace(at, 2, "<\\/");  // ends no script
  return detail::page_head + data + detail::page_script;
}

}  // namespace yotta
