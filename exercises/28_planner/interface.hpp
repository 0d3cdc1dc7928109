// What the graded cases of exercise 28 call. adapter.cpp fills it with one solution.
#pragma once

#include "course/cases/own_stack.hpp"
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
  Call<States(const CountedModel&, const Layout&)> states;
  Call<double(const CountedModel&, const Layout&)> activations;
  Call<double(const Layout&)> bubble;
  Call<Reached(const Limits&, double chips)> limit_case;
  Call<Fed(const Limits&, const MeshShape&)> fed_chips;
  Call<MeshShape(const Limits&, double chips, Most)> axes_to_feed;
  Call<Answer(const Run&)> run_answer;
};
extern const Solution solution;

}  // namespace exercise
