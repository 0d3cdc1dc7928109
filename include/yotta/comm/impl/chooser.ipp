// The bodies of comm/chooser.hpp.
#pragma once

#include "yotta/comm/chooser.hpp"

#include <cmath>
#include <limits>

#include "yotta/machine/pictures/timeline.hpp"

namespace yotta {

namespace detail {
// Seconds of body(world, data), where data has `bytes` bytes and no values (Device::meta).
template <class Body>
double seconds_of(const Cluster& cluster, int p, int64_t bytes, Body body, Where where) {
  const auto on_meta = [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor data = Tensor::empty({bytes}, DType::u8);
    body(world, Data(data));
  };
  return run_on(cluster, p, on_meta, {.trace = false, .share = false}, {}, where).seconds();
}

inline int ranks_per_node(const Cluster& cluster, int p) {
  return std::min(p, cluster.levels[0].chips);
}

// The seconds of those of `candidates` that p ranks can run, the fastest first.
template <class Seconds>
std::vector<AlgorithmTime> sorted_times(const Cluster& cluster, int p,
                                        std::initializer_list<Algorithm> candidates,
                                        Seconds seconds) {
  std::vector<AlgorithmTime> times;
  const int node = ranks_per_node(cluster, p);
  for (const Algorithm algorithm : candidates) {
    const bool by_node = algorithm == Algorithm::hierarchical || algorithm == Algorithm::pipelined;
    if ((by_node && p % node != 0) || (p == node && algorithm >= Algorithm::hierarchical)) continue;
    times.push_back({algorithm, seconds(CommOptions{algorithm, nullptr, node})});
  }
  std::sort(times.begin(), times.end(), [](const AlgorithmTime& a, const AlgorithmTime& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.algorithm < b.algorithm;
  });
  return times;
}
}  // namespace detail

YOTTA_INLINE double all_reduce_seconds(const Cluster& cluster, int p, int64_t bytes,
                                       CommOptions options, Where where) {
  const auto body = [&](Communicator& world, Data data) {
    world.all_reduce(data, ReduceOp::sum, options, where);
  };
  return detail::seconds_of(cluster, p, bytes, body, where);
}

YOTTA_INLINE std::vector<AlgorithmTime> all_reduce_times(const Cluster& cluster, int p,
                                                         int64_t bytes, Where where) {
  return detail::sorted_times(
      cluster, p,
      {Algorithm::ring, Algorithm::recursive_doubling, Algorithm::rabenseifner, Algorithm::tree,
       Algorithm::hierarchical, Algorithm::pipelined, Algorithm::multi_rail, Algorithm::naive},
      [&](CommOptions options) { return all_reduce_seconds(cluster, p, bytes, options, where); });
}

YOTTA_INLINE std::vector<AlgorithmTime> all_gather_times(const Cluster& cluster, int p,
                                                         int64_t bytes, Where where) {
  return detail::sorted_times(
      cluster, p,
      {Algorithm::ring, Algorithm::bruck, Algorithm::hierarchical, Algorithm::multi_rail},
      [&](CommOptions options) {
        const auto body = [&](Communicator& world, Data data) {
          world.all_gather(data, data.chunk(world.rank(), p), options, where);
        };
        return detail::seconds_of(cluster, p, bytes, body, where);
      });
}

YOTTA_INLINE std::vector<AlgorithmTime> reduce_scatter_times(const Cluster& cluster, int p,
                                                             int64_t bytes, Where where) {
  return detail::sorted_times(cluster, p,
                              {Algorithm::ring, Algorithm::recursive_halving,
                               Algorithm::hierarchical, Algorithm::multi_rail},
                              [&](CommOptions options) {
                                const auto body = [&](Communicator& world, Data data) {
                                  world.reduce_scatter(data.chunk(world.rank(), p), data,
                                                       ReduceOp::sum, options, where);
                                };
                                return detail::seconds_of(cluster, p, bytes, body, where);
                              });
}

YOTTA_INLINE CommOptions fastest(const std::vector<AlgorithmTime>& times, const Cluster& cluster,
                                 int p, Where where) {
  if (times.empty()) fail(where, "there is nothing to choose from: the list of times is empty");
  return {times[0].algorithm, nullptr, detail::ranks_per_node(cluster, p)};
}

YOTTA_INLINE int64_t crossover(const Cluster& cluster, int p, CommOptions small, CommOptions large,
                               Where where) {
  const auto is_large = [&](int64_t bytes) {
    return all_reduce_seconds(cluster, p, bytes, large, where) <=
           all_reduce_seconds(cluster, p, bytes, small, where);
  };
  int64_t below = 1, above = int64_t{1} << 40;
  if (is_large(below) || !is_large(above))
    fail(where, "{} and {} do not cross on {} with {} ranks: one is always faster",
         name(small.algorithm), name(large.algorithm), cluster.name, p);
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    (is_large(middle) ? above : below) = middle;
  }
  return above;
}

YOTTA_INLINE std::string times_picture(const Cluster& cluster, int p,
                                       const std::vector<CommOptions>& candidates, Where where) {
  constexpr int first = 6, last = 30, height = 14;  // sizes 2^first to 2^last
  std::vector<std::vector<double>> times(candidates.size());
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (size_t i = 0; i < candidates.size(); ++i)
    for (int size = first; size <= last; ++size) {
      times[i].push_back(all_reduce_seconds(cluster, p, int64_t{1} << size, candidates[i], where));
      least = std::min(least, times[i].back());
      most = std::max(most, times[i].back());
    }
  std::vector<std::string> lines(height, std::string(2 * (last - first) + 1, ' '));
  for (size_t i = 0; i < candidates.size(); ++i)
    for (size_t x = 0; x < times[i].size(); ++x) {
      const double from_top = std::log(most / times[i][x]) / std::log(most / least);
      char& cell = lines[static_cast<size_t>(std::lround(from_top * (height - 1)))][2 * x];
      cell = cell == ' ' ? static_cast<char>('a' + i) : '*';
    }
  std::string text;
  for (size_t y = 0; y < lines.size(); ++y) {
    lines[y].erase(lines[y].find_last_not_of(' ') + 1);
    const bool is_last = y + 1 == lines.size();
    const std::string label = y == 0 ? time_text(most) : is_last ? time_text(least) : "";
    text += fmt::format("{:>9} │ {}\n", label, lines[y]);
  }
  text += fmt::format("{:>9} └{:─>{}}\n{:12}{:<8}{:<20}{:<16}1 GiB\n", "", "",
                      2 * (last - first) + 2, "", "64 B", "1 KiB", "1 MiB");
  for (size_t i = 0; i < candidates.size(); ++i)
    text +=
        fmt::format("{:12}{} {}\n", "", static_cast<char>('a' + i), name(candidates[i].algorithm));
  return text;
}

}  // namespace yotta
