// A stack's numbers from rows that another stack has made.
#include "yotta/plan/stack_fit.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// Steps of a small model on two nodes and on one, as long as `stack` takes for them.
std::vector<MeasuredRow> rows_of(const Stack& stack) {
  std::vector<MeasuredRow> rows;
  EstimateCache cache;
  for (const int gpus : {8, 16, 32})
    for (const int64_t sequence : {512, 4096, 16384}) {
      MeasuredRow row;
      row.request.config = llama_config(8, 2048, 8192, 16, 8, sequence, 32000);
      row.request.config.dtype = DType::bf16;
      row.request.cluster = cluster_named(fmt::format("h100x{}", gpus));
      row.request.sequence = sequence;
      row.request.tokens = gpus * int64_t{1 << 14};
      row.layout.shape.dp_shard = gpus;
      row.seconds = estimate_row(row, stack, cache).seconds;
      rows.push_back(row);
    }
  return rows;
}

}  // namespace

TEST_CASE("what was put in comes out, on rows that were left out too") {
  Stack real = stack_named("usual");
  real.matmul = 0.8, real.attention = 1.3, real.passes = 2;
  const StackFit found = fit_stack(rows_of(real), stack_named("usual"));
  CHECK(found.before > 0.05);
  CHECK(found.after < 0.02);
  CHECK(found.left_out < 0.03);
  CHECK(found.worst_left_out >= found.left_out);
  CHECK(found.stack.matmul == doctest::Approx(0.8).epsilon(0.1).scale(0));
}

TEST_CASE("numbers stay where nothing depends on them, and within their bounds") {
  std::vector<MeasuredRow> rows = rows_of(stack_named("usual"));
  std::erase_if(rows, [](const MeasuredRow& row) { return row.request.cluster.size() > 8; });
  for (MeasuredRow& row : rows) row.seconds /= 20;  // faster than any chip
  const StackFit found = fit_stack(rows, stack_named("usual"));
  CHECK(found.stack.network == stack_named("usual").network);
  CHECK(found.stack.passes == 1);
  CHECK(found.stack.matmul <= 1.25);
  CHECK(message_of([&] { fit_stack({rows[0]}, stack_named("usual")); }).find("two or more") !=
        std::string::npos);
}
