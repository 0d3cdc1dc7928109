#include "course/tour/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "course/options/console.hpp"
#include "yotta/core/ledger.hpp"
#include "yotta/machine/pictures/timeline_file.hpp"

namespace yotta {

namespace {

constexpr const char* style = R"(
:root { --ink: rgba(0, 0, 0, .87); --soft: rgba(0, 0, 0, .68); --line: #d9dee5; --blue: #0072b2; --orange: #d55e00; --link: #4051b5; --back: #fff; --card: #f5f5f5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e2e4e9; --soft: rgba(226, 228, 233, .76); --line: #454a5c; --blue: #56b4e9; --orange: #e69f00; --link: #a8b4f0; --back: #1e2129; --card: #272a35; }
}
body { font: 16px/1.6 -apple-system, BlinkMacSystemFont, Helvetica, Arial, sans-serif; color: var(--ink); background: var(--back); max-width: 76rem; margin: 0 auto 2rem; padding: 4.2rem 1rem 0; overflow-wrap: anywhere; }
header { position: absolute; inset: 0 0 auto; background: #4051b5; color: #fff; padding: .7rem 1rem; font-weight: bold; } header a { color: #fff; } a { color: var(--link); }
h1 { font-size: 2rem; font-weight: 300; margin-bottom: .2rem; } h2 { font-size: 1.5rem; font-weight: 300; margin-top: 2.2rem; }
p.soft, td.soft, figcaption { color: var(--soft); }
table { border-collapse: collapse; width: 100%; font-size: .85rem; white-space: nowrap; } th { text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .4rem; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .8rem; white-space: pre-wrap; word-break: break-word; }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; } .card { flex: 1 1 130px; box-sizing: border-box; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.35rem; } figure { margin: 0; } .chart text { fill: var(--soft); font: 12px system-ui, sans-serif; } .chart svg { max-width: 100%; height: auto; }
/* What is wider than the screen is moved in its own frame: the page itself is never wider. */
.wide, .step { overflow-x: auto; } .step svg { width: 100%; min-width: 900px; height: auto; border-radius: 6px; }
)";

std::string card(const std::string& number, const std::string& what) {
  return fmt::format("<div class=\"card\"><b>{}</b>{}</div>\n", number, what);
}

// Two loss curves in one frame: the serial one wide and pale, the parallel one thin on top of it,
// so that they can be seen to be the same line.
std::string loss_chart(const std::vector<double>& serial, const std::vector<double>& parallel) {
  constexpr double width = 820, height = 300, left = 46, right = 12, top = 12, bottom = 34;
  if (serial.size() < 2) return "";
  double high = 0, low = serial.front();
  for (const auto* curve : {&serial, &parallel})
    for (const double loss : *curve)
      if (std::isfinite(loss)) high = std::max(high, loss), low = std::min(low, loss);
  high = std::ceil(high * 2) / 2;
  low = std::floor(low * 2) / 2;
  const auto x = [&](size_t i) {
    return left +
           (width - left - right) * static_cast<double>(i) / static_cast<double>(serial.size() - 1);
  };
  const auto y = [&](double loss) {
    return top + (height - top - bottom) * (high - loss) / std::max(high - low, 1e-9);
  };
  const auto path = [&](const std::vector<double>& curve, const char* color, double stroke,
                        double opacity) {
    std::string points;
    for (size_t i = 0; i < curve.size() && i < serial.size(); ++i)
      points += fmt::format("{:.1f},{:.1f} ", x(i), y(curve[i]));
    return fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-opacity=\"{}\" "
        "points=\"{}\"/>\n",
        color, stroke, opacity, points);
  };
  std::string svg = fmt::format(
      "<figure class=\"chart\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"loss by "
      "step\">\n",
      width, height);
  for (double loss = low; loss <= high + 1e-9; loss += (high - low) / 4)
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"var(--line)\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.2f}</text>\n",
        left, width - right, y(loss), left - 6, y(loss) + 4, loss);
  const size_t last = serial.size() - 1;
  for (const size_t step : std::set{size_t{0}, last / 4, last / 2, 3 * last / 4, last}) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(step),
                       height - 14, step);
  }
  svg += path(serial, "var(--blue)", 7, 0.35) + path(parallel, "var(--orange)", 2, 1);
  return svg +
         "</svg><figcaption>Loss (nats per byte) by step. Wide blue: one rank. Thin orange: the "
         "ranks together. One line on the other is the result.</figcaption></figure>\n";
}

std::string rank_table(const TourFigures& figures) {
  std::string html =
      "<div class=\"wide\"><table><tr><th>rank</th><th class=\"n\">sent</th><th "
      "class=\"n\">messages</th>";
  for (int kind = 0; kind < memory_kinds; ++kind)
    html += fmt::format("<th class=\"n\">{}</th>", name(static_cast<MemoryKind>(kind)));
  html += "<th class=\"n\">peak</th></tr>\n";
  const auto row = [&](const std::string& title, const RankFigures& rank) {
    html += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>", title,
                        console::bytes(static_cast<double>(rank.bytes_sent)), rank.messages_sent);
    for (const int64_t peak : rank.peak_by_kind)
      html += fmt::format("<td class=\"n\">{}</td>", console::bytes(static_cast<double>(peak)));
    html += fmt::format("<td class=\"n\">{}</td></tr>\n",
                        console::bytes(static_cast<double>(rank.peak_bytes)));
  };
  for (const RankFigures& rank : figures.serial) row("alone", rank);
  for (size_t i = 0; i < figures.parallel.size(); ++i)
    row(fmt::format("{} of {}", i, figures.parallel.size()), figures.parallel[i]);
  return html + "</table></div>\n";
}

// Whether the ranks together were faster than one, and why.
std::string speed_html(const TourFigures& figures) {
  const size_t ranks = figures.parallel.size();
  const double ratio = figures.parallel_tokens_per_second / figures.serial_tokens_per_second;
  const bool is_faster = ratio > 1;
  return fmt::format(
      "<h2>Why {} ranks {} here</h2>\n<p>They share the same {} cores, so the arithmetic takes as "
      "long as before, and adding up gradients comes on top. {}On a cluster each rank brings its "
      "own GPU. What is real on a laptop is the traffic and the memory:</p>\n",
      ranks, is_faster ? "are not many times as fast" : "are not faster", figures.cores,
      is_faster ? fmt::format("Here they made {:.2f} times as many tokens a second as one rank: "
                              "several ranks keep the cores busier. ",
                              ratio)
                : "");
}

}  // namespace

std::string report_html(const TourFigures& figures) {
  const size_t ranks = figures.parallel.size();
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>Yotta: your first distributed training</title><style>{}</style></head><body>\n"
      "<header>Yotta{}</header>\n",
      style,
      figures.book.empty()
          ? ""
          : fmt::format(" · <a href=\"{}/index.html\">the book</a>", figures.book));
  html += fmt::format(
      "<h1>Your first distributed training</h1>\n<p class=\"soft\">{}; {} parameters; {} steps of "
      "{} "
      "tokens; text: {}.</p>\n",
      xml_escaped(figures.model), figures.parameters, figures.steps, figures.tokens_per_step,
      xml_escaped(figures.text));
  html += "<div class=\"cards\">\n";
  html += card(fmt::format("{:.0f} GFLOP/s", figures.matmul_gflops),
               fmt::format("matrix products, {} cores", figures.cores));
  html += card(fmt::format("{:.1f} GB/s", figures.memory_gbps), "memory");
  html += card(fmt::format("{:.0f}", figures.serial_tokens_per_second), "tokens/s on 1 rank");
  html += card(fmt::format("{:.0f}", figures.parallel_tokens_per_second),
               fmt::format("tokens/s on {} ranks", ranks));
  html +=
      card(fmt::format("{:.0f}%", 100 * figures.mfu), "of the matmul rate is used (MFU), 1 rank");
  html += "</div>\n<h2>One rank and " + std::to_string(ranks) + " ranks learn the same</h2>\n";
  html += loss_chart(figures.serial_loss, figures.parallel_loss);
  html += fmt::format(
      "<p>The largest relative difference between the two curves is {:.1e}. It is rounding: the "
      "ranks "
      "add the same gradients in another order, and f32 addition is not associative. Nothing else "
      "differs: initial weights and batches depend on where they are in the whole model and the "
      "whole "
      "text, not on who holds them.</p>\n",
      figures.largest_difference);
  html += speed_html(figures);
  html += rank_table(figures);
  html += fmt::format(
      "<p>Each rank sent 2(p-1)/p times the gradients in every step (p = {}), and holds all "
      "weights, "
      "gradients and optimizer state that the lone rank holds: data parallelism saves time, not "
      "memory. Its activations are those of its share of the batch.</p>\n",
      ranks);
  html += fmt::format(
      "<h2>What each technique buys and costs</h2>\n<p>The same model and batches on four ranks, a "
      "few steps each. The loss is the same, but for the experts', which are another model; what "
      "travels and what is held is not. The last number is "
      "a step's time on {}, a machine that is only described: for a model this small it is "
      "latency, "
      "message after message.</p>\n{}",
      xml_escaped(figures.cluster), techniques_html(figures.techniques, figures.book));
  html += fmt::format(
      "<h2>One step of {} ranks, in time</h2>\n<p>When each rank computed and sent, on {}: point "
      "at "
      "a bar to read it. The gradients of the last layers are on their way while those of the "
      "first "
      "are still computed; only the last ones are waited for. <code>./yotta tour --timeline "
      "step.html</code> makes it a page in which you can zoom.</p>\n<figure class=\"step\">{}"
      "</figure>\n",
      ranks, xml_escaped(figures.cluster), timeline_svg(figures.step));
  html += fmt::format(
      "<h2>What the model writes</h2>\n<p>Prompt: <code>{}</code></p>\n<p>Before training:</p>"
      "<pre>{}</pre>\n<p>After {} steps:</p><pre>{}</pre>\n",
      xml_escaped(figures.prompt), xml_escaped(figures.sample_before), figures.steps,
      xml_escaped(figures.sample_after));
  html += fmt::format(
      "<h2>Next</h2>\n<ol><li><code>./yotta lesson 00</code>: {}</li>"
      "<li><code>./yotta lesson 10</code>: {}</li>"
      "<li><code>./yotta check 10</code>: write the ring yourself</li>"
      "<li><code>./yotta train --text my_notes.txt --ranks 4</code>: your own text</li>"
      "<li><code>./yotta book</code>: all lessons as a site, with figures that move{}</li></ol>\n"
      "</body></html>\n",
      book_link(figures.book, "00_start", "what a rank is, and every letter"),
      book_link(figures.book, "10_collectives", "how the ranks added up their gradients"),
      figures.book.empty() ? "" : "; this page links to yours");
  return html;
}

}  // namespace yotta
