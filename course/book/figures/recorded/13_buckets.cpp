// A step of Ddp, on four ranks of a machine that is only described.
#include <algorithm>
#include <cmath>

#include "course/book/figures/recorded/record.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_net.hpp"
#include "yotta/parallel/ddp.hpp"

namespace book {
namespace {

constexpr int ranks = 4, layers = 8;
constexpr int64_t width = 2048, rows = 8192;

// Links with a latency, between chips that reach half of an H100's bf16 peak.
yotta::Cluster machine(double bandwidth, double latency) {
  yotta::Cluster made = yotta::ideal(ranks, yotta::chip_named("h100").bf16 / 2, bandwidth * 1e9);
  made.levels[0].alpha = latency * 1e-6;
  return made;
}

yotta::Trace step(const std::vector<double>& at) {
  return yotta::run_on(
             machine(at[1], at[2]), ranks,
             [&](yotta::Communicator& world) {
               const yotta::DeviceScope meta(yotta::Device::meta);
               const auto net = yotta::make_linear_net({layers, width});
               yotta::Ddp ddp(yotta::parameters(net), world,
                              {.bucket_bytes = static_cast<int64_t>(at[0] * 4 * width * width),
                               .overlap = at[3] > 0,
                               .comm = {yotta::Algorithm::ring}});
               yotta::Saved saved;
               yotta::backward(
                   net, yotta::forward(net, yotta::Tensor::full({rows, width}, 1), saved), saved);
               ddp.finish();
             })
      .trace;
}

// Rank 0's ops and the messages of its gradients, from the first op on; in ms.
struct Lanes {
  Row computed{"computed"}, travelled{"travelled"};
  double begin = 1e300, compute_end = 0, end = 0, messages = 0;
};
Lanes lanes_of(const yotta::Trace& trace) {
  Lanes lanes;
  for (const yotta::TraceEvent& event : trace.ranks[0])
    if (event.kind == yotta::EventKind::op) lanes.begin = std::min(lanes.begin, event.begin);
  for (const yotta::TraceEvent& event : trace.ranks[0]) {
    const bool op = event.kind == yotta::EventKind::op;
    const bool message = event.kind == yotta::EventKind::recv && event.name == "ddp.gradients";
    if (!op && !message) continue;
    Row& row = op ? lanes.computed : lanes.travelled;
    for (const double time : {event.begin, event.end})  // in ms, to 0.1 us: it is drawn
      row.values.push_back(std::round((time - lanes.begin) * 1e7) / 1e4);
    if (op) lanes.compute_end = std::max(lanes.compute_end, event.end);
    if (message) ++lanes.messages;
    lanes.end = std::max(lanes.end, event.end);
  }
  return lanes;
}

Data data(const std::vector<double>& at) {
  const Lanes lanes = lanes_of(step(at));
  const double all = lanes.end - lanes.begin, waited = lanes.end - lanes.compute_end;
  Data made;
  made.numbers = {{"a step", "ms", all * 1e3},
                  {"gradients are waited for", "ms", waited * 1e3},
                  {"which is", "% of the step", 100 * waited / all},
                  {"messages that rank 0 receives", "", lanes.messages, 6}};
  made.rows = {lanes.computed, lanes.travelled};
  made.code = fmt::format(
      "yotta::Ddp ddp(yotta::parameters(net), world,\n"
      "               {{.bucket_bytes = {:.0f}, .overlap = {}, .comm = "
      "{{yotta::Algorithm::ring}}}});",
      at[0] * 4 * width * width, at[3] > 0);
  return made;
}

}  // namespace

Figure buckets_figure() {
  return {
      "13_buckets",
      "Gradients travel in buckets while backward goes on. How large should a bucket be, and what "
      "stays exposed when links are slow? A step of Ddp on four ranks, run when this page was "
      "made.",
      {{"a bucket holds", "layers", {1, 2, 4, 8}, 0},
       {"bandwidth", "GB/s", {6, 12.5, 25, 50, 100, 200, 450}, 3},
       {"latency of a message", "us", {1, 5, 20, 50}, 1},
       choice("gradients leave", {"after backward", "meanwhile"}, 1)},
      data};
}

}  // namespace book
