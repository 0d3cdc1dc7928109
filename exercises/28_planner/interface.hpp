// What the graded cases of exercise 28 call. adapter.cpp fills it with one solution.
#pragma once

#include "yotta/comm/mesh.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"
#include "yotta/plan/counted_model.hpp"
#include "yotta/sharding/torus_times.hpp"

namespace exercise {

using yotta::CountedModel;
using yotta::MeshShape;

struct Layout {
  MeshShape shape;
  int64_t batch, sequence, microbatch;
  int chunks;
  bool zero, recomputed;
};
struct States {
  double weights, gradients, optimizer;
};
struct Limits {
  double batch, sequence, flops, sends;
  bool tp_shares_links;
  double critical;
};
enum class Reached { neither, batch, communication, both };
struct Fed {
  double by_batch, by_communication;
};
struct Most {
  int tp, cp, pp;
};
struct Run {
  double parameters, tokens, chips, flops, memory, mfu;
};
struct Answer {
  double flops, days, least_chips, month_chips;
};

struct Solution {
  States (*states)(const CountedModel&, const Layout&);
  double (*activations)(const CountedModel&, const Layout&);
  double (*bubble)(const Layout&);
  Reached (*limit_case)(const Limits&, double chips);
  Fed (*fed_chips)(const Limits&, const MeshShape&);
  MeshShape (*axes_to_feed)(const Limits&, double chips, Most);
  Answer (*run_answer)(const Run&);
};
extern const Solution solution;

}  // namespace exercise
