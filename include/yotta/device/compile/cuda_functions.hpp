// The arithmetic of fused kernels on a GPU, one number a thread: the text at the top of generated
// CUDA source. Its functions have the names of those in lanes.hpp, so expressions are the same.
//
// fold joins what the 256 threads of a block have into one number: five shuffles within a warp, one
// number a warp through shared memory.
#pragma once

namespace yotta {

inline constexpr const char* cuda_functions = R"(typedef Real V;
enum { lanes = 1 };
__device__ inline V spread(Real x) { return x; }
__device__ inline Real first(V v) { return v; }
__device__ inline V count_from(long c) { return Real(c); }
__device__ inline V load(const Real* from, long) { return *from; }
__device__ inline void store(Real* to, V v, long) { *to = v; }
__device__ inline void stream(Real* to, V v, long) { *to = v; }
__device__ inline void store_one(Real* to, V v) { if (threadIdx.x == 0) *to = v; }
__device__ inline void fetch(const Real*) {}
__device__ inline void fetch_to_write(Real*) {}
__device__ inline V among(V v, long, V) { return v; }
__device__ inline V infinity() { return Real(1e300) * Real(1e300); }
__device__ inline V larger(V a, V b) { return a > b ? a : b; }
__device__ inline V less(V a, V b) { return a < b ? 1 : 0; }
__device__ inline V choose(V a, V b, V c) { return a != 0 ? b : c; }
__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }
__device__ inline float sqrt_of(float x) { return sqrtf(x); }
__device__ inline double sqrt_of(double x) { return sqrt(x); }
__device__ inline unsigned high_word(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
struct Draws {};  // a thread draws one number at a time
__device__ inline V keep(Draws, long index, unsigned threshold, unsigned key0, unsigned key1,
                         unsigned name0, unsigned name1) {
  unsigned c[4] = {unsigned(index / 4), unsigned(index / 4 >> 32), name0, name1};
  for (int round = 0; round < 10; ++round) {
    const unsigned a = high_word(c[0], 0xD2511F53u), b = high_word(c[2], 0xCD9E8D57u);
    const unsigned low_a = c[0] * 0xD2511F53u, low_b = c[2] * 0xCD9E8D57u;
    c[0] = b ^ c[1] ^ key0;
    c[1] = low_b;
    c[2] = a ^ c[3] ^ key1;
    c[3] = low_a;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c[index % 4] >= threshold ? 1 : 0;
}
template <class Join>
__device__ inline Real fold(Real v, Join join) {
  __shared__ Real of_warp[8];
  for (int step = 16; step > 0; step /= 2) v = join(v, __shfl_xor_sync(0xffffffffu, v, step));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = of_warp[0];
  for (int warp = 1; warp < 8; ++warp) v = join(v, of_warp[warp]);
  __syncthreads();
  return v;
}
struct Plus { __device__ Real operator()(Real a, Real b) const { return a + b; } };
struct Larger { __device__ Real operator()(Real a, Real b) const { return a > b ? a : b; } };
__device__ inline V fold_sum(V v) { return fold(v, Plus()); }
__device__ inline V fold_max(V v) { return fold(v, Larger()); }
)";

}  // namespace yotta
