// The graded cases of exercise 26. No rank runs here: a mesh is numbers, and so are its groups and
// its links.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"

using namespace yotta;
using exercise::Axes;
using exercise::Coordinates;
using exercise::expect;
using exercise::Order;
using exercise::solution;
using exercise::Spread;

namespace {

constexpr auto tp = Axis::tp, cp = Axis::cp, pp = Axis::pp, ep = Axis::ep, fsdp = Axis::dp_shard,
               dp = Axis::dp_replicate;
constexpr MeshShape sixteen{.tp = 2, .cp = 2, .pp = 2, .dp_shard = 2};
constexpr MeshShape all_two{2, 2, 2, 1, 2, 2};
constexpr MeshShape with_ep{2, 2, 2, 2, 2, 2};

std::string words_of(const Axes& axes) {
  std::string text;
  for (const Axis axis : axes)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", short_name(axis));
  return text.empty() ? "none" : text;
}

Coordinates expected_coordinates(const MeshShape& shape, int rank) {
  Coordinates at = {};
  for (size_t i = 0; i < all_axes.size(); ++i) at[i] = coordinate(shape, rank, all_axes[i]);
  return at;
}

void expect_coordinates(const MeshShape& shape, int rank) {
  const Coordinates got = solution.coordinates(shape, rank),
                    expected = expected_coordinates(shape, rank);
  Coordinates reversed = {};
  for (int i = 5, left = rank; i >= 0; --i) {
    const int size = shape[all_axes[static_cast<size_t>(i)]];
    reversed[static_cast<size_t>(i)] = left % size;
    left /= size;
  }
  expect(got == expected,
         fmt::format("rank {} of {}: (tp, cp, pp, ep, fsdp, dp) is ({}), expected ({}){}", rank,
                     describe(shape), fmt::join(got, ", "), fmt::join(expected, ", "),
                     got == reversed ? "\n    that counts the outermost axis fastest: tp is the "
                                       "innermost, and its ranks are neighbours"
                                     : ""));
}

std::vector<int> expected_group(const MeshShape& shape, int rank, const Axes& axes, bool along) {
  std::vector<int> group;
  for (int other = 0; other < shape.ranks(); ++other) {
    bool in = true;
    for (const Axis axis : all_axes) {
      const bool named = std::find(axes.begin(), axes.end(), axis) != axes.end();
      in =
          in && (named == along || coordinate(shape, other, axis) == coordinate(shape, rank, axis));
    }
    if (in) group.push_back(other);
  }
  return group;
}

void expect_group(const MeshShape& shape, int rank, const Axes& axes) {
  const std::vector<int> got = solution.group(shape, rank, axes);
  const std::vector<int> expected = expected_group(shape, rank, axes, true);
  const char* advice = "";
  if (got == expected_group(shape, rank, axes, false))
    advice =
        "\n    these share its coordinates along the axes: the group differs along them, and "
        "shares all others";
  if (axes.size() > 1 && got == expected_group(shape, rank, {axes[0]}, true))
    advice = "\n    these differ along the first of the axes only";
  expect(got == expected, fmt::format("rank {} of {}, its group along {}: got {}, expected {}{}",
                                      rank, describe(shape), words_of(axes), fmt::join(got, " "),
                                      fmt::join(expected, " "), advice));
}

// A parameter of this name, cut by tp or whole.
Parameter parameter_of(const char* name, bool is_cut) {
  Parameter made;
  made.name = name;
  made.range.rows = 4, made.range.columns = 6;
  if (is_cut) made.range.whole_rows = 8;
  return made;
}

void expect_along(const Parameter& parameter, const Spread& spread, Axis axis, const char* expected,
                  const char* why) {
  const std::string got = solution.along(axis, parameter, spread);
  expect(
      got == expected,
      fmt::format("{} on {}{}: along {} the others have \"{}\", not \"{}\"\n    {}", parameter.name,
                  describe(spread.shape), spread.shares_tokens ? " with sequence parallelism" : "",
                  short_name(axis), expected, got, why));
}

// Over which axes is summed. An axis of one rank may be named or not.
void expect_axes(const char* what, const char* technique, const MeshShape& shape, const Axes& got,
                 Axes expected, const char* why) {
  const auto known = [&](Axes axes) {
    std::erase_if(axes, [&](Axis axis) { return shape[axis] == 1; });
    std::sort(axes.begin(), axes.end());
    return axes;
  };
  expect(known(got) == known(expected),
         fmt::format("{} with {} on {}: over {}, expected {}\n    {}", what, technique,
                     describe(shape), words_of(got), words_of(expected), why));
}

void expect_link(const Cluster& cluster, const MeshShape& shape, Axis axis, const Order& order,
                 int level, const char* why) {
  const Link got = solution.slowest_link(cluster, shape, axis, order);
  const auto name = [&](int of) {
    return of < 0 ? "no link" : cluster.levels[static_cast<size_t>(of)].name;
  };
  expect(
      got.level == level,
      fmt::format("{} on {}: the slowest link along {} is of level \"{}\", not \"{}\"\n    {}",
                  describe(shape), cluster.name, short_name(axis), name(level), name(got.level),
                  level > got.level && got.level >= 0 &&
                          got.beta == cluster.levels[static_cast<size_t>(level)].beta
                      ? "both have this bandwidth, and the farther one more latency: compare .level"
                      : why));
}

}  // namespace

TEST_CASE("26.1: the 16 GPUs of Llama 3's paper") {
  for (int rank = 0; rank < 16; ++rank) expect_coordinates(sixteen, rank);
}

TEST_CASE("26.1: axes of different sizes") {
  for (const MeshShape shape : {MeshShape{.tp = 3, .pp = 2}, MeshShape{8, 1, 16, 1, 2, 3}})
    for (int rank = 0; rank < shape.ranks(); rank += 5) expect_coordinates(shape, rank);
}

TEST_CASE("26.1: a mesh of other sizes") {
  const MeshShape shape{.tp = exercise::size("tp", 3, 2, 5),
                        .cp = exercise::size("cp", 2, 1, 4),
                        .pp = exercise::size("pp", 2, 1, 5),
                        .dp_replicate = exercise::size("dp", 2, 1, 4)};
  for (int rank = 0; rank < shape.ranks(); rank += 3) expect_coordinates(shape, rank);
}

TEST_CASE("26.1: ep is an axis too") {
  for (const int rank : {3, 8, 13, 60}) expect_coordinates(with_ep, rank);
}

TEST_CASE("26.1: a rank that is not there is an error") {
  for (const int rank : {-1, 16, 99})
    expect(!exercise::error_of([&] { solution.coordinates(sixteen, rank); }).empty(),
           fmt::format("{} has ranks 0 to 15, and rank {} has coordinates by your answer",
                       describe(sixteen), rank));
}

TEST_CASE("26.2: a group along one axis") {
  for (const int rank : {0, 6, 13})
    for (const Axis axis : {tp, cp, pp, fsdp}) expect_group(sixteen, rank, {axis});
}

TEST_CASE("26.2: a group along several axes") {
  expect_group(sixteen, 13, {cp, fsdp});
  expect_group(MeshShape{2, 3, 1, 1, 2, 2}, 7, {tp, dp});
  expect_group(sixteen, 3, {});
}

TEST_CASE("26.3: a matrix that tp cuts") {
  const Spread spread{all_two};
  const Parameter matrix = parameter_of("layers.0.mlp.up.weight", true);
  expect_along(matrix, spread, tp, "piece", "each rank of tp has its own rows: nothing to add");
  expect_along(matrix, spread, pp, "alone", "other stages have other layers");
  expect_along(matrix, spread, cp, "part",
               "cp cuts tokens and no weights: its ranks have gradients of different tokens");
  for (const Axis axis : {fsdp, dp})
    expect_along(matrix, spread, axis, "part", "its ranks train on different sequences");
}

TEST_CASE("26.3: what is whole along tp still sees other tokens along cp, fsdp and dp") {
  const Parameter norm = parameter_of("layers.0.norm1.weight", false);
  for (const Axis axis : {cp, fsdp, dp})
    expect_along(norm, {all_two}, axis, "part",
                 "its ranks have other tokens: that tp does not cut a norm changes nothing there");
  expect_along(norm, {all_two}, pp, "alone", "other stages have other layers");
}

TEST_CASE("26.3: a norm, with and without sequence parallelism") {
  const Parameter norm = parameter_of("layers.0.norm1.weight", false);
  expect_along(norm, {all_two}, tp, "copy",
               "all ranks of tp see all tokens, and compute the same gradient");
  expect_along(norm, {all_two, true}, tp, "part", "each rank's norm has seen its own tokens alone");
  expect_along(parameter_of("embedding.position.weight", false), {all_two, true}, tp, "part",
               "a table of positions has seen its rank's own tokens alone, as norms have");
  expect_along(parameter_of("layers.0.norm1.bias", false), {all_two, true}, tp, "part",
               "a norm's bias has seen its rank's own tokens alone, as its weight has");
  const Parameter bias = parameter_of("layers.0.mlp.down.bias", false);
  expect_along(bias, {all_two, true}, tp, "copy",
               "the dy of a bias after a row cut was gathered: it has seen all tokens");
}

TEST_CASE("26.3: a tied table") {
  Spread spread{all_two};
  const Parameter table = parameter_of("embedding.token.weight", true);
  expect_along(table, spread, pp, "alone", "an untied table is on one stage");
  spread.on_both_ends = table.name;
  expect_along(table, spread, pp, "part",
               "the first stage has the gradient of its rows, the last that of the logits: both "
               "ends reduce, and both must be added");
  expect_along(table, spread, tp, "piece", "tied or not: tp has cut it into pieces");
  expect_along(parameter_of("norm.weight", false), spread, pp, "alone", "only the table is tied");
}

TEST_CASE("26.3: along an axis of one rank there are no others") {
  const char* const why = "the axis has one rank, so there are no others";
  const Spread alone{{.dp_replicate = 2}, true, "embedding.token.weight"};
  for (const Axis axis : {tp, cp, pp, ep, fsdp}) {
    expect_along(parameter_of("layers.0.norm1.weight", false), alone, axis, "alone", why);
    expect_along(parameter_of("embedding.token.weight", true), alone, axis, "alone", why);
  }
}

TEST_CASE("26.3: along ep an expert is alone, and all else sees other tokens") {
  expect_along(parameter_of("layers.0.mlp.experts.0.up.weight", false), {with_ep}, ep, "alone",
               "each rank of ep has its own experts");
  expect_along(parameter_of("layers.0.norm1.weight", false), {with_ep}, ep, "part",
               "ranks of ep train on different sequences");
}

// DDP and ZeRO keep whole weights, so they have no axis of FSDP's.
constexpr MeshShape no_fsdp{2, 2, 2, 1, 1, 2}, no_fsdp_with_ep{2, 2, 2, 2, 1, 2};
exercise::Sums ddp(const MeshShape& shape) { return solution.sums({shape}); }
exercise::Sums of_fsdp(const MeshShape& shape) { return solution.sums({shape, false, "", true}); }
exercise::Sums of_zero(const MeshShape& shape) {
  return solution.sums({shape, false, "", false, true});
}

TEST_CASE("26.4: gradients") {
  expect_axes("gradients", "DDP", no_fsdp, ddp(no_fsdp).data, {cp, dp},
              "ranks of cp have gradients of different tokens of the same sequences");
  expect_axes("gradients outside of FSDP", "FSDP", all_two, of_fsdp(all_two).data, {dp},
              "FSDP has summed over cp and fsdp already");
  expect_axes("gradients", "DDP and ep 2", no_fsdp_with_ep, ddp(no_fsdp_with_ep).data, {cp, ep, dp},
              "ranks of ep train on other sequences, so what is no expert is summed over ep too");
}

TEST_CASE("26.4: gradients of experts") {
  const char* const why =
      "an expert is on one rank of ep alone: its gradients are summed as data, but not over ep";
  expect_axes("gradients of experts", "DDP and ep 2", no_fsdp_with_ep, ddp(no_fsdp_with_ep).experts,
              {cp, dp}, why);
  expect_axes("gradients of experts", "FSDP and ep 2", with_ep, of_fsdp(with_ep).experts, {dp},
              why);
  expect_axes("gradients of experts", "DDP", no_fsdp, ddp(no_fsdp).experts, {cp, dp}, why);
}

TEST_CASE("26.4: losses") {
  const char* const why = "only the last stage of pp has a loss, and ranks of tp all have the same";
  expect_axes("losses", "DDP", no_fsdp, ddp(no_fsdp).loss, {cp, pp, dp}, why);
  expect_axes("losses", "FSDP", all_two, of_fsdp(all_two).loss, {cp, pp, fsdp, dp}, why);
  expect_axes("losses", "FSDP and ep 2", with_ep, of_fsdp(with_ep).loss, {cp, pp, ep, fsdp, dp},
              "ranks of ep train on other sequences, and have losses of their own");
}

TEST_CASE("26.4: squares, for clipping") {
  const char* const of_fsdp_runs = "each rank of FSDP has another run of the gradients";
  const char* const of_zero_runs = "each rank of ZeRO has another run of the gradients";
  expect_axes("squares", "DDP", no_fsdp, ddp(no_fsdp).squares, {tp, pp},
              "after DDP the ranks of dp have the same gradients: each counts once");
  expect_axes("squares", "FSDP", all_two, of_fsdp(all_two).squares, {tp, cp, pp, fsdp},
              of_fsdp_runs);
  expect_axes("squares", "ZeRO", no_fsdp, of_zero(no_fsdp).squares, {tp, cp, pp, dp}, of_zero_runs);
  expect_axes("squares", "DDP and ep 2", no_fsdp_with_ep, ddp(no_fsdp_with_ep).squares,
              {tp, pp, ep}, "ranks of ep have other experts, and each counts once");
  expect_axes("runs", "FSDP", all_two, of_fsdp(all_two).runs, {cp, fsdp},
              "FSDP shards over the ranks over which it sums");
  expect_axes("runs", "ZeRO", no_fsdp, of_zero(no_fsdp).runs, {cp, dp},
              "ZeRO shards over the ranks over which it sums");
  expect_axes("runs", "DDP", no_fsdp, ddp(no_fsdp).runs, {}, "DDP keeps everything whole");
  expect_axes("runs", "FSDP and ep 2", with_ep, of_fsdp(with_ep).runs, {cp, fsdp},
              "FSDP does not shard over ep");
  expect_axes("runs", "ZeRO and ep 2", no_fsdp_with_ep, of_zero(no_fsdp_with_ep).runs, {cp, ep, dp},
              "ZeRO shards over the ranks over which it sums, ep too");
  expect_axes("runs", "DDP and ep 2", no_fsdp_with_ep, ddp(no_fsdp_with_ep).runs, {},
              "DDP keeps everything whole, with ep too");
}

TEST_CASE("26.5: the weighted losses of all ranks are the mean over the batch") {
  for (const MeshShape shape : {MeshShape{}, MeshShape{.cp = 4}, MeshShape{2, 2, 4, 1, 3, 2},
                                MeshShape{.cp = 2, .ep = 4}}) {
    const double got = solution.loss_weight(shape, 10);
    const double ranks = static_cast<double>(shape.cp * shape.data_ranks());
    // Each token's loss is 1; ranks with other tokens add up their weighted sums.
    const double mean = got * 10 * ranks;
    std::string advice;
    if (shape.cp > 1 && std::abs(mean * shape.cp - 1) < 1e-9)
      advice = "\n    the loss is averaged over cp twice";
    if (shape.ep > 1 && std::abs(mean - shape.ep) < 1e-9)
      advice = "\n    ranks of ep train on other sequences too: shape.data_ranks() counts them";
    if (ranks > 1 && std::abs(mean - ranks) < 1e-9)
      advice =
          "\n    each rank's mean is added up: divide by the tokens of the batch, not by its own";
    expect(std::abs(mean - 1) < 1e-9,
           fmt::format("{}, 10 tokens per rank, each with loss 1: the losses add up to {:.4g}, "
                       "expected 1{}",
                       describe(shape), mean, advice));
  }
}

TEST_CASE("26.6: tp stays in the node, dp crosses pods") {
  const Cluster c = llama3_24k();
  const MeshShape shape{.tp = 8, .cp = 1, .pp = 16, .dp_shard = 128};
  expect_link(c, shape, tp, all_axes, 0,
              "tp is the innermost axis: its 8 ranks are neighbours. Do not put tp across nodes");
  expect_link(c, shape, cp, all_axes, -1, "one rank has no link");
  expect_link(c, shape, pp, all_axes, 2, "the ends of a group are farther apart than neighbours");
  expect_link(c, shape, fsdp, all_axes, 3, "16,384 GPUs are more than a pod of 3072");
}

TEST_CASE("26.6: every group is looked at") {
  expect_link(
      llama3_24k(), {.tp = 8, .cp = 16, .pp = 16, .dp_replicate = 8}, pp, all_axes, 3,
      "the first group lies in one pod, but the second one has the border at GPU 3072 in it");
}

TEST_CASE("26.6: neither the first group is the slowest, nor the last") {
  expect_link(llama3_24k(), {.tp = 8, .cp = 16, .pp = 16, .dp_replicate = 3}, pp, all_axes, 3,
              "the second of three groups along dp has the border at GPU 3072 in it, the first and "
              "the last do not");
}

TEST_CASE("26.6: one group alone") {
  expect_link(llama3_24k(), {.tp = 16}, tp, all_axes, 1, "16 GPUs are two nodes of 8");
}

TEST_CASE("26.6: groups that begin between the axis' strides") {
  expect_link(llama3_24k(), {.tp = 5, .pp = 2}, pp, all_axes, 1,
              "the group of GPUs 0 and 5 stays in the node of 8, that of GPUs 3 and 8 does not");
}

TEST_CASE("26.6: axes in another order") {
  const Cluster c = llama3_24k();
  const Order pp_inside = {pp, tp, cp, ep, fsdp, dp};
  const MeshShape shape{.tp = 8, .pp = 4, .dp_shard = 8};
  expect_link(c, shape, pp, pp_inside, 0, "pp is the innermost axis of this order");
  expect_link(c, shape, tp, pp_inside, 2, "4 stages inside of it spread tp over 32 GPUs");
}

TEST_CASE("26.7: each axis' bytes over its own link") {
  const Cluster c = llama3_24k();
  const MeshShape shape{.tp = 8, .cp = 1, .pp = 16, .dp_shard = 128};
  const double got = solution.seconds(c, shape, {450e9, 7e9, 50e9, 0, 50e9, 0}, all_axes);
  expect(std::abs(got - 9) < 1e-9,
         fmt::format(
             "450 GB over tp, 50 GB over pp, 50 GB over fsdp: {:.4g} s, expected 1 + 1 + 7 = 9 s"
             "{}",
             got,
             std::abs(got - 77) < 1e-6  ? "\n    all of it goes over the slowest link of all"
             : std::abs(got - 9) < 1e-3 ? "\n    latency is not counted here, but bytes times beta"
                                        : ""));
}

TEST_CASE("26.7: the order of the axes changes the links") {
  const Cluster c = cluster_named("h100x64");
  const double got = solution.seconds(c, {.tp = 8, .pp = 4}, {450e9, 0, 900e9, 0, 0, 0},
                                      {pp, tp, cp, ep, fsdp, dp});
  expect(
      std::abs(got - 11) < 1e-9,
      fmt::format("450 GB over tp and 900 GB over pp, with pp innermost: {:.4g} s, expected "
                  "9 + 2 = 11 s\n    pp stays in the node now, and tp leaves it: hand `order` on",
                  got));
}
