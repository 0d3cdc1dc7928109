#include "yotta/machine/timelines/timeline_file.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "support/message_of.hpp"
#include "support/small_trace.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using namespace yotta_test;

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
// One message on each axis of tp 2 x pp 2 x dp 2, one on a split that nobody named, one on a named one.
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
       {"tp", "dp", "half", "split 7 of world", "to rank 2 (pp)", "to rank 1"}) {
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
                 "'run.pdf' does not say what kind of timeline it shall be: end it in .html"));
  const TemporaryFolder folder;
  const std::string nowhere = folder.path() / "none" / "run.svg";
  for (const std::string& text : {message_of([&] { check_timeline_name(nowhere); }),
                                  message_of([&] { write_timeline(nowhere, small_trace()); })})
    CHECK(contains(text, nowhere + " cannot be created: No such file or directory"));
  std::filesystem::create_directory(folder / "folder.html");
  CHECK(contains(message_of([&] { check_timeline_name(folder / "folder.html"); }),
                 "folder.html: this is a folder, and a file is to be written"));
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
