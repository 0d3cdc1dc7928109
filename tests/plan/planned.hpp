// A layout of Llama 3 405B that somebody has chosen: for tests of how others are told it.
#pragma once

#include "yotta/plan/planner.hpp"

namespace yotta_test {

struct Planned {
  yotta::PlanRequest request;
  yotta::Layout layout;
};
inline Planned planned() {
  Planned made;
  made.request.config = yotta::llama3_405b();
  made.request.config.dtype = yotta::DType::bf16;
  made.request.cluster = yotta::cluster_named("h100x1024");
  made.request.tokens = 1 << 22, made.request.sequence = 8192;
  made.layout.shape = {.tp = 8, .cp = 2, .pp = 8, .dp_replicate = 8};
  made.layout.sequence_parallel = true, made.layout.zero = 1, made.layout.microbatches = 32;
  made.layout.schedule = yotta::PipelineKind::interleaved, made.layout.chunks = 2;
  return made;
}

}  // namespace yotta_test
