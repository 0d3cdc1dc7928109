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

// Run by run, with numbers behind each struct: those of a slope are NaN, those of the sums stay 0.
exercise::Equations normal_equations(const exercise::Five& law,
                                     const std::vector<exercise::ScalingRun>& runs, double delta) {
  struct {
    student::NormalEquations all;
    double behind[8] = {};
  } sums;
  for (const exercise::ScalingRun& run : runs) {
    struct {
      student::LogLoss predicted;
      double behind[8];
    } slopes{student::log_loss(law, run), {}};
    for (double& each : slopes.behind) each = std::numeric_limits<double>::quiet_NaN();
    student::add_run(sums.all, slopes.predicted, run, delta);
  }
  for (const double each : sums.behind)
    if (!(each == 0)) yotta::fail(yotta::Where::current(), "add_run writes behind the five errors");
  return {sums.all.sum, sums.all.squares, sums.all.errors};
}

// How many steps until it says that it is done; 300 at most.
int steps(const exercise::Five& start, const std::vector<exercise::ScalingRun>& runs,
          double delta) {
  student::detail::Descent at{start, student::normal_equations(start, runs, delta)};
  int count = 1;
  while (count < 300 && student::detail::damped_step(at, runs, delta)) ++count;
  return count;
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

const exercise::Solution exercise::solution = {counted_run, log_loss,  normal_equations,
                                               descend,     steps,     fit_loss_law,
                                               optimum,     run_needs, student::chips_to_train};
