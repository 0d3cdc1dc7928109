// Llama team, "The Llama 3 Herd of Models" (arXiv 2407.21783), table 4: the three rows of 405B, run whole on tensors
// without data. 16 live ranks, one per stage of the pipeline, stand for 8192 or 16,384 GPUs.
#include <doctest/doctest.h>

#include "yotta/model/described_step.hpp"
#include "yotta/model/gradient_groups.hpp"
#include "yotta/model/llama3_rows.hpp"

using namespace yotta;

namespace {

struct Figures {
  DescribedFigures step;
  double tflops;  // a GPU, with causal attention
};

Figures run(const DescribedStep& step, const char* cluster = "h100x16384") {
  const DescribedFigures found =
      run_described(as_seen_by(step.shape, cluster_named(cluster)), step);
  const double per = found.seconds * static_cast<double>(step.shape.ranks()) * 1e12;
  return {found, causal_step_flops(step.config, step.batch, step.config.context) / per};
}
Figures run(const Llama3Row& row, int64_t recomputed) { return run(llama3_step(row, recomputed)); }

// As the paper trains: nothing is run again. Then no row is within 10%, nor within 80 GB.
void check_as_printed(const Llama3Row& row, double tflops, double gigabytes) {
  const Figures found = run(row, 0);
  CAPTURE(row.tflops);
  CHECK(found.tflops == doctest::Approx(tflops).epsilon(0.002));
  CHECK(static_cast<double>(found.step.bytes) / 1e9 == doctest::Approx(gigabytes).epsilon(0.01));
  CHECK(found.tflops > 1.10 * row.tflops);
  CHECK(found.step.bytes > 80e9);
  // Computing is the term that is too short: 14 to 22% slower kernels would give the printed rate.
  const double missing = found.step.seconds * (found.tflops / row.tflops - 1);
  const double slower = 1 - found.step.computed / (found.step.computed + missing);
  CHECK(slower > 0.13);
  CHECK(slower < 0.23);
}

// The variant: one block in two is run again.
void check_variant(const Llama3Row& row) {
  const Figures found = run(row, 1);
  CAPTURE(row.tflops);
  CAPTURE(found.tflops);
  CHECK(std::abs(found.tflops / row.tflops - 1) < 0.10);
  CHECK(found.step.bytes < 80e9);
  const double bubble = bubble_of_work(16, llama3_step(row).options.microbatches, 4);
  // Longer than (p - 1) / (v m): stages are not equal, and tp's collectives are not in `computed`.
  const double over = found.step.bubble / found.step.computed / bubble;
  CHECK(over > 1);
  CHECK(over < 1.35);
}

}  // namespace

TEST_CASE("table 4, row 2 as printed: nothing recomputed, 13% too fast, and 92 GB") {
  check_as_printed(llama3_rows[1], 452.6, 92.0);
}

TEST_CASE("table 4 as printed: nothing recomputed, 12 to 20% too fast, and 92 to 109 GB" *
          doctest::test_suite("long")) {
  check_as_printed(llama3_rows[0], 516.9, 109.2);
  check_as_printed(llama3_rows[2], 424.0, 92.2);
}

TEST_CASE("table 4, row 2, one block in two recomputed: 400 within 10%, less than 80 GB") {
  check_variant(llama3_rows[1]);
}

TEST_CASE("table 4, one block in two recomputed: 430 and 380 within 10%, less than 80 GB" *
          doctest::test_suite("long")) {
  check_variant(llama3_rows[0]);
  check_variant(llama3_rows[2]);
}

TEST_CASE("table 4: how attention is counted matters at 131,072 tokens") {
  const DescribedStep step = llama3_step(llama3_rows[2]);
  const double dense = 6.0 * static_cast<double>(parameters(step.config)) * (16 << 20);
  CHECK(causal_step_flops(step.config, step.batch, 131072) / dense ==
        doctest::Approx(1.667).epsilon(0.001));
}

// With a short pipeline schedule, since the gradients do not depend on it.
TEST_CASE(
    "every chip at once over the pods' 1:7: the gradients of row 2 take seven times as long") {
  DescribedStep step = llama3_step(llama3_rows[1], 1);
  step.options.schedule = PipelineKind::one_f_one_b, step.options.chunks = 1;
  step.options.microbatches = 2, step.batch = 2 * llama3_rows[1].dp;
  const Figures flat = run(step), pods = run(step, "llama3-24k");
  CHECK(pods.step.exposed.at("dp") / flat.step.exposed.at("dp") ==
        doctest::Approx(7).epsilon(0.05));
  CHECK(pods.tflops < 0.75 * flat.tflops);
  CHECK(pods.step.computed == doctest::Approx(flat.step.computed));
}
