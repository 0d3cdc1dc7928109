// Pipelined hierarchical all_reduce: links inside the nodes and between them work at once.
//
// The problem: in a hierarchical all_reduce (collectives_hierarchical.hpp) the network cards wait
// for the links inside the node, and these for the cards. So cut the array into s segments that
// follow each other; while one crosses, the next is summed in the node, and one before is handed
// out. For k = 2 nodes a segment takes four rounds:
//
//     round       1     2     3     4     5     6     7
//     segment 0   in    x     x     out                     in    reduce_scatter inside
//     segment 1         in    x     x     out               x     one step of the ring between
//     segment 2               in    x     x     out               nodes: 2(k-1) of them
//     segment 3                     in    x     x     out   out   all_gather inside
//
// A round has the g - 1 steps of a ring inside. What crosses in a round is cut into g - 1 parts,
// one per step. In each step a rank does all that is due at once (Channel::exchange): up to two
// messages inside and 2(k-1) by its card.
//
// Cost, for N bytes, g ranks per node, k nodes, links i inside and o between, long pipelines:
//
//     messages  2 s k (g-1)      bytes sent: those of the hierarchical all_reduce
//     seconds   (s + 2k - 1) (g-1) max(a_i + 2 N/(s g) b_i,  a_o + 2(k-1) N/(s k g (g-1)) b_o)
//
// As s grows, this approaches the time of the slower of the two alone, but the latency of (s + 2k -
// 1) (g-1) steps grows too: for small arrays few segments are better, or none (hierarchical).
//
// Contract: g divides p; ranks 0 to g-1 are the first node. Any n. All ranks end with the same
// bits.
// Letters: channel.hpp; g, k as above.
// Reference: what NCCL does with its slices and steps, for rings; Jia et al. (2018) for the phases.
#pragma once

#include "yotta/comm/collectives_hierarchical.hpp"

namespace yotta {

// Segments of at most 32 MiB, and no more than 32.
constexpr int pipeline_segments(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(bytes >> 25, 1, 32));
}

// What a rank does with a segment: stage 0 inside, stages 1 to 2(k-1) between, then inside again.
struct SegmentStages {
  int p, rank, g;

  constexpr int nodes() const { return p / g; }
  constexpr int count() const { return 2 * nodes(); }
  constexpr bool is_inside(int stage) const { return stage == 0 || stage + 1 == count(); }
  // What arrives is added to what this rank has; else it is the sum already.
  constexpr bool adds(int stage) const { return stage < nodes(); }

  // What a rank sends and receives in a stage's step, 1 to g - 1. `in` is where what arrives
  // belongs.
  Exchange exchange(Data segment, int stage, int step) const {
    const int local = rank % g, node = rank / g;
    if (is_inside(stage)) {
      const int first = rank - local, round = adds(stage) ? step : step - 1;
      const auto chunk = [&](int of) { return segment.chunk(wrap(of, g), g); };
      return {chunk(local - round), first + wrap(local + 1, g), chunk(local - 1 - round),
              first + wrap(local - 1, g)};
    }
    const int round = adds(stage) ? stage : stage - nodes();
    const auto chunk = [&](int of) {
      return segment.chunk(local, g).chunk(wrap(of, nodes()), nodes()).chunk(step - 1, g - 1);
    };
    return {chunk(node - round), wrap(rank + g, p), chunk(node - 1 - round), wrap(rank - g, p)};
  }
};

// Every rank ends with the sum of all ranks' n elements, in place. g: ranks per node. segments: 0
// for pipeline_segments.
inline void all_reduce_pipelined(Channel& channel, Data data, ReduceOp op, int g, int segments = 0,
                                 Where where = Where::current()) {
  const SegmentStages stages{channel.size(), channel.rank(), g};
  expect_equal_nodes("all_reduce", stages.p, g, where);
  if (g == 1) return all_reduce_ring(channel, data, op);
  if (segments == 0) segments = pipeline_segments(data.nbytes());
  const int64_t inside = chunk_count(chunk_count(data.count, segments, 0), g, 0);
  const int64_t between = chunk_count(chunk_count(inside, stages.nodes(), 0), g - 1, 0);
  std::vector<Tensor> arriving;  // by stage
  for (int stage = 0; stages.adds(stage); ++stage)
    arriving.push_back(scratch(stage == 0 ? inside : between, data));
  for (int round = 0; round < segments + stages.count() - 1; ++round)
    for (int step = 1; step < g; ++step) {
      std::vector<Exchange> all;
      std::vector<std::pair<Data, ConstData>> sums;  // to, from
      for (int stage = 0; stage < stages.count(); ++stage) {
        const int segment = round - stage;
        if (segment < 0 || segment >= segments) continue;
        all.push_back(stages.exchange(data.chunk(segment, segments), stage, step));
        if (!stages.adds(stage)) continue;
        const Data place = all.back().incoming;
        all.back().incoming = Data(arriving[static_cast<size_t>(stage)]).part(0, place.count);
        sums.emplace_back(place, all.back().incoming);
      }
      channel.exchange(all);
      for (const auto& [to, from] : sums) reduce_into(to, from, op);
    }
}

// Exact cost: what rank `rank` sends.
constexpr Sent all_reduce_pipelined_sent(int p, int rank, int64_t n, int64_t width, int g,
                                         int segments) {
  if (g == 1) return all_reduce_ring_sent(p, rank, n, width);
  Sent sent{2 * int64_t{segments} * (p / g) * (g - 1), 0};
  for (int segment = 0; segment < segments; ++segment)
    sent.bytes +=
        all_reduce_hierarchical_sent(p, rank, chunk_count(n, segments, segment), width, g).bytes;
  return sent;
}

// For n that p times the segments times g - 1 divide. Its rounds follow one another; the first and
// the last do less.
constexpr double all_reduce_pipelined_seconds(int p, double bytes, int g, int segments,
                                              AlphaBeta inside, AlphaBeta between) {
  const SegmentStages stages{p, 0, g};
  const double in = bytes / segments / g, out = in / stages.nodes() / (g - 1);
  double seconds = 0;
  for (int round = 0; round < segments + stages.count() - 1; ++round) {
    int ins = 0, outs = 0;  // messages of a step
    for (int stage = 0; stage < stages.count(); ++stage)
      if (round >= stage && round - stage < segments) ++(stages.is_inside(stage) ? ins : outs);
    const double port = ins > 0 ? inside.alpha + ins * in * inside.beta : 0;
    const double card = outs > 0 ? between.alpha + outs * out * between.beta : 0;
    seconds += (g - 1) * std::max(port, card);
  }
  return seconds + (p - 1.0) / p * bytes * inside.gamma;
}

}  // namespace yotta
