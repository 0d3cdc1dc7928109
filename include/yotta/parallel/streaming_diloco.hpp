// What DiLoCo's workers exchange (diloco.hpp): which weights travel together, and in how many bits.
//
// Fragments: the weights of a rank as a few long arrays. Each has its turn, so that traffic has no
// peak.
//
//     optimizer's slots     w0      b0   w1      b1   w2      b2     weights, f32 masters of bf16
//     2 fragments           [ w0 b0 w1 ]   [ b1 w2 b2 ]                 about the same size each
//     of each               outer (n)      where the workers last agreed
//                           momentum (n)   where they were heading
//
// Few bits: an outer gradient on its way between cities is rounded to 8 or 4 bits.
//
//     numbers    0.12 -0.50  0.31 ... | 0.02  0.01 -0.07 ... |      blocks of 128
//     scale      0.50 / 7             | 0.07 / 7             |      f32, one for each block
//     codes         2    -7     4     |    2     1    -7     |      4 bits: -7 to 7; 8: -127 to 127
//
// A number comes back as code times scale, off by half a scale at most. The largest number of a
// block sets its scale, so that one large number makes the numbers beside it coarse: hence blocks.
//
// What rounding takes off is small, but it is biased: a number below half a scale is rounded to
// zero in every round, and its weight never moves. Error feedback keeps what was taken off and adds
// it to the next number. After some rounds the sum is large enough to be sent:
//
//     number   0.3  0.3  0.3  0.3       a scale of 1
//     sent     0    0    0    0         without feedback: nothing, ever
//     sent     0    1    0    0         with it: 0.3, 0.6 -> 1, -0.1, 0.2, ...: the sum is right
//
// Memory: two numbers for each weight; a third while a mean is on its way. Bytes of n packed
// numbers: n bits / 8 + 4 n / 128: of f32 a 3.9th with 8 bits, a 7.5th with 4.
// Contract: all slots hold one type. The slots must outlive their fragments.
// References: Douillard et al. (2025), Streaming DiLoCo (fragments; 4 bits, there floats); Seide et
// al. (2014), 1-bit SGD (error feedback); Karimireddy et al. (2019), "Error Feedback Fixes
// SignSGD".
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include "yotta/comm/channel.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/nn/optimizer.hpp"

namespace yotta {

// Throws unless outer weights can move by this rate, with this momentum. The rate is above 0 and
// finite in f32 too.
inline void expect_outer_step(double rate, double momentum, Where where) {
  using Float = std::numeric_limits<float>;
  if (!(rate >= Float::min() && rate <= Float::max()) || !(momentum >= 0 && momentum < 1))
    fail(where,
         "an outer rate of {} and a momentum of {}: the rate is above 0 and finite, the momentum "
         "from 0 to below 1",
         rate, momentum);
}

// ---- fragments ----

// What rounding has taken off so far: of what this worker sends, and of its chunk of the mean.
struct Lost {
  Tensor sent, mean;  // (n), (n/k); undefined: no feedback
};

struct OuterFragment {
  std::vector<Optimizer::Slot*> slots;
  Tensor outer, momentum;  // (n)
  Tensor moving;           // on its way: (n + 1) a weighted sum and its weight, or (n) gradients
  Lost lost;
  double weight = 0;  // what this worker has trained on since the last mean, and in how many steps
  int64_t steps = 0;
  int64_t left = 0;  // inner steps until the mean must be there; 0: none is on its way
  Work work;

  int64_t size() const { return outer.numel(); }  // n
  // Copies the slots' weights to the first n numbers of `to`.
  void copy_weights(Tensor& to) const {
    int64_t begin = 0;
    for (Optimizer::Slot* slot : slots) {
      const int64_t end = begin + slot->weight().numel();
      Tensor part = to.rows(begin, end);
      part.copy_from(slot->weight().reshape({-1}));
      begin = end;
    }
  }

  // The slots' weights become keep * their own + (1 - keep) * outer.
  void set_weights(double keep) const {
    int64_t begin = 0;
    for (Optimizer::Slot* slot : slots) {
      Tensor& own = slot->weight();
      const int64_t first = std::exchange(begin, begin + own.numel());
      if (own.device() == Device::meta) continue;
      visit_real(own.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
        const Real* const to = outer.data<Real>() + first;
        const Real stays = static_cast<Real>(keep);
        for (int64_t i = 0; i < own.numel(); ++i)
          own.data<Real>()[i] = stays * own.data<Real>()[i] + (1 - stays) * to[i];
      });
      if (slot->master.defined()) slot->parameter->value.copy_from(slot->master);
    }
  }

  // The slots' weights and `outer` change places; a second call undoes it. To average `outer`.
  void exchange() {
    if (outer.device() == Device::meta) return;
    const Tensor agreed = outer.clone();
    copy_weights(outer);
    int64_t begin = 0;
    for (Optimizer::Slot* slot : slots) {
      const int64_t first = std::exchange(begin, begin + slot->weight().numel());
      slot->weight().copy_from(agreed.rows(first, begin).reshape(slot->weight().shape()));
    }
  }

  // A worker that was away: its weights are `outer`, and it has trained on nothing.
  void begin_again() {
    set_weights(0);
    weight = 0;
    steps = 0;
  }

  // Forgets what rounding has taken off: for a new set of workers.
  void forget_lost(const Communicator& workers) {
    const MemoryScope memory(MemoryKind::optimizer);
    const int64_t mine = chunk_count(size(), workers.size(), workers.rank());
    lost = {Tensor::zeros({size()}, outer.dtype()), Tensor::zeros({mine}, outer.dtype())};
  }
};

namespace detail {

inline void make_outer(OuterFragment& fragment, Where where) {
  const MemoryScope memory(MemoryKind::optimizer);
  const Tensor& first = fragment.slots.front()->weight();
  const DeviceScope device(first.device());
  int64_t n = 0;
  for (Optimizer::Slot* slot : fragment.slots) {
    n += slot->weight().numel();
    if (slot->weight().dtype() != first.dtype())
      fail(where, "{} is {}, and {} is {}; what is averaged in one piece has one type",
           slot->parameter->name, name(slot->weight().dtype()),
           fragment.slots.front()->parameter->name, name(first.dtype()));
  }
  fragment.outer = Tensor::zeros({n}, first.dtype());
  fragment.momentum = Tensor::zeros({n}, first.dtype());
  fragment.copy_weights(fragment.outer);
}

}  // namespace detail

// Cuts the slots into runs of about the same size. `outer` is what the weights are; the momentum is
// zero. Errors: no slots; fewer than one fragment, or more than slots; slots of two types.
inline std::deque<OuterFragment> cut_into_fragments(std::vector<Optimizer::Slot>& slots,
                                                    int fragments, Where where = Where::current()) {
  const int64_t count = std::ssize(slots);
  if (fragments < 1 || fragments > count)
    fail(where, "{} fragments of {} weights; each has one at least", fragments, count);
  int64_t all = 0, before = 0;
  for (Optimizer::Slot& slot : slots) all += slot.weight().numel();
  std::deque<OuterFragment> made;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begun = std::ssize(made);
    const bool full = before >= chunk_begin(all, fragments, begun);
    const bool must = count - i <= fragments - begun;  // each that is left needs a slot
    if (begun < fragments && (full || must)) made.emplace_back();
    made.back().slots.push_back(&slots[static_cast<size_t>(i)]);
    before += slots[static_cast<size_t>(i)].weight().numel();
  }
  for (OuterFragment& fragment : made) detail::make_outer(fragment, where);
  return made;
}

// ---- few bits ----

inline constexpr int64_t numbers_per_scale = 128;

// Bytes that n numbers take on their way, packed with `bits` (8 or 4) each.
constexpr int64_t packed_bytes(int64_t n, int bits) {
  const int64_t scales = (n + numbers_per_scale - 1) / numbers_per_scale;
  return 4 * scales + (n * bits + 7) / 8;
}

namespace detail {

inline void expect_packed(const char* what, const Tensor& x, int bits, const Tensor& packed,
                          Where where) {
  if (bits != 8 && bits != 4) fail(where, "{} with {} bits; there are 8 and 4", what, bits);
  expect_shape(what, "the packed bytes", packed, {packed_bytes(x.numel(), bits)}, where);
}

// The largest |code|: 127 or 7.
constexpr int largest_code(int bits) { return (1 << (bits - 1)) - 1; }

// One scale for x[0] to x[count - 1]; NaN if one of them is not finite.
template <class Real>
float scale_of(const Real* x, int64_t count, int bits) {
  Real largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(x[i])) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, std::abs(x[i]));
  }
  return static_cast<float>(largest) / static_cast<float>(largest_code(bits));
}

// Code i, as bits of a byte or half of one; the lower half comes first.
inline void put_code(uint8_t* codes, int64_t i, int bits, int code) {
  if (bits == 8) {
    codes[i] = static_cast<uint8_t>(code);
  } else {
    const int shift = i % 2 == 0 ? 0 : 4;
    const int other = i % 2 == 0 ? 0 : codes[i / 2];
    codes[i / 2] = static_cast<uint8_t>(other | ((code & 15) << shift));
  }
}

// Those of x[begin] to x[end - 1]; 0 if the scale is that of zeros, or NaN.
template <class Real>
void put_codes(const Real* x, int64_t begin, int64_t end, int bits, float scale, uint8_t* codes) {
  for (int64_t i = begin; i < end; ++i)
    put_code(codes, i, bits, scale > 0 ? static_cast<int>(std::lround(x[i] / scale)) : 0);
}

}  // namespace detail

// x (n), f32 or f64, packed into `to` (packed_bytes) u8. A block with a number that is not finite
// comes back as NaN.
inline void pack(const Tensor& x, int bits, Tensor& to, Where where = Where::current()) {
  detail::expect_packed("pack", x, bits, to, where);
  const auto n = static_cast<double>(x.numel());
  charge({"pack", x.dtype(), 3 * n, static_cast<double>(x.nbytes()),
          static_cast<double>(to.nbytes())});
  if (x.device() == Device::meta) return;
  uint8_t* const scales = to.data<uint8_t>();
  uint8_t* const codes = scales + (packed_bytes(x.numel(), bits) - (x.numel() * bits + 7) / 8);
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    const Real* const numbers = x.data<Real>();
    for (int64_t block = 0; block * numbers_per_scale < x.numel(); ++block) {
      const int64_t begin = block * numbers_per_scale;
      const int64_t end = std::min(begin + numbers_per_scale, x.numel());
      const float scale = detail::scale_of(numbers + begin, end - begin, bits);
      std::memcpy(scales + 4 * block, &scale, 4);
      detail::put_codes(numbers, begin, end, bits, scale, codes);
    }
  });
}

namespace detail {

inline int code_at(const uint8_t* codes, int64_t i, int bits) {
  if (bits == 8) return static_cast<int8_t>(codes[i]);
  const int half = (codes[i / 2] >> (i % 2 == 0 ? 0 : 4)) & 15;
  return half > 7 ? half - 16 : half;
}

}  // namespace detail

// And back, into x (n).
inline void unpack(const Tensor& from, int bits, Tensor& x, Where where = Where::current()) {
  detail::expect_packed("unpack", x, bits, from, where);
  charge({"unpack", x.dtype(), static_cast<double>(x.numel()), static_cast<double>(from.nbytes()),
          static_cast<double>(x.nbytes())});
  if (x.device() == Device::meta) return;
  const uint8_t* const scales = from.data<uint8_t>();
  const uint8_t* const codes =
      scales + (packed_bytes(x.numel(), bits) - (x.numel() * bits + 7) / 8);
  visit_real(x.dtype(), where, [&]<class Real>(Type<Real>) {
    Real* const numbers = x.data<Real>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      float scale = 0;
      std::memcpy(&scale, scales + 4 * (i / numbers_per_scale), 4);
      numbers[i] = static_cast<Real>(scale) * static_cast<Real>(detail::code_at(codes, i, bits));
    }
  });
}

// Rounds x (n) + lost (n) as pack does, into `to`. `lost` becomes what rounding took off. With an
// undefined `lost` there is no feedback.
inline void pack_with_feedback(const Tensor& x, int bits, Tensor& to, Tensor& lost) {
  if (!lost.defined()) return pack(x, bits, to);
  expect_shape("pack_with_feedback", "what was lost before", lost, x.shape());
  if (x.device() == Device::meta) return pack(x, bits, to);
  const MemoryScope memory(MemoryKind::buffers);
  Tensor back = Tensor::empty(x.shape(), x.dtype());
  visit_real(x.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    Real* const wanted = lost.data<Real>();
    for (int64_t i = 0; i < x.numel(); ++i) wanted[i] += x.data<Real>()[i];
    pack(lost, bits, to);
    unpack(to, bits, back);
    for (int64_t i = 0; i < x.numel(); ++i) wanted[i] -= back.data<Real>()[i];
  });
}

// A message between workers, u8: the sender's weight as f32, then x (n) packed.
constexpr int64_t message_bytes(int64_t n, int bits) { return 4 + packed_bytes(n, bits); }
inline Tensor packed_message(const Tensor& x, double weight, int bits, Tensor& lost) {
  const MemoryScope memory(MemoryKind::buffers);
  Tensor made = Tensor::empty({message_bytes(x.numel(), bits)}, DType::u8);
  const auto first = static_cast<float>(weight);
  if (x.device() != Device::meta) std::memcpy(made.raw(), &first, 4);
  Tensor packed = made.rows(4, made.numel());
  pack_with_feedback(x, bits, packed, lost);
  return made;
}

// sum (n) += weight * numbers of a message. Returns the weight.
inline double add_message(Tensor& sum, const Tensor& message, int bits) {
  const MemoryScope memory(MemoryKind::buffers);
  float weight = 1;
  Tensor x = Tensor::empty(sum.shape(), sum.dtype());
  unpack(message.rows(4, message.numel()), bits, x);
  if (sum.device() == Device::meta) return weight;
  std::memcpy(&weight, message.raw(), 4);
  visit_real(sum.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    for (int64_t i = 0; i < sum.numel(); ++i)
      sum.data<Real>()[i] += static_cast<Real>(weight) * x.data<Real>()[i];
  });
  return weight;
}

// Step `step` of p in which each rank meets each other: sends u8 to rank + step, and returns what
// comes from rank - step, `bytes` long. Step 0 is with itself: what is sent comes.
inline Tensor meet_next(Channel& channel, int step, const Tensor& sent, int64_t bytes) {
  if (step == 0) return sent;
  const int p = channel.size(), rank = channel.rank();
  Tensor come = Tensor::empty({bytes}, DType::u8);
  channel.send_recv(sent, (rank + step) % p, come, wrap(rank - step, p));
  return come;
}

// x = a x + b y, number by number.
inline void combine(Tensor& x, double a, const Tensor& y, double b) {
  if (x.device() == Device::meta) return;
  visit_real(x.dtype(), Where::current(), [&]<class Real>(Type<Real>) {
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<Real>()[i] =
          static_cast<Real>(a) * x.data<Real>()[i] + static_cast<Real>(b) * y.data<Real>()[i];
  });
}

// Chunk `rank` of p of x (n), a view; of an undefined tensor undefined.
inline Tensor chunk_of(const Tensor& x, int p, int rank) {
  if (!x.defined()) return {};
  return x.rows(chunk_begin(x.numel(), p, rank), chunk_begin(x.numel(), p, rank + 1));
}

}  // namespace yotta
