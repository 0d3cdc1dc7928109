// Torus rings: collectives that keep every link of a torus busy.
//
// A chip of a torus has two links per axis, one forward and one back; a ring along one axis uses
// one of them. So cut the array into as many parts as a chip has links and send each part its own
// way. The rings are those of collectives_ring.hpp, one per axis and direction. In every phase each
// part has one ring to itself:
//
//     4 x 4 chips: 4 rings, 4 parts         phase 0              phase 1
//
//               │ ▲                part 0   axis 0 forward       axis 1 forward
//        ◄──    ▼ │   ◄──          part 1   axis 0 back          axis 1 back
//        ──►  [ chip ]  ──►        part 2   axis 1 forward       axis 0 forward
//               │ ▲                part 3   axis 1 back          axis 0 back
//               ▼ │
//
// reduce_scatter goes along one axis after the other, each time over what the axis before has left,
// as the hierarchical all_reduce does. all_gather goes the same way back. all_reduce is both.
// N bytes, `a` axes of s chips, p = s^a ranks, d directions:
//
//                      messages      bytes sent    seconds
//     reduce_scatter   a d a (s-1)   (p-1)/p N     a (s-1) alpha + (p-1)/p N/(a d) (beta + gamma)
//     all_gather       a d a (s-1)   (p-1)/p N     a (s-1) alpha + (p-1)/p N/(a d) beta
//
// The bytes are those of one ring over all chips, but a d times as fast; only a (s-1) messages
// follow one another, not s^a - 1.
//
// Contract: the first axis counts fastest, as chips do in machine/cluster.hpp. Any n, chunks as
// Communicator cuts them. All ranks end with the same bits. An axis of 2 chips has one wire, not
// two: give it one direction. Memory: reduce_scatter and all_gather hold a copy of the array in
// which each chunk is padded to a multiple of the parts; the padding travels too.
// Letters: channel.hpp; a, s, d as above.
// Reference: Austin et al., "How to scale your model", 2025, chapter 3 (gathers over several axes
// of a TPU pod).
#pragma once

#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/comm/layouts/torus_shape.hpp"

namespace yotta {

class TorusRings {
 public:
  // All ranks of `world` call. Errors: more or fewer ranks than the torus has; two directions on an
  // axis of 2.
  TorusRings(const Communicator& world, TorusShape shape, Where where = Where::current())
      : TorusRings(std::move(shape), world.rank(where), where) {
    if (world.size(where) != shape_.ranks())
      fail(where, "a torus of {} chips needs as many ranks, not {}", shape_.ranks(),
           world.size(where));
    for (int ring = 0; ring < shape_.rings(); ++ring) {
      const int on_axis = rank_ / shape_.stride(ring) % shape_.length(ring);
      const int first = rank_ - on_axis * shape_.stride(ring);
      rings_.push_back(
          world.split(first, shape_.place(ring, rank_), where).named(shape_.name(ring)));
    }
  }

  // One live rank, on chip `chip`, stands for all of the torus (mirrored.hpp).
  static TorusRings mirrored(const Communicator& world, TorusShape shape, int chip = 0,
                             Where where = Where::current()) {
    TorusRings made(std::move(shape), chip, where);
    const TorusShape& torus = made.shape_;
    for (int ring = 0; ring < torus.rings(); ++ring) {
      const int length = torus.length(ring), step = torus.stride(ring);
      const int at = chip / step % length;  // on the axis
      std::vector<int> chips;
      for (int i = 0; i < length; ++i) {
        const int ahead = ring % torus.directions == 0 ? i : length - i;
        chips.push_back(chip + ((at + ahead) % length - at) * step);
      }
      made.rings_.push_back(world.mirrored(std::move(chips), where).named(torus.name(ring)));
    }
    return made;
  }
  const TorusShape& shape() const { return shape_; }

  // Every rank ends with the sum of all ranks' n elements, in place.
  void all_reduce(Data data, ReduceOp op = ReduceOp::sum, Where where = Where::current()) {
    std::vector<TorusCuts> parts;
    for (int part = 0; part < shape_.rings(); ++part)
      parts.push_back(shape_.cuts(rank_, part, data.chunk(part, shape_.rings())));
    scatter(parts, op, "all_reduce", where);
    gather(parts, "all_reduce", where);
    if (op == ReduceOp::mean) divide(data, shape_.ranks());
  }

  // Every rank ends with all n elements of `out`; `in` is this rank's chunk of them.
  void all_gather(Data out, ConstData in, Where where = Where::current()) {
    const int p = shape_.ranks();
    shape_.expect_chunk(rank_, in, out, "in", where);
    std::vector<Tensor> buffers = shape_.buffers(out);
    std::vector<TorusCuts> parts;
    for (int part = 0; part < shape_.rings(); ++part) {
      parts.push_back(shape_.cuts(rank_, part, buffers[static_cast<size_t>(part)]));
      const ConstData mine = shape_.piece_of(in, part, out.count);
      copy_data(mine, parts.back().back().part(0, mine.count));
    }
    gather(parts, "all_gather", where);
    for (int part = 0; part < shape_.rings(); ++part)
      for (int rank = 0; rank < p; ++rank) {
        const Data to = shape_.piece_of(out.chunk(rank, p), part, out.count);
        const Data all = buffers[static_cast<size_t>(part)];
        copy_data(all.chunk(shape_.slot(part, rank), p).part(0, to.count), to);
      }
  }

  // Rank r ends with chunk r of the sum. `in` has n elements, `out` those of this rank's chunk.
  void reduce_scatter(Data out, ConstData in, ReduceOp op = ReduceOp::sum,
                      Where where = Where::current()) {
    const int p = shape_.ranks();
    shape_.expect_chunk(rank_, out, in, "out", where);
    std::vector<Tensor> buffers = shape_.buffers(in);
    std::vector<TorusCuts> parts;
    for (int part = 0; part < shape_.rings(); ++part) {
      const Data all = buffers[static_cast<size_t>(part)];
      parts.push_back(shape_.cuts(rank_, part, all));
      for (int rank = 0; rank < p; ++rank) {
        const ConstData from = shape_.piece_of(in.chunk(rank, p), part, in.count);
        copy_data(from, all.chunk(shape_.slot(part, rank), p).part(0, from.count));
      }
    }
    scatter(parts, op, "reduce_scatter", where);
    for (int part = 0; part < shape_.rings(); ++part) {
      const Data mine = shape_.piece_of(out, part, in.count);
      copy_data(parts[static_cast<size_t>(part)].back().part(0, mine.count), mine);
    }
    if (op == ReduceOp::mean) divide(out, p);
  }

 private:
  TorusRings(TorusShape shape, int rank, Where where) : shape_(std::move(shape)), rank_(rank) {
    if (shape_.axes.empty()) fail(where, "a torus has at least one axis");
    if (shape_.directions != 1 && shape_.directions != 2)
      fail(where, "a ring has 1 or 2 directions, not {}", shape_.directions);
    for (const int length : shape_.axes)
      if (length < 1 || (length == 2 && shape_.directions == 2))
        fail(where, "an axis of {} chips has no ring of {} directions", length, shape_.directions);
  }
  void scatter(const std::vector<TorusCuts>& parts, ReduceOp op, const char* label, Where where) {
    const ReduceOp sum = op == ReduceOp::mean ? ReduceOp::sum : op;
    for (int phase = 0; phase < shape_.axis_count(); ++phase)
      each_part(phase, [&](int part, Communicator& ring) {
        const TorusCuts& cuts = parts[static_cast<size_t>(part)];
        const auto i = static_cast<size_t>(phase);
        return ring.reduce_scatter_async(cuts[i + 1], cuts[i], sum, {Algorithm::ring, label},
                                         where);
      });
  }
  void gather(const std::vector<TorusCuts>& parts, const char* label, Where where) {
    for (int phase = shape_.axis_count() - 1; phase >= 0; --phase)
      each_part(phase, [&](int part, Communicator& ring) {
        const TorusCuts& cuts = parts[static_cast<size_t>(part)];
        const auto i = static_cast<size_t>(phase);
        return ring.all_gather_async(cuts[i], cuts[i + 1], {Algorithm::ring, label}, where);
      });
  }
  template <class Start>
  void each_part(int phase, Start start);

  TorusShape shape_;
  int rank_;
  std::vector<Communicator> rings_;
};

// Exact costs: what rank `rank` sends in an all_reduce of n elements of `width` bytes.
inline Sent all_reduce_torus_sent(const TorusShape& shape, int rank, int64_t n, int64_t width) {
  Sent sent;
  for (int part = 0; part < shape.rings(); ++part) {
    int64_t left = chunk_count(n, shape.rings(), part);
    for (int phase = 0; phase < shape.axis_count(); ++phase) {
      const int ring = shape.ring(part, phase), s = shape.length(ring);
      const int place = shape.place(ring, rank);
      sent = sent + all_reduce_ring_sent(s, place, left, width);
      left = chunk_count(left, s, place);
    }
  }
  return sent;
}

// The same for an all_gather or a reduce_scatter of n elements.
inline Sent all_gather_torus_sent(const TorusShape& shape, int64_t n, int64_t width) {
  Sent sent{0, shape.rings() * (shape.ranks() - 1) * shape.piece(n) * width};
  for (const int length : shape.axes) sent.messages += shape.rings() * (length - 1);
  return sent;
}

// Published costs, if p times the number of parts divides n: `axes` axes of `side` chips each.
constexpr double all_gather_torus_seconds(int side, int axes, int directions, double bytes,
                                          AlphaBeta link) {
  double p = 1;
  for (int axis = 0; axis < axes; ++axis) p *= side;
  return axes * (side - 1) * link.alpha + (p - 1) / p * bytes / (axes * directions) * link.beta;
}
constexpr double reduce_scatter_torus_seconds(int side, int axes, int directions, double bytes,
                                              AlphaBeta link) {
  return all_gather_torus_seconds(side, axes, directions, bytes,
                                  {link.alpha, link.beta + link.gamma});
}
constexpr double all_reduce_torus_seconds(int side, int axes, int directions, double bytes,
                                          AlphaBeta link) {
  return reduce_scatter_torus_seconds(side, axes, directions, bytes, link) +
         all_gather_torus_seconds(side, axes, directions, bytes, link);
}

// All parts at once, one phase after the other.
template <class Start>
void TorusRings::each_part(int phase, Start start) {
  std::vector<Work> works;
  for (int part = 0; part < shape_.rings(); ++part)
    works.push_back(start(part, rings_[static_cast<size_t>(shape_.ring(part, phase))]));
  for (Work& work : works) work.wait();
}

}  // namespace yotta
