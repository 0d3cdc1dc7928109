#include "yotta/nn/cpu/attention_rows.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace yotta;
using namespace yotta::detail;

// The bodies on the CPU, one row after the other; on Device::cuda they are in
// cuda_kernels_test.cpp.

TEST_CASE("rows: where queries and keys lie, and who sees whom") {
  const AttentionRows at{10, 4, 6, 2, 8, 3, 5, -1};
  CHECK(at.q(1, 2, 4) == ((1 * 10 + 5) * 6 + 4) * 8);
  CHECK(at.k(1, 2, 1) == ((1 * 10 + 7) * 2 + 1) * 8);
  CHECK(at.shared(2) == 0);
  CHECK(at.shared(3) == 1);
  CHECK(at.seen(0) == 0);
  CHECK(at.seen(3) == 3);
  CHECK(at.first_query(0) == 1);
  const AttentionRows later{10, 4, 6, 2, 8, 0, 0, 9};
  CHECK(later.seen(0) == 4);
  CHECK(later.first_query(3) == 0);
}

TEST_CASE_TEMPLATE("one query: o and L by the formula; its gradients by hand", Real, float,
                   double) {
  // d = 1, two tokens: query 1 sees keys 0 and 1 with scores q k0 and q k1.
  const AttentionRows at{2, 2, 1, 1, 1, 0, 0, 0};
  const std::vector<Real> q = {1, 2}, k = {0.5, -0.25}, v = {3, 5}, dout = {0, 1};
  const double e0 = std::exp(1.0), e1 = std::exp(-0.5), p0 = e0 / (e0 + e1), p1 = e1 / (e0 + e1);
  const double out = p0 * 3 + p1 * 5;
  std::vector<Real> o(2, std::numeric_limits<Real>::quiet_NaN()), L(2), dq(2), dk(2), dv(2);
  const LaneTeam<Real> team;
  const BlockwiseRow<Real> forward{at, q.data(), k.data(), v.data(), o.data(), L.data()};
  for (int64_t i : {0, 1}) forward(i, team);
  CHECK(o[0] == 3);
  CHECK(std::abs(o[1] - out) <= 1e-6);
  CHECK(std::abs(L[1] - std::log(e0 + e1)) <= 1e-6);
  const BlockwiseSaved<Real> saved{at,       q.data(),    k.data(), v.data(),
                                   o.data(), dout.data(), L.data()};
  for (int64_t i : {0, 1}) {
    BlockwiseQueryGradient<Real>{saved, dq.data()}(i, team);
    BlockwiseKeyGradient<Real>{saved, dk.data(), dv.data()}(i, team);
  }
  const double ds0 = p0 * (3 - out), ds1 = p1 * (5 - out);
  CHECK(std::abs(dq[1] - (ds0 * 0.5 - ds1 * 0.25)) <= 1e-6);
  CHECK(std::abs(dk[0] - ds0 * 2) <= 1e-6);
  CHECK(std::abs(dk[1] - ds1 * 2) <= 1e-6);
  CHECK(std::abs(dv[0] - p0) <= 1e-6);
  CHECK(std::abs(dv[1] - p1) <= 1e-6);

  // plain keeps P, and gives the same
  std::vector<Real> P(4, std::numeric_limits<Real>::quiet_NaN()),
      plain(2, std::numeric_limits<Real>::quiet_NaN()), dS(4), dq2(2), dk2(2), dv2(2);
  for (int64_t i : {0, 1}) {
    PlainProbabilities<Real>{at, q.data(), k.data(), P.data(), P.data()}(i, team);
    PlainOutput<Real>{at, P.data(), v.data(), nullptr, 1, plain.data()}(i, team);
  }
  CHECK(P[0] == 1);
  CHECK(P[1] == 0);
  CHECK(std::abs(plain[1] - out) <= 1e-6);
  for (int64_t i : {0, 1})
    PlainQueryGradient<Real>{at,      P.data(), k.data(),  v.data(),  dout.data(),
                             nullptr, 1,        dS.data(), dq2.data()}(i, team);
  for (int64_t i : {0, 1})
    PlainKeyGradient<Real>{at,      P.data(), dS.data(),  q.data(),  dout.data(),
                           nullptr, 1,        dk2.data(), dv2.data()}(i, team);
  for (size_t i : {0, 1}) {
    CHECK(std::abs(dq2[i] - dq[i]) <= 1e-6);
    CHECK(std::abs(dk2[i] - dk[i]) <= 1e-6);
    CHECK(std::abs(dv2[i] - dv[i]) <= 1e-6);
  }
  const uint8_t mask[] = {1, 0, 0, 1};
  CHECK(weight(P.data(), mask, Real{2}, 2) == 0);
  CHECK(weight(P.data(), mask, Real{2}, 3) == 2 * P[3]);
}
