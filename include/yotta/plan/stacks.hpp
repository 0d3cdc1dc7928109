// Stacks: what training software reaches of its chips and links, and what each cause costs.
//
//     data sheet     peak FLOP/s, bytes/s of memory and links, latency of one message
//       └ chip       shares that its best kernels reach in public tables       known_kernels
//          └ stack   what a software's kernels reach of these: five numbers    known_stacks
//
// `usual` has the shares of products and attention of the tables below. Its other numbers are round
// ones, chosen with the measured rows of all software in sight: so its error on them is not one on
// rows that it has not seen. The others were fitted, each to the measured rows of one software
// (measured_rows.hpp). For errors on rows that had no part there are stacks_of_others: each was
// fitted to the rows of all software but one.
//
//     chip and links         85% of the memory's rate; 75% of a node's links; 12 us a message of a
//                            collective; kernels hide nothing of the shorter part
//     stack    matmul        of the chip's share in products
//              attention     the same in flash attention
//              passes        over the numbers of what multiplies nothing; fitted. For comparison: 1
//                            compiled, 2.75 eager (machine/kernel_rates.hpp)
//              interference  of a collective's time beside kernels, what they lose
//              network       share of the rate of links out of a node
//
// Leaving a cause out gives what a planner without it would say.
// References: products: NVIDIA, A100 whitepaper (2020), figure 6; S. Bekman, "ML engineering",
// maximum achievable matmul FLOPS; SimuMax's B200 tables (2026), which have NVLink's shares and
// latencies too. Attention: Dao (2023), FlashAttention-2: 50 to 73% of an A100, up to 335 TFLOP/s
// on an H100.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "yotta/machine/cluster.hpp"
#include "yotta/machine/kernel_rates.hpp"

namespace yotta {

struct ChipKernels {
  std::string_view chip;
  double matmul, attention;  // shares of the peak; attention backward reaches 0.9 of the latter
};
inline constexpr ChipKernels other_chip = {"", 0.80, 0.34};
inline constexpr std::array<ChipKernels, 5> known_kernels = {{{"a100", 0.87, 0.5},
                                                              {"a100-40gb", 0.87, 0.5},
                                                              {"h100", 0.80, 0.34},
                                                              {"h200", 0.80, 0.34},
                                                              {"b200", 0.49, 0.45}}};
constexpr const ChipKernels& kernels_of(std::string_view chip) {
  for (const ChipKernels& each : known_kernels)
    if (each.chip == chip) return each;
  return other_chip;
}

inline constexpr double memory_share = 0.85, node_share = 0.75, message_seconds = 12e-6;
inline constexpr double backward_share = 0.9;  // of attention's forward pass

struct Stack {
  const char* name;
  double matmul = 1, attention = 1, passes = 1.3, interference = 0.8, network = 0.7;
  // The rows that it was fitted to: those whose source has one of these words in it.
  std::array<std::string_view, 2> rows = {};
  // What is known of them, and was not fitted: a loss from a copy of the logits in f32; bytes/s of
  // an H100's memory, where it is not the data sheet's; FSDP's units moved matrix by matrix, in
  // turns with kernels (take_turns of plan_buckets.hpp).
  bool wide_loss = false;
  double h100_memory = 0;
  bool by_matrix = false;
};
// TorchTitan's benchmarks ran on H100 with 96 GB of HBM2e at 500 W.
inline constexpr std::array<Stack, 7> known_stacks = {{
    {"usual"},
    {"megatron-2021", 1.01, 1, 1, 0.36, 0.66, {"Korthikanti", "tables 1 and 2"}},
    {"deepspeed-2021", 0.8, 1, 1.15, 0.8, 0.46, {"ZeRO-3"}, false, 0, true},
    {"llm-foundry", 1.1, 0.65, 2, 0.76, 0.72, {"llm-foundry"}},
    {"llama3", 0.96, 1.66, 1, 0.7, 0.75, {"Llama 3"}},
    {"torchtitan", 1.15, 0.47, 2, 0.7, 0.75, {"TorchTitan"}, true, 2.4e12},
    {"simumax-megatron", 0.97, 1, 1, 0.7, 1, {"SimuMax", "Mixtral"}},
}};
// What fit_stack (stack_fit.hpp) finds in the rows of all sources but those with this word, from
// fresh_stack.
inline constexpr std::array<Stack, 8> stacks_of_others = {{
    {"others", 0.972, 0.689, 1.17, 0.72, 0.81, {"Korthikanti"}},
    {"others", 0.984, 0.691, 1.29, 0.73, 0.79, {"tables 1 and 2"}},
    {"others", 0.98, 0.68, 1.13, 0.79, 0.91, {"ZeRO-3"}},
    {"others", 0.972, 0.656, 1.1, 0.7, 0.74, {"Llama 3"}},
    {"others", 0.968, 0.689, 1.08, 0.72, 0.8, {"TorchTitan"}},
    {"others", 0.94, 0.672, 1.03, 0.68, 0.83, {"SimuMax"}},
    {"others", 0.952, 1.033, 1, 0.68, 0.68, {"llm-foundry"}},
    {"others", 0.968, 0.686, 1.1, 0.73, 0.81, {"Mixtral"}},
}};
const Stack& stack_named(std::string_view name, Where where = Where::current());

// The stack that was fitted to rows of this source; nullptr: none.
const Stack* stack_of_source(std::string_view source);
// The one that was fitted to all other rows; nullptr: there is none, so no stack has seen it.
const Stack* stack_of_others(std::string_view source);

// What a prediction can leave out.
enum class Cause : uint8_t {
  size,          // products and attention are as fast in small pieces as in large ones
  kernels,       // every product reaches the peak
  memory,        // the memory reaches its rate
  passes,        // all that multiplies nothing is compiled
  interference,  // collectives take nothing from kernels beside them
  links,         // links reach their rate
  latency,       // a message has the wire's latency alone
  cards,         // a collective over nodes keeps one card of a node busy, in one ring
  scores,        // attention before flash holds no scores
  again,         // parts of blocks that run again cost nothing
  units,         // FSDP gathers units again, also where they were kept
  turns,         // FSDP of 2021 moves units while kernels run
  ahead          // gradients are made in backward, not before
};
inline constexpr std::array<const char*, 13> cause_names = {
    "size",  "kernels", "memory", "passes", "interference", "links", "latency",
    "cards", "scores",  "again",  "units",  "turns",        "ahead"};
constexpr const char* name(Cause cause) { return cause_names[static_cast<size_t>(cause)]; }
using Causes = std::vector<Cause>;
bool has(const Causes& causes, Cause cause);
Cause cause_named(std::string_view name, Where where = Where::current());

// A cluster whose memory and links are as fast as software finds them.
Cluster reached_cluster(const Cluster& cluster, const Stack& stack, const Causes& left_out = {});
Efficiency reached_kernels(const Chip& chip, const Stack& stack, const Causes& left_out = {});

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/stacks.ipp"
#endif
