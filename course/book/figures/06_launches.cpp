#include "course/book/figures/figure.hpp"
#include "yotta/machine/launch_overhead.hpp"

namespace book {
namespace {

constexpr int ops = 8;

Data data(const std::vector<double>& at) {
  const bool graph = at[2] > 0;
  const yotta::Host host{.framework = at[1] * 1e-6};
  std::vector<yotta::HostCall> calls;
  for (int i = 0; i < ops; ++i) calls.push_back(yotta::kernel(fmt::format("{}", i), at[0] * 1e-6));
  if (graph) calls = {{.kind = yotta::CallKind::graph, .name = "graph", .captured = calls}};
  const yotta::LaunchRun run = yotta::simulate(calls, host);
  Data made;
  made.numbers = {{"until host and chip are done", "us", run.seconds * 1e6},
                  {"the chip computes", "%", 100 * run.busy_share()},
                  {"launches are hidden by ops of", "us", yotta::hiding_seconds(host) * 1e6}};
  Row lanes{"lanes"};
  for (const yotta::Span& span : run.spans) {
    lanes.words.push_back(span.name);
    lanes.values.insert(lanes.values.end(), {span.stream == yotta::host_row ? 0.0 : 1.0,
                                             span.begin * 1e6, span.end * 1e6});
  }
  made.rows = {lanes};
  made.code = fmt::format(
      "const yotta::Host host{{.framework = {}e-6}};\n"
      "const std::vector<yotta::HostCall> ops({}, yotta::kernel(\"op\", {}e-6));\n{}"
      "fmt::print(\"{{}} s\\n\", yotta::simulate({}, host).seconds);",
      at[1], ops, at[0],
      graph
          ? "const std::vector<yotta::HostCall> graph = {{.kind = yotta::CallKind::graph, .name = "
            "\"graph\", .captured = ops}};\n"
          : "",
      graph ? "graph" : "ops");
  return made;
}

}  // namespace

Figure launches_figure() {
  return {"06_launches",
          "How long must an op run before its launch costs nothing, and what does one graph of all "
          "ops change?",
          {{"an op on the chip", "us", {0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 40}, 2},
           {"the framework, for each op", "us", {0, 1, 2, 3, 4, 6, 8, 10, 15, 20}, 5},
           choice("launched", {"one by one", "as one graph"})},
          data};
}

}  // namespace book
