// One solution of exercise 31 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::DilocoOptions options_of(const exercise::Options& o) {
  student::DilocoOptions options;
  options.inner = o.inner, options.learning_rate = o.rate, options.momentum = o.momentum;
  options.fragments = o.fragments, options.overlap = o.overlap, options.keep = o.keep;
  options.bits = o.bits;
  return options;
}

class ThisDiloco : public exercise::AnyDiloco {
 public:
  ThisDiloco(yotta::Optimizer& inner, const yotta::Communicator& workers,
             const exercise::Options& options)
      : diloco_(inner, workers, options_of(options)) {}
  void after_step(double weight) override {
    exercise::on_own_stack([=, this] { diloco_.after_step(weight); });
  }
  void synchronise() override {
    exercise::on_own_stack([&] { diloco_.synchronise(); });
  }
  std::deque<yotta::OuterFragment>& fragments() override { return diloco_.fragments(); }

 private:
  student::Diloco diloco_;
};

exercise::Share worker_share(int64_t batch, int k, int worker) {
  const student::WorkerShare share = student::worker_share(batch, k, worker);
  return {share.begin, share.end, share.weight};
}

int fragment_due(int64_t steps, int64_t inner, int fragments) {
  return student::fragment_due(steps, inner, fragments);
}

void outer_step(yotta::Tensor& outer, yotta::Tensor& momentum, const yotta::Tensor& mean,
                const exercise::Options& options) {
  student::outer_step(outer, momentum, mean, options_of(options));
}

std::unique_ptr<exercise::AnyDiloco> make(yotta::Optimizer& inner,
                                          const yotta::Communicator& workers,
                                          const exercise::Options& options) {
  return std::make_unique<ThisDiloco>(inner, workers, options);
}

}  // namespace

const exercise::Solution exercise::solution = {worker_share, fragment_due, outer_step,
                                               student::quantised_mean, make};
