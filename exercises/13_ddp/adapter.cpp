// One solution of exercise 13 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

class ThisDdp : public exercise::AnyDdp {
 public:
  ThisDdp(exercise::ParameterPtrs parameters, const yotta::Communicator& comm,
          student::DdpOptions options)
      : ddp_(std::move(parameters), comm, options) {}
  void finish() override {
    exercise::on_own_stack([&] { ddp_.finish(); });
  }
  int buckets() const override { return ddp_.buckets(); }
  int launched() const override { return ddp_.launched(); }
  std::shared_ptr<void> no_sync() override { return std::make_shared<student::Ddp::NoSync>(ddp_); }

 private:
  student::Ddp ddp_;
};

std::pair<int64_t, int64_t> batch_shard(int64_t batch, int ranks, int rank) {
  const student::BatchShard shard = student::batch_shard(batch, ranks, rank);
  return {shard.begin, shard.end};
}

std::vector<exercise::ParameterPtrs> cut_into_buckets(
    std::span<const yotta::ParameterPtr> parameters, int64_t bucket_bytes) {
  std::vector<exercise::ParameterPtrs> all;
  for (const student::Bucket& bucket : student::cut_into_buckets(parameters, bucket_bytes))
    all.push_back(bucket.parameters);
  return all;
}

std::vector<exercise::BucketView> make_buckets(std::span<const yotta::ParameterPtr> parameters,
                                               int64_t bucket_bytes) {
  std::vector<exercise::BucketView> views;
  for (const student::Bucket& bucket : student::make_buckets(parameters, bucket_bytes))
    views.push_back({bucket.flat, bucket.parameters});
  return views;
}

std::unique_ptr<exercise::AnyDdp> make_ddp(exercise::ParameterPtrs parameters,
                                           const yotta::Communicator& comm, int64_t bucket_bytes,
                                           yotta::ReduceOp op, bool overlap) {
  return std::make_unique<ThisDdp>(std::move(parameters), comm,
                                   student::DdpOptions{bucket_bytes, op, overlap});
}

}  // namespace

const exercise::Solution exercise::solution = {batch_shard, student::reduce_gradients,
                                               cut_into_buckets, make_buckets, make_ddp};
