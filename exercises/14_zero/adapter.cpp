// One solution of exercise 14 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

class ThisZero : public exercise::AnyZero {
 public:
  ThisZero(const std::vector<yotta::ParameterPtr>& parameters, yotta::Communicator& comm,
           const student::ZeroOptions& options)
      : zero_(parameters, comm, options) {}
  std::vector<yotta::ParameterPtr> shards() const override { return zero_.shards(); }
  std::vector<yotta::ParameterShard> parameter_shards() const override {
    std::vector<yotta::ParameterShard> all;
    for (const student::ZeroBucket& bucket : zero_.buckets())
      all.insert(all.end(), bucket.shards.begin(), bucket.shards.end());
    return all;
  }
  std::vector<exercise::BucketView> buckets() const override {
    std::vector<exercise::BucketView> all;
    for (const student::ZeroBucket& each : zero_.buckets())
      all.push_back({each.weights, each.mine, each.gradients, each.sum, each.arriving});
    return all;
  }
  void flush() override {
    exercise::on_own_stack([&] { zero_.flush(); });
  }
  void finish() override {
    exercise::on_own_stack([&] { zero_.finish(); });
  }
  void gather() override {
    exercise::on_own_stack([&] { zero_.gather(); });
  }

 private:
  student::Zero zero_;
};

int64_t bytes_held(int stage, int64_t ranks, int64_t parameters, int64_t weights, int64_t gradients,
                   int64_t optimizer) {
  return student::zero_bytes_held(stage, ranks, parameters, {weights, gradients, optimizer});
}

std::unique_ptr<exercise::AnyZero> make_zero(const std::vector<yotta::ParameterPtr>& parameters,
                                             yotta::Communicator& comm, int stage,
                                             int64_t bucket_bytes) {
  return std::make_unique<ThisZero>(parameters, comm, student::ZeroOptions{stage, bucket_bytes});
}

}  // namespace

const exercise::Solution exercise::solution = {bytes_held, make_zero};
