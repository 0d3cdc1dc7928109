#include "yotta/device/attention_mods.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace yotta;

namespace {
// Rows of a mask, queries downwards: x where a key is seen.
template <class Mask>
std::string drawn(const Mask& mask, int T, int b = 0, int h = 0) {
  std::string text;
  for (int q = 0; q < T; ++q) {
    for (int kv = 0; kv < T; ++kv) text += mask(b, h, q, kv) ? 'x' : '.';
    text += ' ';
  }
  return text;
}
}  // namespace

TEST_CASE("masks, as they are drawn on the page") {
  const int document[] = {0, 0, 1, 1, 1, 2, /* b = 1 */ 3, 3, 3, 3, 4, 4};
  const SameDocument documents{document, 6};
  CHECK(drawn(Causal{}, 4) == "x... xx.. xxx. xxxx ");
  CHECK(drawn(SlidingWindow{3}, 6) == "x..... xx.... xxx... .xxx.. ..xxx. ...xxx ");
  CHECK(drawn(documents, 6) == "xx.... xx.... ..xxx. ..xxx. ..xxx. .....x ");
  CHECK(drawn(documents, 6, 1) == "xxxx.. xxxx.. xxxx.. xxxx.. ....xx ....xx ");
  CHECK(drawn(PrefixLm{2}, 4) == "xx.. xx.. xxx. xxxx ");
  CHECK(drawn(and_masks(Causal{}, documents), 6) == "x..... xx.... ..x... ..xx.. ..xxx. .....x ");
  CHECK(drawn(or_masks(SlidingWindow{1}, SameDocument{document, 6}), 3) == "xx. xx. ..x ");
  CHECK(drawn(NoMask{}, 2) == "xx xx ");
}

TEST_CASE("a neighbourhood does not reach round the edge of the picture") {
  CHECK(drawn(Neighbourhood{3, 1}, 6) == "xx.xx. xxxxxx .xx.xx xx.xx. xxxxxx .xx.xx ");
}

TEST_CASE("a node of a tree sees the path to it") {
  const int last[] = {4, 2, 2, 4, 4};  // 0 has children 1 and 3; 2 is 1's child, 4 is 3's
  CHECK(drawn(TreePath{last}, 5) == "x.... xx... xxx.. x..x. x..xx ");
}

TEST_CASE("masks of three are joined, and lambdas with them") {
  const auto even = [](int, int, int, int kv) { return kv % 2 == 0; };
  CHECK(drawn(and_masks(Causal{}, SlidingWindow{3}, even), 5) == "x.... x.... x.x.. ..x.. ..x.x ");
  CHECK(drawn(or_masks(SlidingWindow{1}, PrefixLm{0}, even), 3) == "x.x xxx xxx ");
}

TEST_CASE("score modifiers: values, and in turn") {
  const double slopes[] = {0.5, 0.25}, cap[] = {2};
  const double table[] = {10, 20, 30, /* head 1 */ 40, 50, 60};
  const Alibi<double> alibi{{slopes}};
  const RelativePositions<double> relative{{table}, 1};
  CHECK(alibi(1.0, 0, 1, 7, 3) == 0.0);
  CHECK(relative(1.0, 0, 0, 4, 4) == 21);
  CHECK(relative(1.0, 0, 1, 4, 3) == 41);  // one key back
  CHECK(relative(1.0, 0, 1, 9, 3) == 41);  // as far as it reaches
  CHECK(relative(1.0, 0, 1, 3, 9) == 61);
  const auto both = in_turn(alibi, SoftCap<double>{{cap, 2}});
  CHECK(both(100.0, 0, 0, 7, 3) == doctest::Approx(2 * std::tanh(49.0)));
  CHECK(captured_reads<decltype(both)>() == 2);
  CHECK(captured_reads<decltype([](float s, int, int, int, int) { return s; })>() == 0);
  CHECK(alibi_slope(0, 8) == 0.5);
  CHECK(alibi_slope(7, 8) == 1.0 / 256);
}
