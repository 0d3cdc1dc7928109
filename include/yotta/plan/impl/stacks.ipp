// The bodies of plan/stacks.hpp.
#pragma once

#include "yotta/plan/stacks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace yotta {

YOTTA_INLINE const Stack& stack_named(std::string_view name, Where where) {
  std::vector<std::string_view> names;
  for (const Stack& each : known_stacks) {
    if (each.name == name) return each;
    names.push_back(each.name);
  }
  fail(where, "there is no stack '{}': known are {}", name, fmt::join(names, ", "));
}

namespace detail {
template <size_t count>
const Stack* stack_with_word_of(std::string_view source, const std::array<Stack, count>& stacks) {
  for (const Stack& each : stacks)
    for (const std::string_view words : each.rows)
      if (!words.empty() && source.find(words) != source.npos) return &each;
  return nullptr;
}
}  // namespace detail

YOTTA_INLINE const Stack* stack_of_source(std::string_view source) {
  return detail::stack_with_word_of(source, known_stacks);
}
YOTTA_INLINE const Stack* stack_of_others(std::string_view source) {
  return detail::stack_with_word_of(source, stacks_of_others);
}

YOTTA_INLINE bool has(const Causes& causes, Cause cause) {
  return std::find(causes.begin(), causes.end(), cause) != causes.end();
}

YOTTA_INLINE Cause cause_named(std::string_view name, Where where) {
  for (size_t i = 0; i < cause_names.size(); ++i)
    if (cause_names[i] == name) return static_cast<Cause>(i);
  fail(where, "there is no cause '{}': known are {}", name, fmt::join(cause_names, ", "));
}

YOTTA_INLINE Cluster reached_cluster(const Cluster& cluster, const Stack& stack,
                                     const Causes& left_out) {
  Cluster made = cluster;
  if (stack.h100_memory > 0 && std::string_view(made.chip.name) == "h100")
    made.chip.bandwidth = stack.h100_memory;
  for (size_t i = 0; i < made.levels.size(); ++i) {
    if (!has(left_out, Cause::links)) made.levels[i].beta /= i == 0 ? node_share : stack.network;
    if (!has(left_out, Cause::latency)) made.levels[i].alpha += message_seconds;
  }
  return made;
}

YOTTA_INLINE Efficiency reached_kernels(const Chip& chip, const Stack& stack,
                                        const Causes& left_out) {
  const ChipKernels& best = kernels_of(chip.name);
  Efficiency e;
  if (!has(left_out, Cause::kernels)) {
    e.matmul = std::min(1.0, best.matmul * stack.matmul);
    e.attention = std::min(1.0, best.attention * stack.attention);
    e.attention_backward = backward_share * e.attention;
  }
  if (!has(left_out, Cause::memory)) e.memory = memory_share;
  if (!has(left_out, Cause::size)) e.overlap = 0;
  e.passes = has(left_out, Cause::passes) ? compiled_passes : stack.passes;
  if (!has(left_out, Cause::interference)) e.interference = stack.interference;
  return e;
}

}  // namespace yotta
