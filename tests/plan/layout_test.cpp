// Layouts as text and as steps, and requests that cannot be.
#include "yotta/plan/layout.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
PlanRequest request_of(int64_t tokens, int64_t sequence, const char* cluster = "h100x8") {
  PlanRequest request;
  request.config = llama3_8b();
  request.cluster = cluster_named(cluster);
  request.tokens = tokens, request.sequence = sequence;
  return request;
}
}  // namespace

TEST_CASE("a layout says what it chooses, and no more") {
  Layout layout;
  CHECK(text_of(layout) == "1 chip, 1 microbatch");
  layout.shape = {.tp = 8, .cp = 2, .pp = 4, .dp_replicate = 16};
  layout.sequence_parallel = true, layout.zero = 1, layout.microbatches = 16;
  layout.schedule = PipelineKind::interleaved, layout.chunks = 2, layout.recomputed = 1;
  CHECK(text_of(layout) ==
        "tp 8 sp, cp 2 ring, pp 4 interleaved 1F1B x2, dp 16 ZeRO-1, 16 microbatches, first block "
        "recomputed");
}

TEST_CASE("a critical batch is a limit of the batch") {
  PlanRequest request = request_of(1 << 20, 8192);
  CHECK(request.batch() == 128);
  request.critical_batch = 1 << 19;
  CHECK(request.batch() == 64);
  CHECK(described(request, {}).batch == 64);
  request.critical_batch = 1 << 21;
  CHECK(request.batch() == 128);
}

TEST_CASE("requests that cannot be are refused with the reason") {
  const auto why = [](const PlanRequest& request) { return message_of([&] { request.check(); }); };
  CHECK(why(request_of(100, 8192)).find("has no sequence of 8192 tokens") != std::string::npos);
  CHECK(why(request_of(100, 0)).find("at least one") != std::string::npos);
  CHECK(why(request_of(1 << 20, 8192, "v5px64")).find("is a torus") != std::string::npos);
  PlanRequest mixture = request_of(1 << 20, 8192);
  mixture.config.mixture.experts = 8;
  CHECK(why(mixture).find("mixtures of experts") != std::string::npos);
}
