// Llama team, "The Llama 3 Herd of Models" (arXiv 2407.21783), table 4: the three rows of 405B, run
// whole on tensors without data. 16 live ranks, one per stage of the pipeline, stand for 8192 or
// 16,384 GPUs.
#include <doctest/doctest.h>

#include "yotta/model/described_step.hpp"
#include "yotta/model/llama3_rows.hpp"
#include "yotta/parallel/gradient_groups.hpp"

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
Figures run(const Llama3Row& row, Recompute what, const Efficiency& kernels) {
  DescribedStep step = llama3_step(row, what);
  step.efficiency = kernels;
  return run(step);
}

double off(const Figures& found, const Llama3Row& row) { return found.tflops / row.tflops - 1; }

// As the paper trains, with kernels as fast as when they are timed alone: nothing is run again.
void check_as_printed(const Llama3Row& row, double tflops, double gigabytes) {
  const Figures found = run(row, Recompute::none, h100_kernels);
  CAPTURE(row.tflops);
  CHECK(found.tflops == doctest::Approx(tflops).epsilon(0.002));
  CHECK(static_cast<double>(found.step.bytes) / 1e9 == doctest::Approx(gigabytes).epsilon(0.01));
  // All rows are too fast by nearly the same factor.
  CHECK(off(found, row) > 0.20);
  CHECK(off(found, row) < 0.26);
  // The bubble is longer than (p - 1) / (v m): tp's collectives are not in `computed`.
  const double bubble = bubble_of_work(16, llama3_step(row).options.microbatches, 8);
  CHECK(found.step.bubble / found.step.computed / bubble > 1);
  CHECK(found.step.bubble / found.step.computed / bubble < 1.7);
}

// Kernels as in a run, and what no matrix product has made is made again: within 80 GB.
void check_in_a_run(const Llama3Row& row, double tolerance) {
  const Figures found = run(row, Recompute::pointwise, llama3_kernels);
  CAPTURE(row.tflops);
  CAPTURE(found.tflops);
  CHECK(std::abs(off(found, row)) < tolerance);
  CHECK(found.step.bytes < 80e9);
  // It costs next to nothing: no matrix product and no message is run again.
  const Figures kept = run(row, Recompute::none, llama3_kernels);
  CHECK(found.tflops == doctest::Approx(kept.tflops).epsilon(0.01));
  CHECK(found.step.sent == kept.step.sent);
  CHECK(static_cast<double>(found.step.bytes) < 0.77 * static_cast<double>(kept.step.bytes));
}

}  // namespace

TEST_CASE("table 4, row 2, kernels as timed alone: 22% too fast, and 93 GB") {
  check_as_printed(llama3_rows[1], 487.0, 93.0);
}

TEST_CASE("table 4, kernels as timed alone: 21 to 25% too fast, and 93 to 100 GB" *
          doctest::test_suite("long")) {
  check_as_printed(llama3_rows[0], 539.0, 100.0);
  check_as_printed(llama3_rows[2], 459.0, 93.0);
}

// The one number is from row 1: rows 2 and 3 are predictions.
TEST_CASE("table 4, row 2, kernels as in row 1: 400 within 5%, less than 80 GB") {
  check_in_a_run(llama3_rows[1], 0.05);
}

TEST_CASE("table 4, kernels as in row 1: 430 within 1%, 380 within 5%, less than 80 GB" *
          doctest::test_suite("long")) {
  check_in_a_run(llama3_rows[0], 0.01);
  check_in_a_run(llama3_rows[2], 0.05);
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
  DescribedStep step = llama3_step(llama3_rows[1]);
  step.options.schedule = PipelineKind::one_f_one_b, step.options.chunks = 1;
  step.options.microbatches = 2, step.batch = 2 * llama3_rows[1].dp;
  const Figures flat = run(step), pods = run(step, "llama3-24k");
  CHECK(pods.step.exposed.at("dp") / flat.step.exposed.at("dp") ==
        doctest::Approx(7).epsilon(0.05));
  CHECK(pods.tflops < 0.75 * flat.tflops);
  CHECK(pods.step.computed == doctest::Approx(flat.step.computed));
}
