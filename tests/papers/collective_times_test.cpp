// The published times of collectives, in seconds: every algorithm is run under the virtual clock
// and takes exactly as long as its closed form says. Thakur, Rabenseifner, Gropp 2005; Chan et al.
// 2007; Bruck et al. 1997; Patarasu & Yuan 2009. Where the published form holds for powers of two
// only, the other p are held against what follows round by round: two ranks that exchange go on
// when both directions are done.
#include <doctest/doctest.h>

#include "support/near.hpp"
#include "yotta/comm/collectives_bruck.hpp"
#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/comm/collectives_hierarchical.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_tree.hpp"
#include "yotta/comm/run_on.hpp"

using namespace yotta;
using yotta_test::check_seconds;

namespace {

constexpr int64_t n = 5040;  // f32; divides by 2 to 9 and by 16: no chunk is longer than another
constexpr double N = 4 * n;
constexpr AlphaBeta net{3e-6, 1 / 7e9, 1 / 11e9};

Cluster machine() {
  Cluster made = ideal(16);
  made.levels[0].alpha = net.alpha;
  made.levels[0].beta = net.beta;
  made.gamma = net.gamma;
  return made;
}

// Each rank's arrays, on meta: shapes only.
struct Arrays {
  explicit Arrays(int p)
      : all(Tensor::empty({n})), out(Tensor::empty({n})), chunk(Tensor::empty({n / p})) {}
  Tensor all, out, chunk;
};

template <class Body>
double seconds(int p, Body body) {
  const auto on_meta = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Arrays arrays(p);
    body(world, arrays);
  };
  return run_on(machine(), p, on_meta, {.trace = false}).seconds();
}

using C = Communicator;
double all_reduce(int p, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.all_reduce(x.all, ReduceOp::sum, {a}); });
}
double reduce_scatter(int p, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.reduce_scatter(x.chunk, x.all, ReduceOp::sum, {a}); });
}
double all_gather(int p, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.all_gather(x.all, x.chunk, {a}); });
}
double all_to_all(int p, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.all_to_all(x.out, x.all, {a}); });
}
double broadcast(int p, int root, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.broadcast(x.all, root, {a}); });
}
double reduce(int p, int root, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.reduce(x.all, root, ReduceOp::sum, {a}); });
}
double gather(int p, int root, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.gather(x.all, x.chunk, root, {a}); });
}
double scatter(int p, int root, Algorithm a) {
  return seconds(p, [=](C& w, Arrays& x) { w.scatter(x.chunk, x.all, root, {a}); });
}
double barrier(int p, Algorithm a) {
  return seconds(p, [=](C& w, Arrays&) { w.barrier({a}); });
}

double message(double bytes) { return net.alpha + bytes * net.beta; }

// When every rank is done with the ring's all_gather, given when it began.
std::vector<double> ring_from(std::vector<double> t) {
  const int p = static_cast<int>(t.size());
  for (int step = 1; step < p; ++step) {
    const std::vector<double> before = t;
    for (int r = 0; r < p; ++r) {
      const auto i = static_cast<size_t>(r), left = static_cast<size_t>(wrap(r - 1, p));
      t[i] = std::max(before[i], before[left]) + message(N / p);
    }
  }
  return t;
}

// When each rank (counted from the root) of a binomial scatter has its chunk and has passed on the
// rest.
void scatter_from(int v, int span, double time, std::vector<double>& t) {
  const int p = static_cast<int>(t.size());
  for (int distance = span / 2; distance > 0; distance /= 2) {
    if (v + distance >= p) continue;
    time += message(N / p * std::min(distance, p - v - distance));
    scatter_from(v + distance, distance, time, t);
  }
  t[static_cast<size_t>(v)] = time;
}
double last(const std::vector<double>& t) { return *std::max_element(t.begin(), t.end()); }

// Teams that exchange with partner v ^ distance: bytes(v, distance) is what team v sends.
// `reduces`: each then adds what it got.
template <class Bytes>
void exchange(std::vector<double>& t, int distance, Bytes bytes, bool reduces) {
  const std::vector<double> before = t;
  for (size_t v = 0; v < t.size(); ++v) {
    const size_t other = v ^ static_cast<size_t>(distance);
    const double in = bytes(static_cast<int>(other), distance);
    const double arrived = std::max(before[v], before[other]) + message(in);
    t[v] = std::max(arrived, before[v] + message(bytes(static_cast<int>(v), distance)));
    if (reduces) t[v] += in * net.gamma;
  }
}

}  // namespace

TEST_CASE("any p: ring, trees, chain, pairwise, dissemination, Bruck, naive") {
  for (int p = 2; p <= 9; ++p) {
    CAPTURE(p);
    const double share = (p - 1.0) / p * N;
    check_seconds(all_reduce(p, Algorithm::ring),
                  2 * (p - 1) * net.alpha + 2 * share * net.beta + share * net.gamma);
    check_seconds(reduce_scatter(p, Algorithm::ring),
                  (p - 1) * net.alpha + share * (net.beta + net.gamma));
    check_seconds(all_gather(p, Algorithm::ring), (p - 1) * net.alpha + share * net.beta);
    check_seconds(all_gather(p, Algorithm::bruck), ceil_log2(p) * net.alpha + share * net.beta);
    check_seconds(all_to_all(p, Algorithm::pairwise), (p - 1) * net.alpha + share * net.beta);
    check_seconds(barrier(p, Algorithm::dissemination), ceil_log2(p) * net.alpha);
    for (const int root : {0, p - 1}) {
      const double tree = ceil_log2(p) * message(N);
      check_seconds(broadcast(p, root, Algorithm::tree), tree);
      check_seconds(reduce(p, root, Algorithm::tree), tree + ceil_log2(p) * N * net.gamma);
      check_seconds(broadcast(p, root, Algorithm::chain), (p + 16 - 2) * message(N / 16));
      check_seconds(broadcast(p, root, Algorithm::naive), broadcast_naive_seconds(p, N, net));
      check_seconds(reduce(p, root, Algorithm::naive), reduce_naive_seconds(p, N, net));
      check_seconds(gather(p, root, Algorithm::naive), (p - 1) * message(N / p));
      check_seconds(scatter(p, root, Algorithm::naive), (p - 1) * message(N / p));
    }
    check_seconds(all_reduce(p, Algorithm::tree), ceil_log2(p) * (2 * message(N) + N * net.gamma));
    check_seconds(all_reduce(p, Algorithm::naive), all_reduce_naive_seconds(p, N, net));
    check_seconds(all_gather(p, Algorithm::naive), (p - 1) * (message(N / p) + message(N)));
    check_seconds(reduce_scatter(p, Algorithm::naive),
                  (p - 1) * (message(N) + N * net.gamma + message(N / p)));
    check_seconds(barrier(p, Algorithm::naive), 2 * (p - 1) * net.alpha);
  }
}

TEST_CASE("powers of two: recursive doubling and halving, Rabenseifner, gather, scatter, Bruck") {
  for (const int p : {2, 4, 8, 16}) {
    CAPTURE(p);
    const double lg = ceil_log2(p), share = (p - 1.0) / p * N;
    check_seconds(all_reduce(p, Algorithm::recursive_doubling), lg * (message(N) + N * net.gamma));
    check_seconds(reduce_scatter(p, Algorithm::recursive_halving),
                  lg * net.alpha + share * (net.beta + net.gamma));
    check_seconds(all_gather(p, Algorithm::recursive_doubling), lg * net.alpha + share * net.beta);
    check_seconds(all_reduce(p, Algorithm::rabenseifner),
                  2 * lg * net.alpha + 2 * share * net.beta + share * net.gamma);
    check_seconds(gather(p, 0, Algorithm::tree), lg * net.alpha + share * net.beta);
    check_seconds(scatter(p, 1, Algorithm::tree), lg * net.alpha + share * net.beta);
    check_seconds(all_to_all(p, Algorithm::bruck), lg * message(N / 2));
    check_seconds(broadcast(p, 0, Algorithm::scatter_all_gather),
                  (lg + p - 1) * net.alpha + 2 * share * net.beta);
  }
}

TEST_CASE("other p: a folded all_reduce pays one exchange more at each end") {
  for (const int p : {3, 5, 6, 7, 9}) {
    CAPTURE(p);
    const int q = floor_power(p);
    const double lg = ceil_log2(q), share = (q - 1.0) / q * N;
    const double fold = 2 * message(N) + N * net.gamma;
    check_seconds(all_reduce(p, Algorithm::recursive_doubling),
                  fold + lg * (message(N) + N * net.gamma));
    check_seconds(all_reduce(p, Algorithm::rabenseifner),
                  fold + 2 * lg * net.alpha + 2 * share * net.beta + share * net.gamma);
  }
}

TEST_CASE("other p: folded reduce_scatter and all_gather, round by round") {
  for (const int p : {3, 5, 6, 7, 9}) {
    CAPTURE(p);
    const Fold fold(p, 0);
    const auto cut = [&](int v) { return N / p * fold.first_rank(v); };
    const auto bytes_of_teams = [&](TeamRange teams) { return cut(teams.end) - cut(teams.begin); };
    const auto is_pair = [&](int v) { return v < fold.extra; };
    std::vector<double> halves(static_cast<size_t>(fold.q)), doubles = halves;
    for (int v = 0; v < fold.extra; ++v)
      halves[static_cast<size_t>(v)] = message(N) + N * net.gamma;
    for (int distance = fold.q / 2; distance > 0; distance /= 2)
      exchange(
          halves, distance, [&](int v, int d) { return bytes_of_teams(teams_around(v ^ d, d)); },
          true);
    for (int v = 0; v < fold.extra; ++v) doubles[static_cast<size_t>(v)] = message(N / p);
    for (int distance = 1; distance < fold.q; distance *= 2)
      exchange(
          doubles, distance, [&](int v, int d) { return bytes_of_teams(teams_around(v, d)); },
          false);
    for (int v = 0; v < fold.q; ++v) {
      if (is_pair(v)) halves[static_cast<size_t>(v)] += message(N / p);
      if (is_pair(v)) doubles[static_cast<size_t>(v)] += message(N);
    }
    check_seconds(reduce_scatter(p, Algorithm::recursive_halving), last(halves));
    check_seconds(all_gather(p, Algorithm::recursive_doubling), last(doubles));
  }
}

TEST_CASE("other p: gather, scatter and what is built on them; Bruck's all_to_all") {
  for (const int p : {3, 5, 6, 7, 9}) {
    CAPTURE(p);
    std::vector<double> t(static_cast<size_t>(p));
    scatter_from(0, 1 << ceil_log2(p), 0, t);
    check_seconds(scatter(p, 0, Algorithm::tree), last(t));
    check_seconds(scatter(p, 1, Algorithm::tree), last(t));
    check_seconds(broadcast(p, 0, Algorithm::scatter_all_gather), last(ring_from(t)));
    double blocks = 0;  // that move in Bruck's rounds: one for each 1 in the number of each block
    for (int j = 1; j < p; ++j) blocks += std::popcount(static_cast<unsigned>(j));
    check_seconds(all_to_all(p, Algorithm::bruck),
                  ceil_log2(p) * net.alpha + blocks * N / p * net.beta);
  }
}
