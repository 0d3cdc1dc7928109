// The graded cases of exercise 22: pieces on 1 to 5 ranks, in f64, where they divide and where they
// do not; then on a clock.
#include <algorithm>
#include <array>

#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/nn/linear_ops.hpp"

using namespace yotta;
using exercise::expect;
using exercise::expect_equal;
using exercise::run;
using exercise::solution;
using exercise::with_cause;

namespace {

constexpr int64_t C = 3, O = 2;
constexpr int all_ranks[] = {2, 3, 4, 5, 1};
// Rows that p ranks divide, and rows that they do not.
std::array<int64_t, 2> all_rows(int p) { return {4 * p, 4 * p + 1}; }
constexpr Pieces both_kinds[] = {Pieces::one_way, Pieces::both_ways};

const char* name(Pieces pieces) { return pieces == Pieces::one_way ? "one way" : "both ways"; }

Tensor numbers(const Shape& shape, const std::string& name) {
  return exercise::normal_numbers(shape, 22, name);
}

// Rank r's rows of all.
Tensor own(const Tensor& all, int p, int r) {
  return all.rows(chunk_begin(all.dim(0), p, r), chunk_begin(all.dim(0), p, r + 1));
}

bool is_a_piece(const Tensor& piece, const Tensor& x, int p) {
  for (int r = 0; r < p; ++r)
    if (piece.shape() == own(x, p, r).shape() && piece.values() == own(x, p, r).values())
      return true;
  return false;
}

std::string case_of(const char* what, int64_t N, Pieces pieces, int p, int r) {
  return fmt::format("{} of {} rows, {}, on rank {} of {}", what, N, name(pieces), r, p);
}

// ---- the clock: a piece's matmul takes 1 s, a hop `hop` ----

constexpr int64_t rows = 8, width = 16;
// A link to each neighbour, as on a torus of one axis.
Cluster machine(int p, double hop) {
  Cluster ring = ideal(p, 2.0 * rows * width * width, 4.0 * rows * width / hop);
  ring.torus = {p};
  return ring;
}
double gather_seconds(int p, Pieces pieces, double hop) {
  return with_cause([&] {
    return run_on(
               machine(p, hop), p,
               [&](Communicator& tp) {
                 const DeviceScope meta(Device::meta);
                 const Tensor w = Tensor::empty({width, width});
                 solution.gather(Tensor::empty({rows, width}), p * rows, tp, pieces,
                                 [&](int64_t, const Tensor& x) { linear(x, w); });
               },
               {}, exercise::graded_run())
        .seconds();
  });
}
double sum_seconds(int p, Pieces pieces, double hop) {
  return with_cause([&] {
    return run_on(
               machine(p, hop), p,
               [&](Communicator& tp) {
                 const DeviceScope meta(Device::meta);
                 const Tensor w = Tensor::empty({width, width});
                 solution.sum(p * rows, tp, pieces, [&](int64_t, int64_t n) {
                   return linear(Tensor::empty({n, width}), w);
                 });
               },
               {}, exercise::graded_run())
        .seconds();
  });
}

// A gather with its matmul takes so long, and a matmul with its sum, but for the additions.
struct OnTheClock {
  int p;
  Pieces pieces;
  double hop, seconds;
};
constexpr OnTheClock clock_cases[] = {{2, Pieces::one_way, 0.75, 2},  {4, Pieces::one_way, 0.75, 4},
                                      {2, Pieces::one_way, 2, 3},     {4, Pieces::one_way, 2, 7},
                                      {4, Pieces::both_ways, 2, 5},   {5, Pieces::both_ways, 2, 6},
                                      {5, Pieces::both_ways, 0.75, 5}};
std::string case_of(const OnTheClock& c, double seen) {
  return fmt::format(
      "right values, but on a clock on which a piece's matmul takes 1 s and its hop "
      "{} s, {} ranks, {}, take {:.2f} s instead of {}",
      c.hop, c.p, name(c.pieces), seen, c.seconds);
}

}  // namespace

TEST_CASE("22.1: together the hops are p - 1, and both ways differ by one at most") {
  for (const int p : exercise::ranks({4, 5, 8, 3, 2, 1})) {
    const auto expected = [&](Pieces pieces, int right, int left) {
      const exercise::Hops hops = solution.reach_of(p, pieces);
      expect(
          hops.right == right && hops.left == left,
          fmt::format("hops on {} ranks, {}: {} to the right and {} to the left, expected {} and "
                      "{}. The pieces of p - 1 others must come",
                      p, name(pieces), hops.right, hops.left, right, left));
    };
    expected(Pieces::one_way, p - 1, 0);
    expected(Pieces::both_ways, p / 2, p - 1 - p / 2);
  }
}

TEST_CASE("22.2: every rank multiplies every piece once, and its rows stand in their places") {
  for (const Pieces pieces : both_kinds)
    for (const int p : all_ranks)
      for (const int64_t N : all_rows(p)) {
        const Tensor x = numbers({N, C}, "x"), w = numbers({O, C}, "w"), y = linear(x, w);
        const auto reports = run(p, [&](Communicator& tp) {
          const int r = tp.rank();
          Tensor product = Tensor::full({N, O}, 1e30, DType::f64);
          std::vector<int> seen(static_cast<size_t>(p));
          bool all_had_come = true;  // is each piece some rank's rows?
          const Tensor all =
              solution.gather(own(x, p, r), N, tp, pieces, [&](int64_t first, const Tensor& piece) {
                for (int of = 0; of < p; ++of)
                  if (first == chunk_begin(N, p, of)) ++seen[static_cast<size_t>(of)];
                all_had_come = all_had_come && is_a_piece(piece, x, p);
                if (first < 0 || first + piece.dim(0) > N) return;
                product.rows(first, first + piece.dim(0)).copy_from(linear(piece, w));
              });
          const std::string where = case_of("a gather", N, pieces, p, r);
          for (int of = 0; of < p; ++of)
            if (seen[static_cast<size_t>(of)] != 1)
              fail(Where::current(),
                   "{}: the piece of rank {} was multiplied {} times; each of the {} pieces is "
                   "multiplied once, the last one too",
                   where, of, seen[static_cast<size_t>(of)], p);
          if (!all_had_come)
            fail(Where::current(),
                 "{}: a piece was multiplied that is no rank's: it was still on its way. What a "
                 "step starts is multiplied in the next one, after hops.arrive()",
                 where);
          std::vector<Suspect> suspects;
          if (N % p == 0) {
            Tensor mirrored = y.clone(), same = y.clone();
            for (int far = 1; far < p; ++far) {
              own(mirrored, p, wrap(r - far, p)).copy_from(own(y, p, (r + far) % p));
              own(same, p, wrap(r - far, p)).copy_from(own(y, p, wrap(r - 1, p)));
            }
            suspects = {{"the pieces' rows in other ranks' places: what came from the left after s "
                         "hops began s ranks to the left, and its rows stand there",
                         mirrored.values()},
                        {"the left neighbour's own piece again and again: a hop passes on the "
                         "piece that came last",
                         same.values()}};
          }
          expect_equal(product, y, "the product of " + where, p, suspects);
          expect_equal(all, x, "what is returned by " + where, p);
        });
        for (const RankReport& report : reports) {
          const Traffic sent = report.ledger().total_traffic();
          expect(sent.messages_sent == p - 1,
                 fmt::format("right values, but a rank of {} sent {} messages: each piece hops "
                             "p - 1 times in all, one hop per rank and step",
                             p, sent.messages_sent));
        }
      }
  for (const OnTheClock& c : clock_cases) {
    const double seen = gather_seconds(c.p, c.pieces, c.hop);
    const char* const why =
        c.pieces == Pieces::both_ways
            ? "in each step start both hops, multiply both pieces, and only then wait"
        : c.hop < 1 ? "who waits before multiplying hides nothing"
                    : "start a hop in each step but the last";
    expect(std::abs(seen - c.seconds) < 0.01, fmt::format("{}: {}", case_of(c, seen), why));
  }
}

TEST_CASE("22.3: every rank gets the sums of its rows, added in the ring's order") {
  for (const Pieces pieces : both_kinds)
    for (const int p : all_ranks)
      for (const int64_t N : all_rows(p)) {
        const auto part = [&](int r) { return numbers({N, C}, fmt::format("part {}", r)); };
        Tensor sum = Tensor::zeros({N, C}, DType::f64);
        for (int r = 0; r < p; ++r) add_into(sum, part(r));
        const auto reports = run(p, [&](Communicator& tp) {
          const int r = tp.rank();
          const Tensor mine = part(r);
          std::vector<int64_t> order;
          const Tensor got = solution.sum(N, tp, pieces, [&](int64_t first, int64_t n) {
            order.push_back(first);
            return mine.rows(first, first + n).clone();
          });
          const std::string where = case_of("the sums", N, pieces, p, r);
          Tensor without = own(sum, p, r).clone();
          const Tensor ours = own(mine, p, r);
          for (int64_t i = 0; i < without.numel(); ++i)
            without.data<double>()[i] -= ours.data<double>()[i];
          std::vector<Suspect> suspects = {
              {"this rank's own part: nothing was added to it", ours.values()},
              {"the sum of the others' parts: this rank's own is missing", without.values()}};
          if (N % p == 0)
            suspects.push_back(
                {"the sums of the right neighbour's rows: the pieces are taken in "
                 "another order, and the sums end one rank too early",
                 own(sum, p, (r + 1) % p).values()});
          expect_equal(got, own(sum, p, r), where, p, suspects);
          for (int of = 0; of < p; ++of)
            if (const auto times = std::count(order.begin(), order.end(), chunk_begin(N, p, of));
                times != 1)
              fail(Where::current(),
                   "{}: right, but the rows of rank {} were multiplied {} times; once is enough",
                   where, of, times);
          if (order.back() != chunk_begin(N, p, r))
            fail(Where::current(),
                 "{}: right, but its own rows come last: they are what hides the last hop", where);
        });
        for (const RankReport& report : reports) {
          const Traffic sent = report.ledger().total_traffic();
          expect(sent.messages_sent == p - 1,
                 fmt::format("right sums, but a rank of {} sent {} messages: p - 1 sums leave it, "
                             "and its own stays",
                             p, sent.messages_sent));
        }
      }
  for (const int p :
       exercise::ranks({3, 4})) {  // 1e16 swallows a 1 that is added to it, so the order shows
    run(p, [&](Communicator& tp) {
      const double values[] = {1e16, 1, -1e16, 1};
      const double mine = values[tp.rank()];
      double ring = values[(tp.rank() + 1) % p];
      for (int far = 2; far <= p; ++far) ring = values[(tp.rank() + far) % p] + ring;
      const Tensor got = solution.sum(p, tp, Pieces::one_way, [&](int64_t, int64_t n) {
        return Tensor::full({n, 1}, mine, DType::f64);
      });
      if (got.item({0, 0}) != ring)
        fail(Where::current(),
             "the sum on rank {} of {} is {}, and {} in the ring's order: it begins with the next "
             "rank's part, and this rank adds its own last",
             tp.rank(), p, got.item({0, 0}), ring);
    });
  }
  for (const OnTheClock& c : clock_cases) {
    const double seen = sum_seconds(c.p, c.pieces, c.hop);
    const char* const why =
        c.pieces == Pieces::both_ways
            ? "in each step multiply for both sums, then wait for both, then send both"
            : "multiply first, then wait for the sum that is on its way";
    expect(std::abs(seen - c.seconds) < 0.2, fmt::format("{}: {}", case_of(c, seen), why));
  }
}

TEST_CASE("22.4: bytes are what a rank sends, of pieces that differ in size") {
  for (const Pieces pieces : both_kinds)
    for (const int p : exercise::ranks({2, 3, 4, 5, 8}))
      for (const int64_t N : {int64_t{40}, int64_t{13}})
        for (int r = 0; r < p; ++r) {
          // All pieces, its own twice if it goes both ways, but those of its two farthest
          // neighbours.
          const int far = pieces == Pieces::one_way ? 0 : (p - 1) / 2;
          const int64_t sent = N + chunk_count(N, p, r) - chunk_count(N, p, (r + far) % p) -
                               chunk_count(N, p, (r + far + 1) % p);
          const int64_t said = solution.bytes(p, r, N, 10, pieces);
          expect(said == 10 * sent,
                 fmt::format(
                     "{}: {} bytes of rows of 10, and {} are sent: the pieces that leave to the "
                     "right, and those that leave to the left",
                     case_of("a gather", N, pieces, p, r), said, 10 * sent));
        }
}

TEST_CASE("22.4: a message for each hop") {
  for (const Pieces pieces : both_kinds)
    for (const int p : exercise::ranks({1, 2, 3, 4, 5, 8})) {
      const int64_t said = solution.messages(p, 0, 40, 10, pieces);
      expect(said == p - 1,
             fmt::format("{}: {} messages, and a rank sends {}: as many as it has hops",
                         case_of("a gather", 40, pieces, p, 0), said, p - 1));
    }
}

TEST_CASE("22.5: seconds are those of the clock, with hops that hide and hops that do not") {
  struct Known {
    int p;
    Pieces pieces;
    double M, H, seconds;
  };
  const Known known[] = {{4, Pieces::one_way, 2, 1, 8},    {4, Pieces::one_way, 2, 3, 11},
                         {4, Pieces::both_ways, 2, 1, 8},  {4, Pieces::both_ways, 2, 3, 9},
                         {5, Pieces::both_ways, 2, 3, 11}, {5, Pieces::both_ways, 2, 7, 18},
                         {8, Pieces::both_ways, 1, 3, 13}, {1, Pieces::one_way, 2, 5, 2}};
  for (const Known& each : known) {
    const double said = solution.seconds(each.p, each.pieces, each.M, each.H);
    expect(std::abs(said - each.seconds) < 1e-12,
           fmt::format("{} ranks, {}, M {} and H {}: {} s, expected {}. A step takes the longer of "
                       "what is multiplied and what travels; in the last nothing travels",
                       each.p, name(each.pieces), each.M, each.H, said, each.seconds));
  }
}
