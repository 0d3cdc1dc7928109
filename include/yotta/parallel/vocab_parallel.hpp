// A vocabulary on several ranks: the token table, and a loss without ever gathering the logits.
//
//     table (V, C)    rank 0 [ tokens 0 ... V/tp - 1 ]     rank 1 [ tokens V/tp ... ]     the same cut for the output matrix
//
//     embedding   each rank looks up the tokens it holds, zeros for the others     one all_reduce of B T C (g)
//     logits      (B, T, V/tp) on each rank: x W_r', no communication              backward: one of B T C (f)
//     loss        needs log(sum of e^logit) over all V, and one logit              two all_reduces of 3 B T
//
// Logits are the largest tensor of a model: at V = 128,256 gathering them would move 128,256 numbers a token;
// three suffice. With l_r = log-sum-exp of this rank's logits and m = the largest of the l_r:
//
//     log-sum-exp over all = m + log(sum over r of e^(l_r - m))        no e^ of a large number anywhere
//     logit of the target  = sum over r of (rank r's, if it holds the target, else 0)
//
// Backward needs nothing from others: dlogit_v = scale (e^(logit_v - l) - 1[v = target]), for the own v.
//
// Contract: V divides by tp; the same ids and targets on all ranks of tp; both checked against the whole V.
// Letters: N tokens, V vocabulary, C width, tp ranks.
// References: Shoeybi et al. (2019), section 3; Megatron-LM's vocab-parallel cross-entropy.
#pragma once

#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/cut.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

namespace yotta {

// The tokens of a batch that lie in a rank's rows of the table. On meta, where ids have no values, an even share.
struct OwnTokens {
  std::vector<int64_t> places;  // in the batch, 0 to N-1
  Tensor ids;                   // (places) i32, counted from the first row
};

inline OwnTokens own_tokens(const Tensor& ids, const Part& part) {
  OwnTokens own;
  if (ids.device() == Device::meta) {
    own.places.resize(static_cast<size_t>(ids.numel() * part.rows / part.all_rows()));
    own.ids = empty_beside(ids, {std::ssize(own.places)}, DType::i32, Where::current());
    return own;
  }
  const int64_t first = part.first_row, held = part.rows;
  for (int64_t n = 0; const int32_t id : ids.span<int32_t>()) {
    if (id >= first && id < first + held) own.places.push_back(n);
    ++n;
  }
  own.ids = Tensor::empty({std::ssize(own.places)}, DType::i32);
  int32_t* to = own.ids.data<int32_t>();
  for (const int64_t place : own.places)
    *to++ = ids.data<int32_t>()[place] - static_cast<int32_t>(first);
  return own;
}

// This rank's rows of a table (V, C).
inline ParameterPtr make_table(const std::string& name, int64_t vocabulary, int64_t width,
                               Initial initial, const ParameterOptions& made = {},
                               const Communicator& tp = {}) {
  const int64_t held = part_of(vocabulary, tp, name, "tokens");
  const Part part{held, width, axis_rank(tp) * held, 0, vocabulary, width};
  return make_parameter(name, part, true, initial, made.seed, made.dtype);
}

class VocabParallelEmbedding : public Layer {
 public:
  VocabParallelEmbedding(std::string name, int64_t vocabulary, int64_t width, Initial initial,
                         const ParameterOptions& made = {}, const Communicator& tp = {})
      : Layer(std::move(name)),
        table_(make_table(this->name() + ".weight", vocabulary, width, initial, made, tp)),
        g_(tp) {}

  // ids (N) i32 -> (N, C), the same on all ranks
  Tensor forward(const Tensor& ids, Saved& saved) override {
    saved.keep("ids", ids);
    if (part().is_whole()) return embedding(ids, table_.value());
    detail::expect_ids(name().c_str(), ids, part().whole_rows, Where::current());
    const OwnTokens own = own_tokens(ids, part());
    const Tensor found = embedding(own.ids, table_.value());  // (own, C)
    Tensor y = empty_beside(found, {ids.dim(0), found.dim(1)}, found.dtype(), Where::current());
    y.zero();
    const int64_t bytes = found.nbytes() / std::max<int64_t>(1, found.dim(0));  // of a row
    detail::copy_rows(
        found, [&](int64_t i) { return i * bytes; }, y,
        [&](int64_t i) { return own.places[static_cast<size_t>(i)] * bytes; }, found.dim(0), bytes);
    return g_.forward(y);
  }

  Tensor backward_input(const Tensor& dy, Saved& saved) override {  // dy (N, C)
    saved.keep("dy", dy);
    return {};
  }

  void backward_weight(Saved& saved) override {
    const Tensor ids = saved.take("ids"), dy = saved.take("dy");
    if (part().is_whole()) {
      embedding_backward(dy, ids, table_.grad());
    } else {
      const OwnTokens own = own_tokens(ids, part());
      Tensor dfound =
          empty_beside(dy, {std::ssize(own.places), dy.dim(1)}, dy.dtype(), Where::current());
      const int64_t bytes = dy.nbytes() / std::max<int64_t>(1, dy.dim(0));
      detail::copy_rows(
          dy, [&](int64_t i) { return own.places[static_cast<size_t>(i)] * bytes; }, dfound,
          [&](int64_t i) { return i * bytes; }, dfound.dim(0), bytes);
      embedding_backward(dfound, own.ids, table_.grad());
    }
    table_.done();
  }

  void add_parameters(std::vector<ParameterPtr>& to) override { to.push_back(table_.parameter()); }
  const ParameterPtr& table() const { return table_.parameter(); }

 private:
  const Part& part() const { return table_.parameter()->part; }

  Use table_;  // (V/tp, C)
  SummedOutput g_;
};

// ---- the loss --------------------------------------------------------------------------------------

// What each rank sends in the loss, besides the ring's factor 2(tp-1)/tp: three numbers a token, against V
// if the logits were gathered.
constexpr int64_t vocab_parallel_loss_numbers(int64_t N) { return 3 * N; }

// The loss of logits (N, V/tp) against targets i32 (N), in words of the whole vocabulary; the same on all ranks.
inline CrossEntropy vocab_parallel_cross_entropy(const Tensor& logits, const Tensor& targets,
                                                 double scale, Communicator tp = {},
                                                 Where where = Where::current()) {
  if (axis_size(tp) == 1) return cross_entropy(logits, targets, scale, where);
  const char* const operation = "vocab_parallel_cross_entropy";
  expect_dims(operation, "logits", logits, 2, "(N, V/tp)", where);
  expect_shape(operation, "targets", targets, {logits.dim(0)}, where);
  const int64_t N = logits.dim(0), held = logits.dim(1), first = axis_rank(tp) * held;
  detail::expect_ids(operation, targets, axis_size(tp) * held, where);
  charge(cross_entropy_cost(logits.dtype(), N, held));
  CrossEntropy out{0, empty_beside(logits, {N}, logits.dtype(), where),
                   empty_beside(logits, {N}, logits.dtype(), where)};
  Tensor& lse = out.log_sum_exp;  // first this rank's own, then over all
  Tensor sums = empty_beside(logits, {N, 2}, logits.dtype(), where);  // e^(l_r - m); target's logit
  const auto each_token = [&](auto body) {                            // nothing on meta
    if (logits.device() == Device::meta) return;
    visit_real(logits.dtype(), where, [&]<class Real>(Type<Real>) {
      const Real* x = logits.data<Real>(where);
      const int32_t* target = targets.data<int32_t>(where);
      Real *l = lse.data<Real>(), *loss = out.losses.data<Real>(), *sum = sums.data<Real>();
      parallel_for(N, rows_per_thread(held), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          body(x + n * held, target[n] - first, l[n], loss[n], sum + 2 * n);
      });
    });
  };
  each_token([&](const auto* row, int64_t, auto& l, auto& most, auto*) {
    l = most = detail::log_sum_exp(row, held);
  });
  tp.all_reduce(out.losses, ReduceOp::max, {.label = "tp.loss"}, where);
  each_token([&](const auto* row, int64_t own, auto& l, auto& most, auto* sum) {
    sum[0] = std::exp(l - most);
    sum[1] = own >= 0 && own < held ? row[own] : 0;
  });
  tp.all_reduce(sums, ReduceOp::sum, {.label = "tp.loss"}, where);
  each_token([&](const auto*, int64_t, auto& l, auto& loss, auto* sum) {
    l = loss + std::log(sum[0]);  // loss holds m until here
    loss = l - sum[1];
  });
  if (logits.device() == Device::meta) return out;
  for (const double loss : out.losses.values()) out.loss += scale * loss;
  return out;
}

// Writes dlogits (N, V/tp) over the logits themselves. Nothing is sent.
inline void vocab_parallel_cross_entropy_backward_in_place(Tensor& logits, const Tensor& targets,
                                                           const Tensor& log_sum_exp, double scale,
                                                           const Communicator& tp = {},
                                                           Where where = Where::current()) {
  if (axis_size(tp) == 1)
    return cross_entropy_backward_in_place(logits, targets, log_sum_exp, scale, where);
  const char* const operation = "vocab_parallel_cross_entropy_backward";
  expect_dims(operation, "logits", logits, 2, "(N, V/tp)", where);
  expect_shape(operation, "targets", targets, {logits.dim(0)}, where);
  expect_shape(operation, "log_sum_exp", log_sum_exp, {logits.dim(0)}, where);
  const int64_t N = logits.dim(0), held = logits.dim(1), first = axis_rank(tp) * held;
  charge(cross_entropy_backward_cost(logits.dtype(), N, held));
  if (logits.device() == Device::meta) return;
  visit_real(logits.dtype(), where, [&]<class Real>(Type<Real>) {
    Real* x = logits.data<Real>(where);
    const Real* lse = log_sum_exp.data<Real>(where);
    const int32_t* target = targets.data<int32_t>(where);
    const Real by = static_cast<Real>(scale);
    parallel_for(N, rows_per_thread(held), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        detail::scaled_softmax_row(x + n * held, held, lse[n], by);
        const int64_t own = target[n] - first;
        if (own >= 0 && own < held) x[n * held + own] -= by;
      }
    });
  });
}

}  // namespace yotta
