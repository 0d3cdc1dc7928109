// One solution of exercise 31 (the student's, the library's or a wrong one) as the graded cases see it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::DilocoOptions options_of(const exercise::Settings& settings) {
  student::DilocoOptions options;
  options.inner = settings.inner;
  options.learning_rate = settings.rate;
  options.momentum = settings.momentum;
  options.fragments = settings.fragments;
  options.overlap = settings.overlap;
  options.keep = settings.keep;
  options.bits = settings.bits;
  return options;
}

class ThisDiloco : public exercise::AnyDiloco {
 public:
  ThisDiloco(yotta::Optimizer& inner, const yotta::Communicator& workers,
             const student::DilocoOptions& options)
      : diloco_(inner, workers, options) {}
  void after_step(double weight) override { diloco_.after_step(weight); }
  void synchronise() override { diloco_.synchronise(); }
  std::deque<yotta::Fragment>& fragments() override { return diloco_.fragments(); }

 private:
  student::Diloco diloco_;
};

int fragment_due(int64_t steps, int64_t inner, int fragments) {
  return student::fragment_due(steps, inner, fragments);
}

void outer_step(yotta::Tensor& outer, yotta::Tensor& momentum, const yotta::Tensor& mean,
                const exercise::Settings& settings) {
  student::outer_step(outer, momentum, mean, options_of(settings));
}

std::unique_ptr<exercise::AnyDiloco> make(yotta::Optimizer& inner,
                                          const yotta::Communicator& workers,
                                          const exercise::Settings& settings) {
  return std::make_unique<ThisDiloco>(inner, workers, options_of(settings));
}

}  // namespace

const exercise::Solution exercise::solution = {fragment_due, outer_step, student::quantised_mean,
                                               make};
