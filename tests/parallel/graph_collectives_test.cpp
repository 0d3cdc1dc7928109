#include "yotta/parallel/graph_collectives.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/device/graph_backward.hpp"

using namespace yotta;
using yotta_test::message_of;

namespace {

constexpr int64_t width = 8, rows = 4;

Tensor numbers(const char* name, Shape shape, int rank) {
  const Random random(static_cast<uint64_t>(rank + 1), name);
  std::vector<float> made;
  for (int64_t i = 0; i < product(shape); ++i)
    made.push_back(static_cast<float>(random.normal(static_cast<uint64_t>(i))));
  return Tensor::from<float>(made, shape);
}

// Three layers: the forward and its backward, then a step with the gradients of all ranks.
Graph training_step() {
  std::vector<Tensor> examples = {Tensor::zeros({rows, width})};
  for (int layer = 0; layer < 3; ++layer) examples.push_back(Tensor::zeros({width, width}));
  const Graph forward = capture_list(
      [](const std::vector<Array>& in) {
        Array y = in[0];
        for (size_t layer = 1; layer < in.size(); ++layer) y = larger(matmul(y, in[layer]), 0.0);
        return std::vector<Array>{y};
      },
      examples);
  const auto graph =
      std::make_shared<Graph>(backward(forward, forward.outputs[0], {1, 2, 3}).graph);
  // In the order in which backward makes them: the last layer's first.
  std::vector<int> gradients(graph->outputs.begin() + 1, graph->outputs.end());
  std::vector<int> order = {2, 1, 0};
  graph->outputs.clear();
  std::vector<Array> reduced(3, Array(0.0));
  for (const int layer : order)
    reduced[static_cast<size_t>(layer)] =
        all_reduce(Array(graph, gradients[static_cast<size_t>(layer)]));
  for (const int layer : order)
    graph->outputs.push_back(
        (Array(graph, layer + 1) - reduced[static_cast<size_t>(layer)] * 0.01).node());
  return *graph;
}

struct Outcome {
  std::vector<double> weights;  // of rank 0
  int64_t messages = 0, bytes = 0;
  bool same_on_all = true;
};

Outcome train(const Graph& graph, const GraphSchedule& schedule, int ranks) {
  Outcome outcome;
  std::vector<std::vector<double>> weights(static_cast<size_t>(ranks));
  const std::vector<RankReport> reports = run_ranks(ranks, [&](Communicator& world) {
    std::vector<Tensor> in = {numbers("x", {rows, width}, world.rank())};
    for (int layer = 0; layer < 3; ++layer) in.push_back(numbers("w", {width, width}, 100 + layer));
    in.push_back(numbers("dy", {rows, width}, world.rank()));
    for (const Tensor& each : run_on_ranks(graph, schedule, in, world)) {
      const std::vector<double> values = each.values();
      auto& mine = weights[static_cast<size_t>(world.rank())];
      mine.insert(mine.end(), values.begin(), values.end());
    }
  });
  outcome.weights = weights[0];
  for (const auto& each : weights) outcome.same_on_all = outcome.same_on_all && each == weights[0];
  for (const RankReport& report : reports) {
    outcome.messages += report.ledger().total_traffic().messages_sent;
    outcome.bytes += report.ledger().total_traffic().bytes_sent;
  }
  return outcome;
}

int count(const GraphSchedule& schedule, Act act) {
  int found = 0;
  for (const Action& each : schedule) found += each.act == act ? 1 : 0;
  return found;
}

GraphSchedule overlapped(const Graph& graph) {
  return late_waits(graph, early_starts(graph, as_written(graph)));
}

}  // namespace

TEST_CASE("an all_reduce starts when its gradient is there, and is waited for when it is used") {
  const Graph graph = training_step();
  const GraphSchedule late = overlapped(graph);
  for (size_t i = 1; i < late.size(); ++i)
    if (late[i].act == Act::start) CHECK(reads_any(graph, late[i], late[i - 1].nodes));
  size_t last_start = 0, first_wait = late.size();
  for (size_t i = 0; i < late.size(); ++i) {
    if (late[i].act == Act::start) last_start = i;
    if (late[i].act == Act::wait) first_wait = std::min(first_wait, i);
  }
  CHECK(last_start < first_wait);
  for (size_t i = 0; i + 1 < late.size(); ++i)
    if (late[i].act == Act::wait) CHECK(reads_any(graph, late[i + 1], late[i].nodes));
}

TEST_CASE("small all_reduces share a bucket, up to its bytes") {
  const Graph graph = training_step();
  const GraphSchedule late = overlapped(graph);
  const double one = 4 * width * width;
  CHECK(count(bucketed(graph, late, one), Act::start) == 3);
  CHECK(count(bucketed(graph, late, 2 * one), Act::start) == 2);
  CHECK(count(bucketed(graph, late, 9 * one), Act::start) == 1);
  CHECK(count(bucketed(graph, late, 9 * one), Act::wait) == 1);
  // As written, each is needed before the next begins.
  CHECK(count(bucketed(graph, as_written(graph), 9 * one), Act::start) == 3);
}

TEST_CASE("every schedule gives the same bits, with fewer messages and the same bytes") {
  const Graph graph = training_step();
  const GraphSchedule plain = as_written(graph), late = overlapped(graph);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    CAPTURE(ranks);
    const Outcome expected = train(graph, plain, ranks);
    CHECK(expected.same_on_all);
    for (const double bytes : {1.0, 300.0, 1e6}) {
      const GraphSchedule schedule = bucketed(graph, late, bytes);
      const Outcome got = train(graph, schedule, ranks);
      CHECK(got.weights == expected.weights);
      CHECK(got.same_on_all);
      CHECK(got.bytes == expected.bytes);
      CHECK(3 * got.messages == count(schedule, Act::start) * expected.messages);
    }
  }
}

TEST_CASE("an all_reduce of an argument, and one of another's result, start too") {
  const Tensor example = Tensor::zeros({2, 2});
  const Graph graph =
      capture([](const Array& a) { return all_reduce(all_reduce(a)) + a; }, example);
  for (const GraphSchedule& schedule :
       {as_written(graph), overlapped(graph), bucketed(graph, overlapped(graph), 1e6)}) {
    CHECK(count(schedule, Act::start) == 2);
    run_ranks(2, [&](Communicator& world) {
      const Tensor x = Tensor::full({2, 2}, world.rank() + 1.0);
      CHECK(run_on_ranks(graph, schedule, {x}, world)[0].item({1, 1}) == 6 + world.rank() + 1);
    });
  }
}

TEST_CASE("a schedule that reads what is not there is refused") {
  const Graph graph = training_step();
  const GraphSchedule late = bucketed(graph, overlapped(graph), 300);
  const auto message = [&](GraphSchedule schedule) {
    return message_of([&] { check_schedule(graph, schedule); });
  };
  CHECK(message(late) == "nothing was thrown");
  const auto at = [&](Act act) {
    return std::find_if(late.begin(), late.end(),
                        [&](const Action& each) { return each.act == act; }) -
           late.begin();
  };
  GraphSchedule wrong = late;
  wrong.erase(wrong.begin() + at(Act::wait));
  CHECK(message(wrong).find("before what it reads is there: a wait too late?") !=
        std::string::npos);
  wrong = late;
  wrong.erase(wrong.begin() + at(Act::start));
  CHECK(message(wrong).find("that it has not started") != std::string::npos);
  wrong = late;
  wrong.pop_back();
  CHECK(message(wrong).find("was never computed") != std::string::npos);
  wrong = late;
  wrong[static_cast<size_t>(at(Act::start))].act = Act::run;
  CHECK(message(wrong).find("starts and waits for all_reduces") != std::string::npos);
}
