// One solution of exercise 25 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using exercise::Counts;
using exercise::Plan;
using yotta::Communicator;
using yotta::Tensor;

void choose_backward(std::span<const double> s, std::span<const int32_t> expert,
                     std::span<const double> dweight, yotta::RouterScore score, bool renormalise,
                     std::span<double> ds) {
  student::choose_experts_backward<double>(s, expert, dweight, score, renormalise, ds);
}
float combine_bf16(float first, float second, float weight_of_second) {
  const yotta::bfloat16 rows[] = {yotta::bfloat16(first), yotta::bfloat16(second)};
  const std::vector<int64_t> row_of = {0, 1};
  const std::vector<float> weight = {1, weight_of_second};
  std::vector<float> sum(1);
  student::combine_token<yotta::bfloat16>(rows, row_of, weight, sum);
  return sum[0];
}
Plan plan_of(Counts counts, int ep, int rank) {
  const student::DispatchPlan plan = student::dispatch_plan(counts, ep, rank);
  return {plan.to, plan.from, plan.arriving, plan.held};
}
Tensor by_expert(const Plan& plan, const Tensor& rows) {
  return student::DispatchPlan{plan.to, plan.from, plan.arriving, plan.held}.by_expert(rows);
}
Tensor by_rank(const Plan& plan, const Tensor& rows) {
  return student::DispatchPlan{plan.to, plan.from, plan.arriving, plan.held}.by_rank(rows);
}
Tensor exchange(const Tensor& rows, Counts to, Counts from, const Communicator& ep,
                const std::function<void()>& meanwhile) {
  student::RowsInFlight there(rows, to, from, ep, {.label = "ep.rows"});
  meanwhile();
  return there.wait();
}
yotta::LayerPtr make_layer(const yotta::MoeOptions& options, const yotta::MoeAxes& axes) {
  return std::make_unique<student::MoeMlp>("mlp", options,
                                           yotta::ParameterOptions{1, yotta::DType::f64}, axes);
}

}  // namespace

const exercise::Solution exercise::solution = {student::choose_experts<double>,
                                               choose_backward,
                                               student::combine_token<double>,
                                               combine_bf16,
                                               plan_of,
                                               by_expert,
                                               by_rank,
                                               exchange,
                                               make_layer,
                                               student::reduce_moe_gradients,
                                               student::weights_met};
