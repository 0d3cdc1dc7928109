#include "course/pictures/launch_picture.hpp"

#include "course/pictures/svg.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/loss.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta {

namespace {

using svg::box;
using svg::text;

constexpr double left = 84, wide = 790, row_height = 26;
constexpr int columns = 395;
constexpr const char *host_color = "#ee8866", *chip_color = "#77aadd";

// The share of each column of time in which a row has something to do, drawn as a bar.
std::string row(const LaunchRun& run, bool host, double y) {
  std::vector<double> busy(columns);
  const double column = run.seconds / columns;
  for (const Span& span : run.spans) {
    if ((span.stream == host_row) != host) continue;
    for (int i = static_cast<int>(span.begin / column); i < columns && i * column < span.end; ++i)
      busy[static_cast<size_t>(i)] +=
          (std::min(span.end, (i + 1) * column) - std::max(span.begin, i * column)) / column;
  }
  std::string path = fmt::format("<path d=\"M{:.0f} {:.1f}", left, y + row_height);
  for (size_t i = 0; i < busy.size(); ++i)
    path += fmt::format("V{:.1f}h2", y + row_height * (1 - std::min(1.0, busy[i])));
  return path +
         fmt::format("V{:.1f}Z\" fill=\"{}\"/>\n", y + row_height, host ? host_color : chip_color) +
         box(left, y, wide, row_height, "none", "#999") +
         text(left - 8, y + 18, host ? "host" : "chip", "end");
}

// Below the first panel: which part of the step begins where.
std::string parts(const LaunchRun& run, double y) {
  std::string svg;
  const auto mark = [&](const char* words, const char* anchor, auto is_first) {
    for (const Span& span : run.spans) {
      if (span.stream == host_row || !is_first(span.name)) continue;
      const double x = left + wide * span.begin / run.seconds;
      svg += fmt::format("<path d=\"M{0:.1f} {1:.0f}v8\" stroke=\"#777\"/>\n", x, y - 14) +
             text(x + (anchor[0] == 'e' ? -4 : 4), y, words, anchor, svg::quiet, 11);
      return;
    }
  };
  mark("forward", "start", [](const std::string&) { return true; });
  mark("loss", "end", [](const std::string& name) { return name == "cross_entropy"; });
  mark("backward", "start",
       [](const std::string& name) { return name == "layernorm_backward_input"; });
  mark("AdamW", "start", [](const std::string& name) { return name == "adamw"; });
  return svg;
}

std::string panel(int64_t sequences, const Host& host, double y) {
  const LaunchRun run = simulate(gpt2_step(sequences), host);
  const std::string words = fmt::format(
      "{} sequence{}: the step takes {:.1f} ms, the host is done after {:.1f}, the chip "
      "computes for {:.0f}%",
      sequences, sequences == 1 ? "" : "s", 1e3 * run.seconds, 1e3 * run.host,
      100 * run.busy_share());
  return text(left, y, words, "start", svg::ink, 12, true) + row(run, true, y + 8) +
         row(run, false, y + 8 + row_height + 4) +
         (sequences == 1 ? parts(run, y + 80) : text(left, y + 80, "0", "middle", svg::quiet, 11)) +
         text(left + wide, y + 80, fmt::format("{:.1f} ms", 1e3 * run.seconds), "end", svg::quiet,
              11);
}

// ---- two buffers, four events ----
constexpr double copies_y = 110, steps_y = 200, bar = 34, pixels_a_ms = 112;
double x_of(double seconds) { return left + 1e3 * pixels_a_ms * seconds; }

std::vector<Span> spans_of(const LaunchRun& run, bool copies) {
  std::vector<Span> found;
  for (const Span& span : run.spans)
    if (span.stream != host_row && span.is_copy == copies) found.push_back(span);
  return found;
}

std::string span_bar(const Span& span, size_t batch, double y) {
  const int buffer = std::max(span.reads, span.writes);
  const double x = x_of(span.begin), end = x_of(span.end);
  return box(x, y, end - x, bar, buffer == 0 ? chip_color : host_color) +
         text((x + end) / 2, y + 22, fmt::format("{} {}", span.is_copy ? "batch" : "step", batch),
              "middle");
}

}  // namespace

std::string buffers_svg() {
  const std::vector<HostCall> step = {kernel("step", 1e-3)};
  const LaunchRun run = simulate(overlapped_steps(20e6, step, 6));
  const std::vector<Span> copies = spans_of(run, true), steps = spans_of(run, false);
  const std::string title = "Copies beside steps: two buffers, and two events for each";
  std::string svg = svg::paper(900, 276, title) + text(20, 28, title, "start", svg::ink, 15, true) +
                    text(left - 8, copies_y + 22, "stream 1", "end") +
                    text(left - 8, steps_y + 22, "stream 0", "end");
  for (size_t i = 0; i < steps.size(); ++i) {
    svg += span_bar(copies[i], i, copies_y) + span_bar(steps[i], i, steps_y) +
           svg::arrow(x_of(copies[i].end), copies_y + bar, x_of(steps[i].begin), steps_y);
    if (i + 2 < copies.size())
      svg += svg::arrow(x_of(steps[i].end), steps_y, x_of(copies[i + 2].begin), copies_y + bar,
                        /*is_lit=*/true);
  }
  return svg + box(left, 48, 14, 14, chip_color) + text(left + 22, 60, "in buffer 0") +
         box(left + 130, 48, 14, 14, host_color) + text(left + 152, 60, "in buffer 1") +
         text(left, 88, "grey: the batch has arrived, so the step may read it", "start",
              svg::quiet) +
         text(left + 330, 88, "red: it has been used, so the next copy may overwrite it", "start",
              svg::lit) +
         text(left, 258, "0", "middle", svg::quiet, 11) +
         text(x_of(run.seconds), 258, fmt::format("{:.1f} ms", 1e3 * run.seconds), "end",
              svg::quiet, 11) +
         "</svg>\n";
}

std::vector<HostCall> gpt2_step(int64_t sequences) {
  const DeviceScope meta(Device::meta);
  TransformerConfig config = gpt2_124m();
  config.dtype = DType::bf16;
  const Transformer model(config);
  AdamW optimizer(parameters(model.stack()));
  const Tensor ids = Tensor::empty({sequences, config.context}, DType::i32);
  return recorded_kernels(chip_named("h100"), [&] {
    Saved saved;
    Tensor dlogits;
    loss_of(forward(model.stack(), ids, saved), ids, 1.0 / static_cast<double>(ids.numel()),
            &dlogits);
    backward(model.stack(), dlogits, saved);
    optimizer.step(1e-3);
  });
}

std::string launch_svg(const Host& host) {
  const std::string title =
      "A step of GPT-2 small on an H100: the host is ahead, or the chip is idle";
  std::string svg =
      svg::paper(900, 378, title) + text(20, 28, title, "start", svg::ink, 15, true) +
      text(20, 48,
           fmt::format("{} kernels at every batch size, and {:.1f} us of the host for "
                       "each. A bar is as high as the share of time in which there "
                       "is work.",
                       gpt2_step(1).size(), 1e6 * (host.framework + host.launch)));
  double y = 80;
  for (const int64_t sequences : {1, 8, 64}) {
    svg += panel(sequences, host, y);
    y += 100;
  }
  return svg + "</svg>\n";
}

}  // namespace yotta
