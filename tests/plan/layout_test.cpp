// Layouts as text and as steps, and requests that cannot be.
#include "yotta/plan/layout.hpp"

#include <doctest/doctest.h>

#include <cmath>

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
  layout = {};
  layout.shape.ep = 4, layout.zero = 1;
  CHECK(text_of(layout) == "ep 4 ZeRO-1, 1 microbatch");
  layout.zero = 2;
  CHECK(text_of(layout) == "ep 4 ZeRO-2, 1 microbatch");
  layout = {};
  layout.shape.dp_shard = 8, layout.keeps_units = true;
  CHECK(text_of(layout) == "fsdp 8, 1 microbatch, units kept");
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

TEST_CASE("the loss in chunks: where FSDP, Async-TP and a copy of all logits leave it") {
  PlanRequest request = request_of(1 << 20, 8192);
  request.loss_tokens = 1024;
  const auto tokens = [&](const Layout& layout) {
    return described(request, layout).options.loss_tokens;
  };
  CHECK(tokens({}) == 1024);
  CHECK(tokens({.shape = {.tp = 8}, .sequence_parallel = true}) == 1024);
  CHECK(tokens({.shape = {.tp = 8}, .pieces = Pieces::one_way}) == 0);
  CHECK(tokens({.shape = {.dp_shard = 8}}) == 0);
  request.wide_loss = true;
  CHECK(tokens({}) == 0);
}

TEST_CASE("requests that cannot be are refused with the reason") {
  const auto why = [](const PlanRequest& request) { return message_of([&] { request.check(); }); };
  CHECK(why(request_of(100, 8192)).find("has no sequence of 8192 tokens") != std::string::npos);
  CHECK(why(request_of(100, 0)).find("at least one") != std::string::npos);
  CHECK(why(request_of(1 << 20, 8192, "v5px64")).find("is a torus") != std::string::npos);
  PlanRequest critical = request_of(1 << 20, 8192), deep = critical, reserved = critical;
  critical.critical_batch = 100;
  CHECK(why(critical).find("a critical batch of 100 tokens has no sequence of 8192 tokens") !=
        std::string::npos);
  deep.config.layers = 33'000;
  CHECK(why(deep).find("a model of 33000 blocks: plans are for up to 1024") != std::string::npos);
  PlanRequest wide = request_of(1 << 20, 8192), mixed = wide;
  wide.config.width = wide.config.feed_forward = int64_t{1} << 31;
  CHECK(why(wide).find("parameters: plans are for up to 1e+15") != std::string::npos);
  mixed.config.mixture.experts = int64_t{1} << 31;
  CHECK(why(mixed).find("a mixture of 2147483648 experts") != std::string::npos);
  CHECK(
      why(request_of(int64_t{1} << 30, int64_t{1} << 30)).find("a sequence of 1073741824 tokens") !=
      std::string::npos);
  for (const double bytes : {-1.0, 80e9, std::nan("")}) {
    reserved.reserve = bytes;
    CHECK(why(reserved).find("of a chip are to stay free") != std::string::npos);
  }
}
