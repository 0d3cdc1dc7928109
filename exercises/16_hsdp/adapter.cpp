// One solution of exercise 16 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

class ThisHsdp : public exercise::AnyHsdp {
 public:
  ThisHsdp(yotta::Layers model, const student::HsdpRanks& ranks,
           const student::HsdpOptions& options)
      : hsdp_(model, ranks, options) {}
  yotta::Layers stack() const override { return hsdp_.stack(); }
  const std::deque<yotta::FsdpUnit>& units() override { return hsdp_.units(); }
  void before_microbatch(bool last) override {
    exercise::on_own_stack([=, this] { hsdp_.before_microbatch(last); });
  }
  void finish() override {
    exercise::on_own_stack([&] { hsdp_.finish(); });
  }
  int launched() const override { return hsdp_.launched(); }

 private:
  student::Hsdp hsdp_;
};

std::pair<int64_t, int64_t> elements_sent(int64_t p, int64_t R, int64_t parameters,
                                          int64_t microbatches) {
  const student::HsdpSent sent = student::hsdp_elements_sent(p, R, parameters, microbatches);
  return {sent.inside, sent.between};
}

int smallest_group(int ranks, int64_t parameters, int64_t room) {
  return student::smallest_group(ranks, parameters, room);
}

exercise::Ranks ranks(const yotta::Communicator& world, int p) {
  const student::HsdpRanks made = student::hsdp_ranks(world, p);
  return {made.group, made.replicas};
}

std::unique_ptr<exercise::AnyHsdp> make(yotta::Layers model, const exercise::Ranks& ranks,
                                        yotta::Algorithm between) {
  student::HsdpOptions options;
  options.replicas.algorithm = between;
  options.fsdp.comm.algorithm = yotta::Algorithm::ring;
  return std::make_unique<ThisHsdp>(model, student::HsdpRanks{ranks.group, ranks.replicas},
                                    options);
}

}  // namespace

const exercise::Solution exercise::solution = {
    elements_sent, smallest_group, ranks, student::reduce_over_replicas, student::shard_buckets,
    make};
