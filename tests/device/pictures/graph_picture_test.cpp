#include "yotta/device/pictures/graph_picture.hpp"

#include <fstream>
#include <sstream>

#include "device/fusion_examples.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a box a kernel, an arrow for each value that crosses memory") {
  const Graph graph = merge_equal(capture(softmax, uniform("x", {64, 512})));
  const auto draw = [&](const Owners& owner) {
    return graph_svg(graph, kernels(graph, owner), "softmax");
  };
  const std::string apart = draw(one_kernel_each(graph)), fused = draw(fuse(graph));
  CHECK(count(apart, "<rect x=") == 5);
  CHECK(count(apart, "#2f7d4f") == 7);  // reads
  CHECK(count(apart, "#b5482a") == 5);  // writes
  CHECK(count(fused, "<rect x=") == 1);
  CHECK(count(fused, "#2f7d4f") == 1);
  CHECK(count(fused, "1 kernel, 262 KB cross the bus") == 1);
}

TEST_CASE("the page's pictures are what the function draws now") {
  const Graph graph = merge_equal(capture(softmax, uniform("x", {64, 512})));
  const auto check = [&](const char* name, const Owners& owner, const char* title) {
    std::ifstream file(fmt::format("{}/course/pictures/{}", YOTTA_SOURCE_DIR, name));
    std::stringstream page;
    page << file.rdbuf();
    const bool same = page.str() == graph_svg(graph, kernels(graph, owner), title);
    CHECK_MESSAGE(same, name, " is not what graph_svg draws: ./yotta lesson 05 -- --draw 1");
  };
  check("softmax_apart.svg", one_kernel_each(graph), "softmax, one operation at a time");
  check("softmax_fused.svg", fuse(graph), "softmax, fused");
}
