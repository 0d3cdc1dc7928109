// One solution of exercise 29 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

exercise::ScalingRun counted_run(const yotta::CountedModel& model, double read, double fresh,
                                 double loss) {
  return student::counted_run(model, read, fresh, loss);
}

exercise::Predicted log_loss(const exercise::Five& law, const exercise::ScalingRun& run) {
  const student::LogLoss predicted = student::log_loss(law, run);
  return {predicted.value, predicted.slope};
}

exercise::Equations normal_equations(const exercise::Five& law,
                                     const std::vector<exercise::ScalingRun>& runs, double delta) {
  const student::NormalEquations all = student::normal_equations(law, runs, delta);
  return {all.sum, all.squares, all.errors};
}

exercise::Descended descend(const exercise::Five& start,
                            const std::vector<exercise::ScalingRun>& runs, double delta) {
  const student::detail::Fitted fitted = student::detail::descend(start, runs, delta);
  return {fitted.theta, fitted.sum};
}

exercise::Law fit_loss_law(const std::vector<exercise::ScalingRun>& runs, double delta) {
  const student::LossLaw law = student::fit_loss_law(runs, delta);
  return {law.E, law.A, law.B, law.alpha, law.beta};
}

yotta::Optimum optimum(const exercise::Law& law, double flops, double each) {
  return student::optimum({law.E, law.A, law.B, law.alpha, law.beta}, flops, each);
}

exercise::Needs run_needs(double flops, const exercise::Chips& c) {
  const student::RunNeeds needs =
      student::run_needs(flops, {c.chips, c.printed_peak, c.sparse, c.mfu, c.watts});
  return {needs.seconds, needs.joules};
}

}  // namespace

const exercise::Solution exercise::solution = {
    counted_run,  log_loss, normal_equations, descend,
    fit_loss_law, optimum,  run_needs,        student::chips_to_train};
