// Recorded layers: what the layers of a layout cost, read off one run of the layers themselves.
//
//     an embedding, a block, a head     as parallelize makes them for a rank of tp x cp x ep; the
//                                       other ranks are its images (comm/engine/mirrored.hpp)
//       on Device::meta                 shapes and costs, no numbers
//       on a clock                      seconds computed, waited for, and at a port
//       on a ledger                     bytes kept, and the most of each pass
//
// A model has many layers and three kinds of them, and few layouts of a search differ inside a
// layer: so each kind is run once for every way in which it is cut, and a step is put together from
// the figures. What a technique costs is written in its layer alone. Nothing here knows techniques
// by name.
//
// Cost: about a millisecond a way of cutting; LayerRecords keeps the figures.
// Contract: expect_layout(); a cluster with switches.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <tuple>

#include "yotta/model/described_step.hpp"
#include "yotta/plan/layer_figures.hpp"
#include "yotta/plan/layer_sizes.hpp"
#include "yotta/plan/plan_groups.hpp"

namespace yotta {

struct RecordedLayers {
  LayerFigures embedding, block, head;
};

// All that the figures depend on. What differs most between layouts comes first.
struct LayerQuestion {
  int tp = 1, cp = 1, ep = 1;
  int64_t B = 1, T = 1;  // sequences of a microbatch, and tokens of each on a rank of cp
  Efficiency efficiency = {};
  bool one_table = false;  // embedding and head share a tied table
  bool sequence_parallel = false, keep_gathered = false;
  Pieces pieces = Pieces::none;
  ContextParallel context = ContextParallel::ring;
  Recompute recompute = Recompute::none;  // of the block: none, attention or pointwise
  bool wide_loss = false;                 // from a copy of the logits in f32
  int64_t loss_tokens = 0;                // whose logits exist at once; 0: all
  PlanGroup groups[4] = {};               // tp, cp, ep, routed
  TransformerConfig config = {};          // with one block
  void (*technique)(Transformer&) = nullptr;
  Chip chip = {};

  bool operator==(const LayerQuestion&) const = default;
};
LayerQuestion layer_question(const Chip& chip, const DescribedStep& step, const LayerSizes& z,
                             const PlanGroups& groups);

RecordedLayers record_layers(const LayerQuestion& question);

// Answers that were found before. May be used by several threads.
class LayerRecords {
 public:
  const RecordedLayers& of(const LayerQuestion& question);

 private:
  using Key = std::tuple<int, int, int, int64_t, int64_t>;  // what differs most
  using Answers = std::deque<std::pair<LayerQuestion, RecordedLayers>>;
  std::mutex mutex_;
  std::map<Key, Answers> known_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/recorded_layers.ipp"
#endif
