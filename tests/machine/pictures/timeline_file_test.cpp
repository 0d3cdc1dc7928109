#include "yotta/machine/pictures/timeline_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/message_of.hpp"
#include "support/small_trace.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using namespace yotta_test;

// ---- Every kind ----
TEST_CASE("the ending says which kind is written") {
  const TemporaryFolder folder;
  const auto written = [&](const char* name) {
    const std::string path = folder.path() / name;
    write_timeline(path, small_trace());
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  CHECK(written("run.html") == timeline_page(small_trace()));
  CHECK(written("run.json") == timeline_json(small_trace()));
  CHECK(written("run.svg") == timeline_svg(small_trace()));
  CHECK(contains(written("run.txt"), "rank 1"));
}

namespace {
// One message on each axis of tp 2 x pp 2 x dp 2, one on a split that nobody named, one on a named
// one.
void one_message_each(Communicator& world) {
  Mesh mesh(world, {.tp = 2, .pp = 2, .dp_replicate = 2});
  std::vector<float> x(8, 1);
  charge({"matmul", DType::f32, 1e6, 0, 0});
  mesh[Axis::tp].all_reduce(x);
  Communicator pp = mesh[Axis::pp];
  if (pp.rank() == 0) pp.send(x, 1);
  if (pp.rank() == 1) pp.recv(x, 0);
  mesh[Axis::dp_replicate].all_reduce(x);
  world.split(world.rank() / 4, 0).all_reduce(x);
  world.split(world.rank() / 4, 0).named("half").all_reduce(x);
  world.send(x, world.rank() ^ 1);
  world.recv(x, world.rank() ^ 1);
}
}  // namespace

TEST_CASE("every kind calls a communicator by its name: the axis of a mesh, or what it was given") {
  const Trace trace = run_on(cluster_named("h100x8"), 8, one_message_each).trace;
  const std::string text = timeline_text(make_timeline(trace)), svg = timeline_svg(trace),
                    page = timeline_page(trace), json = timeline_json(trace);
  for (const std::string name :
       {"tp", "dp", "half", "split 8 of world", "to rank 2 (pp)", "to rank 1"}) {
    INFO(name);
    CHECK(contains(text, fmt::format(" {} ", name)));
    CHECK(contains(svg, fmt::format(">{}</text>", name)));
    CHECK(contains(page, fmt::format("\"lane\":\"{}\"", name)));
    CHECK(contains(json, fmt::format("{{\"name\":\"{}\"}}", name)));
  }
  CHECK(contains(json, "{\"name\":\"dp, arriving\"}"));
  for (const std::string& output : {text, svg, page, json})
    CHECK_FALSE(contains(output, "communicator"));
}

TEST_CASE("what cannot be written is heard before the run, in words") {
  CHECK(contains(message_of([] { check_timeline_name("run.pdf"); }),
                 "'run.pdf' does not say which kind of timeline to write: end it in .html"));
  const TemporaryFolder folder;
  const std::string nowhere = folder.path() / "none" / "run.svg";
  for (const std::string& text : {message_of([&] { check_timeline_name(nowhere); }),
                                  message_of([&] { write_timeline(nowhere, small_trace()); })})
    CHECK(contains(text, nowhere + " cannot be created: No such file or directory"));
  std::filesystem::create_directory(folder / "folder.html");
  CHECK(contains(message_of([&] { check_timeline_name(folder / "folder.html"); }),
                 "folder.html is a folder: give the path of a file to write"));
}

TEST_CASE("asking leaves things as they are: no file where there was none, an old one as it was") {
  const TemporaryFolder folder;
  const std::string path = folder / "run.txt";
  check_timeline_name(path);
  CHECK_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "old";
  check_timeline_name(path);
  CHECK(std::filesystem::file_size(path) == 3);
}

TEST_CASE("a timeline that cannot be written to its end leaves the old one, or none") {
  const TemporaryFolder folder;
  const std::string old = folder / "old.html", none = folder / "new.html";
  std::ofstream(old) << "old";
  rlimit usual = {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const rlimit small = {100, usual.rlim_max};  // as a disk with 100 bytes left
  const auto signalled = std::signal(SIGXFSZ, SIG_IGN);
  for (const std::string& path : {old, none}) {
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string text = message_of([&] { write_timeline(path, small_trace()); });
    setrlimit(RLIMIT_FSIZE, &usual);
    CHECK(contains(text, path + " cannot be written"));
  }
  std::signal(SIGXFSZ, signalled);
  CHECK(std::filesystem::file_size(old) == 3);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

// ---- JSON for Perfetto ----
namespace {
struct Crossings {
  int crossing = 0, events = 0;
  size_t threads = 0;
};
// Events of one thread of the JSON that lie neither apart nor inside each other.
Crossings crossings(const Trace& trace) {
  const auto file = nlohmann::json::parse(timeline_json(trace));
  // Begin, -end.
  std::map<std::pair<int, int64_t>, std::vector<std::pair<int64_t, int64_t>>> threads;
  const auto ns = [](const nlohmann::json& us) { return std::llround(1e3 * us.get<double>()); };
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == "X")
      threads[{event["pid"], event["tid"]}].emplace_back(ns(event["ts"]),
                                                         -(ns(event["ts"]) + ns(event["dur"])));
  Crossings found{0, 0, threads.size()};
  for (auto& [thread, spans] : threads) {
    std::sort(spans.begin(), spans.end());
    std::vector<int64_t> open;  // ends of what is going on
    for (const auto& [begin, minus_end] : spans) {
      while (!open.empty() && open.back() <= begin) open.pop_back();
      found.crossing += !open.empty() && -minus_end > open.back();
      open.push_back(-minus_end);
      ++found.events;
    }
  }
  return found;
}
}  // namespace

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

TEST_CASE("Perfetto has a track of steps and one of passes, and phases as categories") {
  std::map<std::string, std::vector<std::string>> tracks;  // by category: names
  const auto file = nlohmann::json::parse(timeline_json(step_trace()));
  for (const auto& event : file["traceEvents"])
    if (event["ph"] == "X") tracks[event["cat"]].push_back(event["name"]);
  CHECK(tracks["steps"] == std::vector<std::string>{"step 0", "step 1"});
  CHECK(tracks["passes"].size() == 4);
  CHECK(tracks["recompute"] == std::vector<std::string>{"linear"});
  CHECK(tracks["all_reduce"] == std::vector<std::string>{"ddp.gradients"});
  CHECK(crossings(step_trace()).crossing == 0);
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
  const Crossings found = crossings(run_on(c, 4, body).trace);
  CHECK(found.threads > 8);
  CHECK(found.events > 200);
  CHECK(found.crossing == 0);
}

TEST_CASE("several rings at once lie on threads of their own, with names") {
  const Trace trace = run_on(cluster_named("h100x16"), 16, [](Communicator& world) {
                        std::vector<float> x(12370);
                        world.all_reduce(x, ReduceOp::sum, {Algorithm::multi_rail});
                      }).trace;
  const Crossings found = crossings(trace);
  CHECK(found.events >= 2 * 16 * 8 * 30);  // and waits
  CHECK(found.crossing == 0);
  const std::string json = timeline_json(trace);
  CHECK(json.find("\"world (2)\"") != json.npos);
  CHECK(json.find("\"world, arriving (2)\"") != json.npos);
}

// ---- SVG ----
namespace {
int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = 0; (at = text.find(word, at)) != text.npos; ++at) ++found;
  return found;
}
}  // namespace

TEST_CASE("a bar an event, with its times where a mouse finds them") {
  const std::string svg = timeline_svg(small_trace());
  CHECK(count(svg, "<title>") == 7);
  CHECK(contains(svg, "<title>halo, 4 s to 6 s, to rank 1, 64 bytes</title>"));
  CHECK(contains(svg, "<title>wait, 2 s to 6 s</title>"));
  CHECK(count(svg, "height=\"2\" fill=\"#888888\"") == 1);
  // 8 s are 800 pixels: rank 0's matmul is 400 wide and begins at the left end
  // right of "from rank 0", the longest name
  CHECK(contains(svg, "x=\"152.50\" y=\"36.5\" width=\"400.00\" height=\"14\" fill=\"#99ddff\""));
}

TEST_CASE("a line over the critical path: rank 0's matmul, the message, rank 1's last matmul") {
  const std::string svg = timeline_svg(small_trace());
  CHECK(count(svg, "height=\"2\"/>") == 3);
  CHECK(contains(svg, "<rect x=\"152.50\" y=\"34.0\" width=\"400.00\" height=\"2\"/>"));
  CHECK(contains(svg, "<rect x=\"552.50\" y=\"54.0\" width=\"200.00\" height=\"2\"/>"));
}

TEST_CASE("a long lane's name does not run into the bars") {
  Trace trace;
  trace.ranks.push_back({{EventKind::send,
                          message_lane(first_image + 12345, false),
                          0,
                          1,
                          "x",
                          {},
                          first_image + 12345,
                          8}});
  CHECK(contains(timeline_svg(trace), "<rect x=\"265.00\""));  // "to the image on chip 12345"
}

TEST_CASE("it says what its marks mean, how many ranks it leaves out, and who an image is") {
  CHECK(contains(timeline_svg(small_trace()), "grey line: waits; dark line: critical path<"));
  CHECK(contains(timeline_svg(small_trace(), 1), "critical path; 1 more ranks<"));
  Trace trace;
  trace.ranks.push_back({{EventKind::send, -1, 0, 1, "x", {}, first_image + 7, 8}});
  CHECK(contains(timeline_svg(trace), "to the image on chip 7, 8 bytes"));
}

TEST_CASE("a kind that is not solid has the lines of its pattern, in bars and in the legend") {
  const std::string svg = timeline_svg(step_trace());
  CHECK(count(svg, "<pattern id=") == 5);              // forward and all_reduce are solid
  CHECK(count(svg, "fill=\"url(#yotta-2-2)\"") == 2);  // backward_weight: a bar, the legend
  CHECK(count(svg, "<pattern id=\"yotta-2-2\"") == 1);
  CHECK(contains(svg, "<title>linear_backward_weight (backward_weight (wgrad)), 4 s to 5 s<"));
  CHECK(contains(svg, ">all_gather</text>"));
}

TEST_CASE("steps and passes stand on the axis, with a line where each begins") {
  const std::string svg = timeline_svg(step_trace());
  for (const char* name : {"steps of rank 0", "step 0", "step 1", "passes of rank 0", "backward"})
    CHECK(contains(svg, fmt::format(">{}</text>", name)));
  CHECK(count(svg, "stroke-dasharray") == 2 + 4);
  CHECK(count(timeline_svg(small_trace()), "stroke-dasharray") == 0);
}

TEST_CASE("tags are closed, and names cannot break out of them") {
  Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 1, "a<b>&\"c\"", {}, -1, 0, 0}});
  const std::string svg = timeline_svg(trace);
  CHECK(contains(svg, "a&lt;b&gt;&amp;&quot;c&quot;"));
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK(count(svg, "<svg") == count(svg, "</svg>"));
}

TEST_CASE("thousands of events make a small picture") {
  Trace trace;
  trace.ranks.emplace_back();
  for (int i = 0; i < 20000; ++i)
    trace.ranks[0].push_back({EventKind::op, 0, 1.0 * i, i + 0.9, "op", {}, -1, 0, 0});
  CHECK(count(timeline_svg(trace), "<title>") < 3000);
  for (size_t i = 1; i < 20000; ++i) trace.ranks[0][i].cause = {0, static_cast<int>(i) - 1};
  CHECK(count(timeline_svg(trace), "height=\"2\"/>") == 1);  // one long line
}

// ---- The page ----
namespace {
nlohmann::json data_of(const std::string& page) {
  const size_t begin = page.find("const data = ") + 13, end = page.find(";\nconst canvas");
  return nlohmann::json::parse(page.substr(begin, end - begin));
}
}  // namespace

TEST_CASE("the page holds every event, and where its cause is") {
  const nlohmann::json data = data_of(timeline_page(small_trace()));
  CHECK(data["seconds"] == 8);
  REQUIRE(data["rows"].size() == 4);
  const auto& received = data["rows"][3]["bars"][0];
  CHECK(received[0] == 4);
  CHECK(received[1] == 6);
  CHECK(data["kinds"][received[2].get<size_t>()]["name"] == "halo");
  CHECK(data["words"][received[10].get<size_t>()] == "halo");
  CHECK(received[6] == 64);
  CHECK(received[8] == 1);  // row 1, rank 0's lane to rank 1
  CHECK(received[9] == 0);  // its first bar
  const auto& last = data["rows"][2]["bars"][2];
  CHECK(last[3] == 1);  // critical
  CHECK(data["rows"][2]["bars"][0][3] == 0);
}

TEST_CASE("the page has the lines of each kind's pattern, and the marks") {
  const nlohmann::json data = data_of(timeline_page(step_trace()));
  std::set<std::string> lines;
  for (size_t i = 0; i < phase_looks.size(); ++i) lines.insert(data["kinds"][i]["lines"]);
  CHECK(lines.size() == phase_looks.size());
  CHECK(data["steps"] ==
        nlohmann::json::parse(R"([[0, 6, "step 0", "0"], [6, 8, "step 1", "1"]])"));
  CHECK(data["passes"].size() == 4);
  CHECK(data["words"][data["rows"][0]["bars"][0][10].get<size_t>()] == "linear (forward)");
}

TEST_CASE("the page is whole: it loads nothing, and a name cannot end its script") {
  Trace trace;
  trace.ranks.push_back({{EventKind::op, 0, 0, 1, "</script><b>", {}, -1, 0, 0}});
  const std::string page = timeline_page(trace);
  CHECK(page.find("</script>") == page.rfind("</script>"));
  CHECK(data_of(page)["words"][0] == "</script><b>");
  for (const char* loads : {"src=", "href=", "http://", "https://", "import "})
    CHECK_FALSE(contains(page, loads));
}

TEST_CASE("a page links to the lessons that explain it where there is a book") {
  const std::string page = timeline_page(small_trace(), 64, "../book & more");
  for (const std::string lesson : {"09_cluster", "27_mfu"}) {
    CHECK(contains(page, "href=\"../book &amp; more/lessons/" + lesson + ".html\""));
    CHECK(std::filesystem::exists(YOTTA_SOURCE_DIR "/lessons/" + lesson));
  }
  CHECK_FALSE(contains(page, "./yotta book"));
  CHECK(contains(timeline_page(small_trace()), "./yotta book"));
  const TemporaryFolder folder;
  const std::string path = folder.path() / "run.html";
  write_timeline(path, small_trace(), "../book & more");
  std::ifstream file(path);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == page);
}

TEST_CASE("a cause on a rank that is left out is no cause on the page") {
  const nlohmann::json data = data_of(timeline_page(small_trace(), 1));
  CHECK(data["rows"].size() == 2);
  CHECK(data["left_out"] == 1);
  for (const auto& row : data["rows"])
    for (const auto& bar : row["bars"]) CHECK(bar[8] < 2);
}
