#include "yotta/nn/flash_decoding.hpp"

#include <doctest/doctest.h>

#include "nn/gradient_check.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
// The last token of causal attention over all of them, and the cache that decoding would have.
struct LastToken {
  Tensor q, expected;  // (B, H, d)
  KeyValueCache cache;
};
LastToken last_token(int64_t T, int64_t H, int64_t Hkv, DType dtype = DType::f64) {
  const int64_t B = 2, d = 8;
  const Tensor q = random_tensor({B, T, H, d}, "q", dtype);
  const KeyValueCache cache{random_tensor({B, T, Hkv, d}, "k", dtype),
                            random_tensor({B, T, Hkv, d}, "v", dtype), T};
  const Tensor o = flash_attention(q, cache.k, cache.v).o;
  const auto last = [&](const Tensor& x) {
    Tensor y = Tensor::empty({B, H, d}, dtype);
    for (int64_t b = 0; b < B; ++b)
      y.rows(b, b + 1).reshape({H, d}).copy_from(
          x.rows(b, b + 1).reshape({T, H, d}).rows(T - 1, T).reshape({H, d}));
    return y;
  };
  return {last(q), last(o), cache};
}
}  // namespace

TEST_CASE("decoding is the last row of attention, in any number of parts, grouped or not") {
  for (const int64_t Hkv : {1, 2, 4})
    for (const int64_t T : {1, 5, 300}) {
      const LastToken x = last_token(T, 4, Hkv);
      for (const int64_t parts : {1, 2, 3, 7})  // 7 parts of 5 keys: some are empty
        CHECK(largest_difference(flash_decode(x.q, x.cache, parts), x.expected) <= 1e-13);
    }
  const LastToken narrow = last_token(300, 4, 2, DType::bf16);
  CHECK(largest_difference(flash_decode(narrow.q, narrow.cache, 3), narrow.expected) <= 0.01);
}

TEST_CASE("tokens that are not there yet are not read") {
  LastToken x = last_token(40, 2, 1);
  x.cache.length = 30;
  const Tensor before = flash_decode(x.q, x.cache, 2);
  for (Tensor* each : {&x.cache.k, &x.cache.v})
    for (int64_t b = 0; b < 2; ++b)
      each->rows(b, b + 1).reshape({40, 8}).rows(30, 40).fill(std::nan(""));
  CHECK(same_bits(flash_decode(x.q, x.cache, 2), before));
}

TEST_CASE("a step reads the cache once for a group: multi-query divides its bytes by H") {
  const auto read = [](int64_t Hkv, int64_t parts) {
    RankContext self;
    const ContextScope scope(self);
    const DeviceScope meta(Device::meta);
    const KeyValueCache cache{Tensor::empty({3, 100, Hkv, 64}, DType::bf16),
                              Tensor::empty({3, 100, Hkv, 64}, DType::bf16), 100};
    flash_decode(Tensor::empty({3, 8, 64}, DType::bf16), cache, parts);
    CHECK(self.ledger.op("flash_decode").flops == 4 * 3 * 8 * 100 * 64);
    return self.ledger.op("flash_decode").bytes_read;
  };
  const double q = 3 * 8 * 64 * 2;
  for (const int64_t Hkv : {1, 2, 8})
    CHECK(read(Hkv, 1) == q + 3.0 * static_cast<double>(cache_bytes(DType::bf16, 100, Hkv, 64)));
  CHECK(read(1, 4) == read(1, 1) + 4 * 3 * 8 * 65 * 2);
}

TEST_CASE("decoding: errors") {
  LastToken x = last_token(5, 4, 2);
  x.cache.length = 6;
  CHECK(contains(message_of([&] { flash_decode(x.q, x.cache); }), "6 tokens long, in 1 parts"));
  x.cache.length = 5;
  CHECK(contains(message_of([&] { flash_decode(x.q, x.cache, 0); }), "in 0 parts"));
}
