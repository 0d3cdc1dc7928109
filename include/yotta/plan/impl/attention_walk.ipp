// The bodies of plan/attention_walk.hpp.
#pragma once

#include "yotta/plan/attention_walk.hpp"

#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/ring_attention.hpp"
#include "yotta/parallel/ulysses.hpp"

namespace yotta {

namespace detail {

class AttentionWalk {
 public:
  AttentionWalk(const LayerSizes& z, const PlanGroup& cp, StepWalk& walk)
      : z_(z), cp_(cp), walk_(walk), ring_{{}, z.cp, 0, z.T / chunks_each(z.cp), {}} {}

  void forward() {
    const double o = wide(z_.H), L = sums(z_.B * z_.H * z_.T);
    if (z_.cp == 1) {
      walk_.op(attention_block_cost(z_.dtype, sizes(), twice_seen({.length = z_.T})));
      walk_.hold(o + L);
    } else if (z_.ulysses) {
      exchange(z_.H + 2 * z_.K);
      walk_.op(attention_block_cost(z_.dtype, exchanged(), twice_seen({.length = whole_T()})));
      walk_.hold(o + L);
      exchange(z_.H);
      walk_.hold(narrow_bytes(z_.H));  // o twice: of all tokens, and of all heads
    } else {
      ring_forward();
      walk_.op(copy_cost("cat", z_.sum_dtype, z_.B * z_.T * z_.H * z_.d));
      walk_.op(copy_cost("cat", z_.sum_dtype, z_.B * z_.T * z_.H));
      walk_.touch((z_.cp > 2 ? 2 : 1) * narrow_bytes(2 * z_.K) + 1.5 * (o + L));
      walk_.touch(2 * (o + L) + (z_.width < z_.wide ? narrow_bytes(z_.H) : 0));
      walk_.hold(o + L);
    }
    if (z_.width < z_.wide) walk_.touch(narrow_bytes(z_.H));
    walk_.drop(o - narrow_bytes(z_.H));
  }

  void backward() {
    const double gradients = wide(z_.H + 2 * z_.K);
    walk_.hold(gradients);
    if (z_.cp == 1) {
      walk_.op(attention_block_backward_cost(z_.dtype, sizes(), twice_seen({.length = z_.T})));
    } else if (z_.ulysses) {
      exchange(z_.H);
      walk_.op(
          attention_block_backward_cost(z_.dtype, exchanged(), twice_seen({.length = whole_T()})));
      exchange(z_.H + 2 * z_.K);
      walk_.drop(narrow_bytes(z_.H));
    } else {
      walk_.touch(wide(2 * z_.K) + (z_.cp > 3 ? 6 : z_.cp > 2 ? 5 : 3) * narrow_bytes(2 * z_.K));
      ring_backward();
    }
    if (z_.width < z_.wide) walk_.touch(narrow_bytes(z_.H));  // one after the other
    walk_.drop(gradients - narrow_bytes(z_.H + 2 * z_.K));
    if (z_.cp > 1 && z_.ulysses) walk_.touch(narrow_bytes(z_.H + 5 * z_.K));  // an exchange's parts
    walk_.drop(narrow_bytes(z_.H + 2 * z_.K) + sums(z_.B * z_.H * z_.T));     // q, k, v, L
  }

 private:
  double sums(int64_t numbers) const { return static_cast<double>(numbers) * z_.wide; }
  double wide(int64_t heads) const { return sums(z_.N * heads * z_.d); }
  double narrow_bytes(int64_t heads) const {
    return static_cast<double>(z_.N * heads * z_.d) * z_.width;
  }
  int64_t whole_T() const { return z_.T * z_.cp; }
  AttentionSizes sizes() const { return {z_.B, z_.T, z_.H, z_.K, z_.d}; }
  AttentionSizes exchanged() const { return {z_.B, whole_T(), z_.H / z_.cp, z_.K / z_.cp, z_.d}; }

  // Heads for tokens, or back: cut into a part for each rank, sent, put together.
  void exchange(int64_t heads) {
    for (const int64_t each :
         {heads > z_.H ? z_.H : heads, heads > z_.H ? z_.K : 0, heads > z_.H ? z_.K : 0})
      if (each > 0) exchange_one(z_.N * each * z_.d);
  }
  void exchange_one(int64_t numbers) {
    const OpCost all = copy_cost("cat", z_.dtype, numbers);
    walk_.op(copy_cost("narrow", z_.dtype, numbers / z_.cp), z_.cp);
    walk_.op(all, 2);
    if (z_.B > 1) walk_.op(copy_cost("narrow", z_.dtype, numbers / (2 * z_.cp)), 2.0 * z_.cp);
    walk_.all_to_all(Exposed::cp, cp_, static_cast<double>(numbers) * z_.width);
  }

  // Calls visit(block) for those of a step that see any key.
  template <class Visit>
  void each_block(int step, Visit visit) const {
    for (int64_t i = 0; i < ring_.chunks(); ++i)
      for (int64_t j = 0; j < ring_.chunks(); ++j) {
        const AttentionBlock block = ring_.block(i, ring_.source(step), j);
        if (block.ahead >= 0) visit(i, block);
      }
  }
  AttentionSizes chunk() const { return {z_.B, ring_.n, z_.H, z_.K, z_.d}; }
  // k and v, one after the other.
  double latency() const { return 2 * cp_.link.alpha; }
  double work() const { return 2 * narrow_bytes(z_.K) * cp_.link.beta; }

  void ring_forward() {
    const OpCost merged = attention_merge_cost(z_.sum_dtype, z_.B * z_.H * ring_.n, z_.d);
    std::array<bool, 2> begun = {};
    for (int step = 0; step < z_.cp; ++step) {
      double here = 0;
      each_block(step, [&](int64_t i, const AttentionBlock& block) {
        here += walk_.seconds_of(attention_block_cost(z_.dtype, chunk(), twice_seen(block)));
        if (std::exchange(begun[static_cast<size_t>(i)], true)) here += walk_.seconds_of(merged);
      });
      const bool last = step + 1 == z_.cp;
      walk_.beside(Exposed::cp, here, last ? 0 : latency(), last ? 0 : work());
    }
  }

  void ring_backward() {
    const double sum = 2 * walk_.seconds_of(add_cost(z_.sum_dtype, z_.N * z_.K * z_.d));
    PartTime part;
    const double seconds = ring_backward_seconds(sum, work(), part.computed);
    part[Exposed::cp] = seconds - part.computed;
    double computed = 0;
    const auto cp = static_cast<size_t>(Exposed::cp);
    part.sent[cp] = 2 * (z_.cp - 1) * work();
    part.slowed[cp] = ring_backward_seconds(sum, 2 * work(), computed) - seconds;
    walk_.add(part);
  }
  // `work`: seconds of a hop, beside its latency.
  double ring_backward_seconds(double sum, double work, double& computed) const {
    const double hop = latency() + work;
    double now = 0, link = 0, home = 0;  // home: when the gradients have arrived
    for (int step = 0; step < z_.cp; ++step) {
      const bool last = step + 1 == z_.cp;
      if (!last) link = std::max(link, now) + hop;
      const double keys = link;
      double here = 0;
      each_block(step, [&](int64_t, const AttentionBlock& block) {
        here +=
            walk_.seconds_of(attention_block_backward_cost(z_.dtype, chunk(), twice_seen(block)));
      });
      now += here, computed += here;
      if (!last) now = std::max(now, keys);
      if (step > 1) now = std::max(now, home) + sum, computed += sum;
      if (step > 0) home = link = std::max(link, now) + hop;
    }
    now = std::max(now, home) + sum, computed += sum;
    return now;
  }

  const LayerSizes& z_;
  const PlanGroup& cp_;
  StepWalk& walk_;
  Ring ring_;
};

}  // namespace detail

YOTTA_INLINE void attend(const LayerSizes& z, const PlanGroup& cp, StepWalk& walk) {
  detail::AttentionWalk(z, cp, walk).forward();
}
YOTTA_INLINE void attend_back(const LayerSizes& z, const PlanGroup& cp, StepWalk& walk) {
  detail::AttentionWalk(z, cp, walk).backward();
}

}  // namespace yotta
