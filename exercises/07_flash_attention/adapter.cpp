// One solution of exercise 07 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using namespace exercise;

void online_row(double* scores, int64_t n, double factor, Sums& sums, double* o, int64_t d) {
  student::OnlineSums<double> theirs{sums.m, sums.l};
  student::online_softmax_row(scores, n, factor, theirs, o, d);
  sums = {theirs.m, theirs.l};
}

Weights merge_weights(double first, double second) {
  const auto weights = student::merge_weights(first, second);
  return {weights.first, weights.second, weights.log_sum_exp};
}

std::vector<Run> runs(int64_t keys, int64_t ahead, int64_t begin, int64_t end) {
  std::vector<Run> all;
  student::CausalMask{keys, ahead}.runs(begin, end, [&](int64_t j, int64_t n, bool whole) {
    all.push_back({j, n, whole});
  });
  return all;
}

void forward(Matrix q, Matrix k, Matrix v, MatrixOut o, double* L, int64_t first, int64_t last,
             const CountingMask& mask, bool capped) {
  const student::FlashHead<double> head{q, k, v, o, L};
  if (capped)
    student::flash_forward(head, first, last, mask, CappedSlope{});
  else
    student::flash_forward(head, first, last, mask, student::SameScore{});
}

void backward_row(double* scores, double* dP, int64_t t, int64_t j, int64_t n, bool whole,
                  double factor, double L, double D, const CountingMask& mask, bool capped) {
  const auto row = [&](const auto& mod) {
    student::flash_backward_row(scores, dP, t, j, n, whole, factor, L, D, mask, mod);
  };
  if (capped) return row(CappedSlope{});
  row(student::SameScore{});
}

// One head, tiles of 8 queries and 8 keys, 16 threads.
exercise::Kernel kernel(const std::vector<float>& q, const std::vector<float>& k,
                        const std::vector<float>& v, int Tq, int Tk, bool causal, uint64_t seed) {
  using T = student::FlashTile<exercise::kernel_d, 8, 8, 16>;
  const std::vector<float> all = yotta::launch_attention(
      {student::flash_attention_tile<T>, T::threads, sizeof(float) * T::numbers}, q, k, v,
      {1, Tq, Tk, 1, 1, T::d, causal}, seed);
  return {{all.data(), all.data() + q.size()}, {all.data() + q.size(), all.data() + all.size()}};
}

}  // namespace

const Solution exercise::solution = {online_row, merge_weights, runs,
                                     forward,    backward_row,  kernel};
