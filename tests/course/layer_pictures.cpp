// The pictures of layers: what to keep of one for backward (lesson 05), masks as tiles (08), a
// block, online softmax and rope (12), two ranks with f and g (20), ring attention (23), Ulysses
// (24), experts (25). The files are what the programs draw; what they say is what the layers hold,
// keep and send; and they can be read.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <regex>
#include <set>

#include "course/options/console.hpp"
#include "course/pictures/async_tp_picture.hpp"
#include "course/pictures/attention_picture.hpp"
#include "course/pictures/block_picture.hpp"
#include "course/pictures/capacity_loss_picture.hpp"
#include "course/pictures/cut_picture.hpp"
#include "course/pictures/expert_parallel_picture.hpp"
#include "course/pictures/flash_picture.hpp"
#include "course/pictures/mask_picture.hpp"
#include "course/pictures/mesh_picture.hpp"
#include "course/pictures/ring_picture.hpp"
#include "course/pictures/sequence_parallel_picture.hpp"
#include "course/pictures/tensor_parallel_picture.hpp"
#include "course/pictures/ulysses_picture.hpp"
#include "runner/exercise.hpp"
#include "yotta/parallel/ring_attention.hpp"

using namespace yotta;

namespace {

const std::string root = YOTTA_SOURCE_DIR;

std::string file_of(const char* name) {
  return runner::read_text(root + "/course/pictures/" + name);
}
std::string page_of(const char* topic) {
  return runner::read_text(root + "/lessons/" + topic + "/README.md");
}
bool holds(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}
std::string size_text(int64_t bytes) { return console::bytes(static_cast<double>(bytes)); }

// At most 900 pixels wide, letters of 9 pixels or more, and no words beyond the paper (letters are
// about 0.58 of their size wide).
void check_readable(const std::string& svg) {
  std::smatch head;
  REQUIRE(std::regex_search(svg, head, std::regex("<svg [^>]*width=\"(\\d+)\" height=\"(\\d+)\"")));
  const double width = std::stod(head[1]), height = std::stod(head[2]);
  CHECK(width <= 900);
  const std::regex words(
      "<text x=\"(\\d+)\" y=\"(\\d+)\" text-anchor=\"(\\w+)\"[^>]*font-size=\"(\\d+)\"[^>]*>([^<]*)"
      "<");
  int found = 0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), words), end; at != end; ++at, ++found) {
    const double x = std::stod((*at)[1]), size = std::stod((*at)[4]);
    const double length = 0.58 * size * static_cast<double>((*at)[5].length());
    const double left = (*at)[3] == "start" ? x : x - length / 2;
    CHECK(size >= 9);
    CHECK_MESSAGE(left >= 4, (*at)[5].str());
    CHECK_MESSAGE(left + length <= width - 4, (*at)[5].str());
    CHECK_MESSAGE(std::stod((*at)[2]) <= height - 4, (*at)[5].str());
  }
  CHECK(found > 20);
  CHECK_FALSE(holds(svg, "nan"));
}

std::string minimum_cut() {
  const Joint joint = block_end_joint(64, 512);
  return cut_svg(joint, keep_least(joint));
}

}  // namespace

TEST_CASE("the files are what is drawn, and can be read") {
  struct Picture {
    const char *lesson, *file;
    std::string (*draw)();
  };
  for (const auto& [lesson, file, draw] :
       {Picture{"05_fusion", "minimum_cut.svg", minimum_cut},
        Picture{"07_flash_attention", "flash_attention.svg", flash_attention_svg},
        Picture{"07_flash_attention", "flash_bytes.svg",
                [] { return flash_bytes_svg(traffic_by_formula()); }},
        Picture{"08_flex_attention", "mask_tiles.svg", mask_tiles_svg},
        Picture{"12_transformer", "block.svg", block_svg},
        Picture{"12_transformer", "online_softmax.svg", online_softmax_svg},
        Picture{"12_transformer", "rope.svg", rope_svg},
        Picture{"20_tensor_parallel", "tensor_parallel.svg", tensor_parallel_svg},
        Picture{"21_sequence_parallel", "sequence_parallel.svg", sequence_parallel_svg},
        Picture{"21_sequence_parallel", "sequence_parallel_memory.svg",
                sequence_parallel_memory_svg},
        Picture{"22_async_tp", "async_tp_ring.svg", async_tp_ring_svg},
        Picture{"22_async_tp", "async_tp.svg", async_tp_svg},
        Picture{"23_ring_attention", "ring_attention.svg", ring_attention_svg},
        Picture{"24_ulysses", "ulysses.svg", ulysses_svg},
        Picture{"25_expert_parallel", "expert_parallel.svg", expert_parallel_svg},
        Picture{"25_expert_parallel", "expert_capacity.svg", expert_capacity_svg},
        Picture{"25_expert_parallel", "expert_capacity_loss.svg",
                [] { return capacity_loss_svg(stored_capacity_runs()); }},
        Picture{"25_expert_parallel", "expert_hot.svg", expert_hot_svg}}) {
    INFO(std::string(file));
    const std::string svg = draw();
    const bool same = file_of(file) == svg;
    CHECK_MESSAGE(same, fmt::format("./yotta lesson {:.2} -- --draw 1 writes it anew", lesson));
    CHECK(holds(page_of(lesson), fmt::format("](../../course/pictures/{})", file)));
    check_readable(svg);
  }
}

TEST_CASE("the two ranks share A's columns and B's rows, and the picture says which") {
  const TensorParallelShare first = tensor_parallel_share(0), second = tensor_parallel_share(1);
  const std::string svg = tensor_parallel_svg();
  CHECK(first.first_column == 0);
  CHECK(second.first_column == first.columns);
  CHECK(second.first_row == first.rows);
  CHECK(first.columns == first.rows);  // what comes out of A's columns goes into B's rows
  for (const auto& [rank, share] : {std::pair{0, first}, {1, second}}) {
    const int64_t last = share.first_column + share.columns - 1;
    CHECK(holds(svg, fmt::format(">A{}: columns {} to {}<", rank, share.first_column, last)));
    CHECK(holds(svg, fmt::format(">B{}: rows {} to {}<", rank, share.first_row, last)));
  }
}

TEST_CASE("g sends forward and f sends backward, as much as one all_reduce") {
  const std::string svg = tensor_parallel_svg();
  const size_t backward = svg.find(">backward<");
  REQUIRE(backward != std::string::npos);
  CHECK(svg.find(">g: all_reduce<") < backward);
  CHECK(svg.find(">f: nothing<") < backward);
  CHECK(holds(svg.substr(backward), ">f: all_reduce<"));
  CHECK(holds(svg.substr(backward), ">g: nothing<"));
  for (const int rank : {0, 1}) {
    const TensorParallelShare share = tensor_parallel_share(rank);
    CHECK(share.sent_forward == 8);  // 2 (p - 1) / p of 2 tokens of 4 numbers
    CHECK(share.sent_backward == 8);
  }
}

TEST_CASE(
    "with sequence parallelism two ranks share the tokens, and send what an all_reduce does") {
  const std::string svg = sequence_parallel_svg();
  const SequenceParallelShare first = sequence_parallel_share(0),
                              second = sequence_parallel_share(1);
  CHECK(first.first_token == 0);
  CHECK(second.first_token == first.tokens);
  CHECK(first.tokens + second.tokens == 6);
  for (const SequenceParallelShare& share : {first, second}) {
    CHECK(share.gathered + share.scattered == share.reduced);
    CHECK(share.reduced == 24);  // 2 (p - 1) / p of 6 tokens of 4 numbers
    CHECK(holds(svg, fmt::format(">all_gather: {} numbers<", share.gathered)));
    CHECK(holds(svg, fmt::format(">reduce_scatter: {} numbers<", share.scattered)));
    CHECK(holds(svg, fmt::format(">all_reduce: {} numbers<", share.reduced)));
  }
}

TEST_CASE("pieces: each rank multiplies each once, its own first or last, and in no more time") {
  for (const bool sums : {false, true})
    for (const Pieces pieces : {Pieces::one_way, Pieces::both_ways}) {
      const auto all = pieces_multiplied(async_tp_picture_ranks, pieces, sums);
      for (size_t rank = 0; rank < all.size(); ++rank) {
        CHECK(std::set<int>(all[rank].begin(), all[rank].end()).size() == all.size());
        CHECK(static_cast<size_t>(sums ? all[rank].back() : all[rank].front()) == rank);
      }
    }
  CHECK(seconds(async_tp_trace(Pieces::none, 0.75)) == doctest::Approx(6.25));
  CHECK(seconds(async_tp_trace(Pieces::one_way, 0.75)) == doctest::Approx(4));
  CHECK(seconds(async_tp_trace(Pieces::one_way, 1.5)) == doctest::Approx(5.5));
}

TEST_CASE("every row of the experts' picture comes to the rank that holds its expert, in order") {
  const std::vector<JourneyRank> ranks = expert_journey();
  REQUIRE(ranks.size() == 2);
  int64_t leaves = 0;
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(ranks[rank].leaving.size() == 6);
    for (const JourneyRow& row : ranks[rank].held) {
      CHECK(static_cast<size_t>(row.expert / 2) == rank);
      const auto& home = ranks[static_cast<size_t>(row.token / 3)].leaving;
      CHECK(std::count(home.begin(), home.end(), row) == 1);
      leaves += static_cast<size_t>(row.token / 3) != rank ? 1 : 0;
    }
    const auto by_expert = [](const JourneyRow& a, const JourneyRow& b) {
      return a.expert < b.expert;
    };
    CHECK(std::is_sorted(ranks[rank].held.begin(), ranks[rank].held.end(), by_expert));
  }
  CHECK(ranks[0].held.size() + ranks[1].held.size() == 12);
  CHECK(leaves == ranks[0].to[1] + ranks[1].to[0]);
}

TEST_CASE("a bias evens out the loads of the capacity's picture, and a hot expert takes longer") {
  const auto busiest = [](int batches) {
    const std::vector<int64_t> loads = router_loads(bias_router, batches).rows;
    CHECK(std::accumulate(loads.begin(), loads.end(), int64_t{0}) == 2048);
    return *std::max_element(loads.begin(), loads.end());
  };
  const int64_t first = busiest(0), later = busiest(10), last = busiest(50);
  CHECK((first > later && later > last));
  CHECK(last < 2 * 128);
  const Timed even = hot_expert_run(0), hot = hot_expert_run(0.5);
  CHECK(hot.seconds() > 2 * even.seconds());
  CHECK(hot.busy_share(0) > 0.9);
  CHECK(hot.busy_share(3) < 0.3);
}

TEST_CASE("a block keeps what its picture says, and the lesson names the same bytes") {
  const KeptByBlock kept = kept_by_block();
  const std::string svg = block_svg();
  int64_t sum = 0;
  for (const KeptRow& row : kept.rows)
    for (const int64_t bytes : row.bytes) sum += bytes;
  CHECK(sum == kept.after_forward);
  CHECK(kept.after_dgrad > kept.after_forward);  // x stays for W, and dy has come
  CHECK(holds(svg, fmt::format(">In all {}. After every I and<", size_text(kept.after_forward))));
  CHECK(holds(svg, size_text(kept.after_dgrad)));
  const std::string page = page_of("12_transformer");
  CHECK(holds(page, fmt::format("Kept in between: {},", size_text(kept.after_forward))));
}

TEST_CASE("in a block's picture h is the stream alone, and x the input of each operation") {
  const std::string svg = block_svg();
  CHECK(holds(svg, ">h = x + what came<"));
  CHECK(holds(svg, ">I: dx = dy gelu'(x)<"));
  CHECK(holds(svg, ">x 4.00 MiB<"));
  CHECK_FALSE(holds(svg, ">h 4.00 MiB<"));
}

TEST_CASE(
    "the picture of online softmax ends with the softmax of all keys, and agrees with lesson 12's "
    "table") {
  const std::vector<OnlineStep> steps = online_steps();
  REQUIRE(steps.size() == 3);
  const std::string page = page_of("12_transformer");
  for (const OnlineStep& step : steps) {
    double l = 0, o = 0;
    for (size_t j = 0; j < step.weights.size(); ++j) {
      l += std::exp(online_scores[j] - step.m);
      o += std::exp(online_scores[j] - step.m) * online_values[j];
    }
    CHECK(step.l == doctest::Approx(l).epsilon(1e-12));
    CHECK(step.o == doctest::Approx(o).epsilon(1e-12));
    CHECK(holds(page, fmt::format("first {:<4}  {:>4}  {:>15.4f}  {:>8.4f}  {:>8.4f}  {:>8.4f}",
                                  step.first + step.keys, step.m, step.kept, step.l, step.o,
                                  step.o / step.l)));
    CHECK(holds(online_softmax_svg(), fmt::format(">o / l = {:.4f}<", step.o / step.l)));
  }
}

TEST_CASE(
    "rope turns a pair by its position, keeps its length, and products depend on the distance "
    "alone") {
  for (const int64_t position : {0, 1, 5}) {
    const RopePair pair = turned_pair({1, 0}, 0, 16, position);
    CHECK(pair[0] == doctest::Approx(std::cos(static_cast<double>(position))));
    CHECK(pair[1] == doctest::Approx(std::sin(static_cast<double>(position))));
  }
  CHECK(holds(rope_svg(), ">0.316 radians a position<"));
  const auto product = [](int64_t at) {
    const RopePair q = turned_pair({1, 0}, 1, 16, at), k = turned_pair({0.8, -0.6}, 1, 16, at - 2);
    return q[0] * k[0] + q[1] * k[1];
  };
  CHECK(product(3) == doctest::Approx(product(9)).epsilon(1e-12));
  CHECK(holds(rope_svg(), fmt::format(">q at 9, k at 7: their product is {:.4f}<", product(3))));
}

TEST_CASE(
    "in every step of the ring each rank computes two squares, all of them its own queries'") {
  for (const int ranks : {2, 3, 4}) {
    std::map<std::pair<int, int>, double> seen;  // by rank and step
    for (const RingSquare& square : ring_squares(ranks)) {
      seen[{square.rank, square.step}] += square.seen();
      const bool own = square.query == chunk_of(ranks, square.rank, 0) ||
                       square.query == chunk_of(ranks, square.rank, 1);
      CHECK(own);
    }
    CHECK(static_cast<int>(seen.size()) == ranks * ranks);
    for (const auto& [where, squares] : seen) CHECK(squares == 2);
  }
  CHECK(holds(ring_attention_svg(),
              ">Each rank computes 8 of the 32 squares of the triangle, 2 in each"));
}

TEST_CASE("Ulysses' exchange gives each rank whole heads, and the way back its tokens") {
  const std::vector<Holders> holders = ulysses_holders();
  REQUIRE(holders.size() == 3);
  for (size_t token = 0; token < 8; ++token)
    for (size_t head = 0; head < 4; ++head) {
      CHECK(holders[0][token][head] == static_cast<int>(std::min(token, 7 - token)));
      CHECK(holders[1][token][head] == static_cast<int>(head));
    }
  CHECK(holders[2] == holders[0]);
}

TEST_CASE("lesson 26's pictures are what is drawn: the mesh of 16 GPUs, and FSDP mixed with tp") {
  const std::string page = page_of("26_nd_parallel");
  for (const auto& [file, svg] :
       {std::pair{"mesh.svg", mesh_svg()}, std::pair{"fsdp_tp_mixture.svg", mixture_svg()}}) {
    CHECK_MESSAGE(file_of(file) == svg,
                  fmt::format("./yotta lesson 26 -- --draw 1 writes {} into this folder", file));
    CHECK(holds(page, fmt::format("](../../course/pictures/{})", file)));
    check_readable(svg);
  }
  for (const char* words : {">GPU 13<", ">tp: GPUs 0 and 1<", ">cp: GPUs 0 and 2<",
                            ">pp: GPUs 0 and 4<", ">dp: GPUs 0 and 8<"})
    CHECK(holds(mesh_svg(), words));
  CHECK(holds(mixture_svg(), ">X_opt = 716<"));
}
