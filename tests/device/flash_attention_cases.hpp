// The sizes that every attention kernel must get right, and how one is tried.
#pragma once

#include "support/attention_problem.hpp"
#include "yotta/device/flash_attention_rungs.hpp"

namespace yotta {

struct AttentionCase {
  AttentionShape shape;
  double logits = 1;
};

// Whole tiles and ragged ones, each d, causal and not, scores of +-1e4, grouped queries, one query,
// queries that see no key, one token, a few, one more than whole tiles have.
inline constexpr AttentionCase attention_cases[] = {
    {{.B = 1, .Tq = 64, .Tk = 64, .H = 1, .Hkv = 1, .d = 32, .causal = false}},
    {{.B = 2, .Tq = 37, .Tk = 37, .H = 2, .Hkv = 1, .d = 32, .causal = true}},
    {{.B = 1, .Tq = 33, .Tk = 70, .H = 1, .Hkv = 1, .d = 64, .causal = true}, 1e4},
    {{.B = 1, .Tq = 17, .Tk = 65, .H = 1, .Hkv = 1, .d = 128, .causal = false}},
    {{.B = 1, .Tq = 1, .Tk = 41, .H = 4, .Hkv = 2, .d = 32, .causal = true}},
    {{.B = 1, .Tq = 40, .Tk = 19, .H = 1, .Hkv = 1, .d = 32, .causal = true}},
    {{.B = 1, .Tq = 1, .Tk = 1, .H = 1, .Hkv = 1, .d = 64, .causal = true}},
    {{.B = 1, .Tq = 7, .Tk = 7, .H = 1, .Hkv = 1, .d = 128, .causal = false}},
    {{.B = 1, .Tq = 129, .Tk = 129, .H = 1, .Hkv = 1, .d = 32, .causal = true}},
};

// run(arrays) launches on device memory, in which results are NaN before.
template <class T, class Out = T, class Run>
void check_attention(const AttentionProblem& problem, double unit, Run run) {
  const AttentionShape& s = problem.shape;
  INFO("B ", s.B, " Tq ", s.Tq, " Tk ", s.Tk, " H ", s.H, " Hkv ", s.Hkv, " d ", s.d, " causal ",
       s.causal, " largest score ", problem.largest_score);
  const DeviceArray<T> q(converted<T>(problem.q)), k(converted<T>(problem.k)),
      v(converted<T>(problem.v));
  DeviceArray<Out> o(problem.o.size());
  DeviceArray<float> L(problem.L.size());
  run(AttentionArrays<T, Out>{q.data(), k.data(), v.data(), o.data(), L.data()});
  CHECK(difference(o.to_host(), problem.o) <= allowed(problem, unit) * problem.o_size);
  CHECK(difference(L.to_host(), problem.L) <= 1e-5 + 1e-6 * problem.largest_score);
}

// run(arrays) launches the backward pass on device memory.
template <class Run>
void check_backward(const AttentionProblem& problem, Run run) {
  const AttentionShape& s = problem.shape;
  INFO("B ", s.B, " Tq ", s.Tq, " Tk ", s.Tk, " H ", s.H, " Hkv ", s.Hkv, " d ", s.d, " causal ",
       s.causal, " largest score ", problem.largest_score);
  const DeviceArray<bfloat16> q(converted<bfloat16>(problem.q)), k(converted<bfloat16>(problem.k)),
      v(converted<bfloat16>(problem.v)), dout(converted<bfloat16>(problem.dout));
  const DeviceArray<float> o(converted<float>(problem.o)), L(converted<float>(problem.L));
  DeviceArray<float> D(problem.L.size()), dq(problem.q.size()), dk(problem.k.size()),
      dv(problem.k.size());
  run(AttentionGradientArrays<float>{q.data(), k.data(), v.data(), o.data(), dout.data(), L.data(),
                                     D.data(), dq.data(), dk.data(), dv.data()});
  const double share = allowed(problem, 0x1p-9);
  CHECK(difference(dq.to_host(), problem.dq) <= share * problem.dq_size);
  CHECK(difference(dk.to_host(), problem.dk) <= share * problem.dk_size);
  CHECK(difference(dv.to_host(), problem.dv) <= share * problem.dv_size);
}

}  // namespace yotta
