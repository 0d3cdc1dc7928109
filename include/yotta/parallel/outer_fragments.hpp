// Fragments: the weights of a rank as a few long arrays, for workers who average them now and then
// (diloco.hpp).
//
//     optimizer's slots     w0      b0   w1      b1   w2      b2     weights, f32 masters of bf16
//     2 fragments           [ w0 b0 w1 ]   [ b1 w2 b2 ]                 about the same size each
//     of each               outer (n)      where the workers last agreed
//                           momentum (n)   where they were heading
//
// Memory: two numbers for each weight; a third while a mean is on its way.
// Contract: all slots hold one type. The slots must outlive their fragments.
#pragma once

#include <deque>
#include <limits>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/optimizer.hpp"

namespace yotta {

// May outer weights of f32 move by this rate? It is above 0 and finite, in f32 too.
constexpr bool is_outer_rate(double rate) {
  return rate >= std::numeric_limits<float>::min() && rate <= std::numeric_limits<float>::max();
}

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

}  // namespace yotta
