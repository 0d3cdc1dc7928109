#include "yotta/machine/timelines/timeline_json.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "support/small_trace.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using yotta_test::small_trace;

TEST_CASE("the file is JSON with every event, its times in microseconds") {
  const auto file = nlohmann::json::parse(timeline_json(small_trace()));
  int complete = 0;
  for (const auto& event : file["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++complete;
    if (event["name"] != "adamw") continue;
    CHECK(event["pid"] == 0);
    CHECK(event["ts"] == 4e6);
    CHECK(event["dur"] == 1e6);
    CHECK(event["args"]["bytes"] == 8);
  }
  CHECK(complete == 7);
}

TEST_CASE("processes are ranks, threads are lanes, and all have names") {
  std::map<std::pair<int, int>, std::string> names;
  const auto file = nlohmann::json::parse(timeline_json(small_trace()));
  for (const auto& event : file["traceEvents"])
    if (event["name"] == "thread_name") names[{event["pid"], event["tid"]}] = event["args"]["name"];
  CHECK(names.size() == 4);
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == "X") CHECK(names.contains({event["pid"], event["tid"]}));
  CHECK(names[{0, 0}] == "compute");
}

TEST_CASE("each message is an arrow from its send to its receive") {
  const auto file = nlohmann::json::parse(timeline_json(small_trace()));
  int starts = 0, ends = 0;
  for (const auto& event : file["traceEvents"]) {
    starts += event["ph"] == "s" && event["pid"] == 0 && event["ts"] == 4e6;
    ends += event["ph"] == "f" && event["pid"] == 1 && event["ts"] == 6e6;
  }
  CHECK(starts == 1);
  CHECK(ends == 1);
}

TEST_CASE("a message says who is at its other end, an image by its chip") {
  Trace trace;
  trace.ranks.push_back({{EventKind::send, -1, 0, 1, "x", {}, 3, 8},
                         {EventKind::send, -1, 1, 2, "x", {}, first_image + 7, 8}});
  std::vector<std::string> peers;
  const auto file = nlohmann::json::parse(timeline_json(trace));
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == "X") peers.push_back(event["args"]["peer"]);
  CHECK(peers == std::vector<std::string>{"rank 3", "the image on chip 7"});
}

TEST_CASE("what is sent and received on one lane at once lies on two threads") {
  Trace trace;
  trace.ranks.push_back({{EventKind::send, -1, 0, 2, "ring", {}, 0, 8},
                         {EventKind::recv, -1, 1, 3, "ring", {}, 0, 8}});
  const auto file = nlohmann::json::parse(timeline_json(trace));
  std::vector<int> threads;
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == "X") threads.push_back(event["tid"]);
  CHECK(threads.size() == 2);
  CHECK(threads[0] != threads[1]);
}

TEST_CASE("names with quotes and control characters stay JSON") {
  Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 1, "a \"b\" \\ \n", {}, -1, 0, 0}});
  const auto file = nlohmann::json::parse(timeline_json(trace));
  bool found = false;
  for (const auto& event : file["traceEvents"]) found = found || event["name"] == "a \"b\" \\ \n";
  CHECK(found);
}

TEST_CASE("what is on one thread lies apart or inside each other, to the nanosecond") {
  Cluster c = cluster_named("h100x8");
  c.gamma = 1e-12;
  const auto body = [](Communicator& world) {
    Communicator pair = world.split(world.rank() / 2, 0);
    std::vector<float> x(1237), y(331);
    for (int step = 0; step < 3; ++step) {
      charge({"matmul", DType::f32, 7e6 * (1 + world.rank()), 0, 0});
      Work all = world.all_reduce_async(x, ReduceOp::sum, {Algorithm::ring});
      Work two = pair.all_reduce_async(y, ReduceOp::sum, {Algorithm::recursive_doubling});
      charge({"matmul", DType::f32, 3e6, 0, 0});
      world.send(x, world.rank() ^ 1);
      world.recv(x, world.rank() ^ 1);
      two.wait();
      all.wait();
    }
    world.all_reduce(x, ReduceOp::sum, {Algorithm::tree});
  };
  const auto file = nlohmann::json::parse(timeline_json(run_on(c, 4, body).trace));
  std::map<std::pair<int, int>, std::vector<std::pair<int64_t, int64_t>>> threads;  // begin, -end
  const auto ns = [](const nlohmann::json& us) { return std::llround(1e3 * us.get<double>()); };
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == "X")
      threads[{event["pid"], event["tid"]}].emplace_back(ns(event["ts"]),
                                                         -(ns(event["ts"]) + ns(event["dur"])));
  CHECK(threads.size() > 8);
  int crossing = 0, events = 0;
  for (auto& [thread, spans] : threads) {
    std::sort(spans.begin(), spans.end());
    std::vector<int64_t> open;  // ends of what is going on
    for (const auto& [begin, minus_end] : spans) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      crossing += !open.empty() && -minus_end > open.back();
      open.push_back(-minus_end);
      ++events;
    }
  }
  CHECK(events > 200);
  CHECK(crossing == 0);
}
