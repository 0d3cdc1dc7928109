#include "gpu_attention.hpp"

#include "gpu_tools.hpp"
#include "yotta/device/flash_attention_rungs.hpp"

namespace yotta::bench {
namespace {

// P = softmax(S / sqrt(d)) in place: S (rows, T) in bf16, T rows for each head. Block 4 warps, one
// for each row.
__global__ void softmax_in_place(bfloat16* s, int64_t rows, int T, bool causal, float scale) {
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.x / 32;
  if (row >= rows) return;
  bfloat16* scores = s + row * T;
  const int lane = threadIdx.x % 32, seen = causal ? static_cast<int>(row % T) + 1 : T;
  const auto score = [&](int key) {
    return key < seen ? scale * static_cast<float>(scores[key]) : -INFINITY;
  };
  float m = -INFINITY, l = 0;
  for (int key = lane; key < T; key += 32) m = fmaxf(m, score(key));
  m = warp_max(m);
  for (int key = lane; key < T; key += 32) l += exp_below(score(key), m);
  l = warp_sum(l);
  for (int key = lane; key < T; key += 32) store_one(scores + key, exp_below(score(key), m) / l);
}

// What attention is without a kernel of its own: S = Q K' and O = P V by cuBLAS, softmax between.
// Rows are columns to cuBLAS, so it computes S' = K Q' and O' = V' P'.
void attention_of_cublas(const Cublas& cublas, const AttentionArrays<bfloat16>& x, bfloat16* s,
                         const AttentionShape& shape) {
  const float one = 1, zero = 0;
  const int T = shape.Tq, d = shape.d, width = shape.H * d;
  const int64_t scores = int64_t{T} * T, sequence = int64_t{T} * width;
  for (int b = 0; b < shape.B; ++b)
    check_cublas(cublasGemmStridedBatchedEx(
        cublas, CUBLAS_OP_T, CUBLAS_OP_N, T, T, d, &one, x.k + b * sequence, CUDA_R_16BF, width, d,
        x.q + b * sequence, CUDA_R_16BF, width, d, &zero, s + b * shape.H * scores, CUDA_R_16BF, T,
        scores, shape.H, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  launch(softmax_in_place, attention_blocks(shape.query_rows(), 4), 128, 0, nullptr, s,
         shape.query_rows(), T, shape.causal, 1 / sqrtf(static_cast<float>(d)));
  for (int b = 0; b < shape.B; ++b)
    check_cublas(cublasGemmStridedBatchedEx(
        cublas, CUBLAS_OP_N, CUBLAS_OP_N, d, T, T, &one, x.v + b * sequence, CUDA_R_16BF, width, d,
        s + b * shape.H * scores, CUDA_R_16BF, T, scores, &zero, x.o + b * sequence, CUDA_R_16BF,
        width, d, shape.H, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

// One setting's numbers on the device, in bf16 and in f32, and what is measured of them.
class Measurement {
 public:
  Measurement(const AttentionShape& shape, const ShortestOfBatches& shortest)
      : shape_(shape),
        shortest_(shortest),
        q_(numbers("q")),
        k_(numbers("k")),
        v_(numbers("v")),
        dout_(numbers("dout")),
        o_(q_.size()),
        L_(static_cast<size_t>(shape.query_rows())) {}

  std::vector<GpuAttention> all() {
    with_cublas();
    if (shape_.Tq <= 2048) in_f32();
    with_head_size(shape_, [&]<int d>() {
      forward("FlashAttention-2, mma.sync",
              [&] { run_flash_attention<FlashWarps<d, 128, 64, 32>>(bf16(), shape_); });
      backward<d>();
    });
    return rows_;
  }

 private:
  std::vector<bfloat16> numbers(const char* name) const {
    return random_numbers<bfloat16>(static_cast<size_t>(shape_.query_numbers()), name, 4);
  }
  AttentionArrays<bfloat16> bf16() {
    return {q_.data(), k_.data(), v_.data(), o_.data(), L_.data()};
  }

  // `products` of 2 T^2 d FLOPs a head: forward 2, backward 5.
  double tflops(int products, const std::function<void()>& run) const {
    const double seconds = shortest_([&](int calls) { return seconds_by_events(calls, run); });
    const double rows = static_cast<double>(shape_.query_rows());
    return products * 2 * rows * shape_.Tk * shape_.d / (shape_.causal ? 2 : 1) / seconds * 1e-12;
  }
  template <class Run>
  void forward(const char* name, const Run& run) {
    check_cuda(cudaMemset(o_.data(), 0xff, o_.size() * sizeof(bfloat16)));  // NaN
    const double rate = tflops(2, run);
    rows_.push_back({name, rate, largest_difference(o_.to_host(), expected_)});
  }

  void with_cublas() {
    const Cublas cublas;
    DeviceArray<bfloat16> s(static_cast<size_t>(shape_.query_rows() * shape_.Tk));
    const double rate = tflops(2, [&] { attention_of_cublas(cublas, bf16(), s.data(), shape_); });
    expected_ = o_.to_host();
    rows_.push_back({"cuBLAS, softmax, cuBLAS", rate, 0});
  }

  // The rungs without tensor cores.
  void in_f32() {
    const auto wide = [](const DeviceArray<bfloat16>& x) {
      const std::vector<bfloat16> host = x.to_host();
      return DeviceArray<float>(std::vector<float>(host.begin(), host.end()));
    };
    const DeviceArray<float> q = wide(q_), k = wide(k_), v = wide(v_);
    DeviceArray<float> o(q.size()), l(L_.size());
    const AttentionArrays<float> x = {q.data(), k.data(), v.data(), o.data(), L_.data()};
    const auto add = [&](const char* name, const std::function<void()>& run) {
      check_cuda(cudaMemset(o.data(), 0xff, o.size() * sizeof(float)));
      const double rate = tflops(2, run);
      rows_.push_back({name, rate, largest_difference(o.to_host(), expected_)});
    };
    {
      DeviceArray<float> s(static_cast<size_t>(shape_.query_rows() * shape_.Tk));
      add("three kernels, f32", [&] { run_unfused_attention(x, s.data(), shape_); });
    }
    add("online rows, f32", [&] { run_online_attention(x, shape_); });
    with_head_size(shape_, [&]<int d>() {
      add("FlashAttention, f32",
          [&] { run_flash_tile<FlashTile<d, 32, 32, 128>>(x, l.data(), shape_); });
    });
  }

  // Both orders of dq; their difference is that of two orders of one sum.
  template <int d>
  void backward() {
    using T = FlashSquare<d, 64>;
    DeviceArray<float> D(L_.size()), dq(q_.size()), dk(k_.size()), dv(v_.size());
    const AttentionGradientArrays<bfloat16> x = {q_.data(),    k_.data(), v_.data(), o_.data(),
                                                 dout_.data(), L_.data(), D.data(),  dq.data(),
                                                 dk.data(),    dv.data()};
    const double fixed = tflops(5, [&] { run_flash_backward<T>(x, shape_, SumOrder::fixed); });
    const std::vector<float> first = dq.to_host();
    const double free =
        tflops(5, [&] { run_flash_backward<T>(x, shape_, SumOrder::as_blocks_come); });
    rows_.push_back(
        {"backward, dq by atomics", free, largest_difference(dq.to_host(), first), true});
    rows_.push_back({"backward, fixed order", fixed, 0, true});
  }

  AttentionShape shape_;
  const ShortestOfBatches& shortest_;
  DeviceArray<bfloat16> q_, k_, v_, dout_, o_;
  DeviceArray<float> L_;
  std::vector<bfloat16> expected_;
  std::vector<GpuAttention> rows_;
};

}  // namespace

std::string gpu_name() { return first_gpu(); }

std::vector<GpuAttention> measure_gpu_attention(const AttentionSetting& setting,
                                                const ShortestOfBatches& shortest) {
  const int H = setting.heads();
  return Measurement({.B = setting.sequences(),
                      .Tq = setting.T,
                      .Tk = setting.T,
                      .H = H,
                      .Hkv = H,
                      .d = setting.d,
                      .causal = setting.causal},
                     shortest)
      .all();
}

std::vector<GpuDecoding> measure_gpu_decoding(const DecodingSetting& setting,
                                              const ShortestOfBatches& shortest) {
  using T = FlashWarps<128, 16, 64, 16>;
  const AttentionShape shape = {.B = setting.sequences,
                                .Tq = 1,
                                .Tk = setting.keys,
                                .H = setting.H,
                                .Hkv = setting.Hkv,
                                .d = 128,
                                .causal = true};
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, 0));
  const int most = splits_for(shape, 4 * properties.multiProcessorCount, T::BK);
  const auto queries = static_cast<size_t>(shape.query_numbers()),
             rows = static_cast<size_t>(shape.query_rows()),
             keys = static_cast<size_t>(shape.key_numbers());
  const DeviceArray<bfloat16> q(random_numbers<bfloat16>(queries, "q", 4)),
      k(random_numbers<bfloat16>(keys, "k", 4)), v(random_numbers<bfloat16>(keys, "v", 4));
  DeviceArray<bfloat16> o(queries);
  DeviceArray<float> L(rows), partial_o(most * queries), partial_L(most * rows);
  const AttentionArrays<bfloat16> x = {q.data(), k.data(), v.data(), o.data(), L.data()};
  std::vector<GpuDecoding> all;
  const auto add = [&](const char* name, int splits, const std::function<void()>& run) {
    const double seconds = shortest([&](int calls) { return seconds_by_events(calls, run); });
    all.push_back({name, splits, static_cast<double>(cache_bytes(shape)) / seconds * 1e-9});
  };
  const auto decode = [&](int splits) {
    run_flash_decoding<T>(x, partial_o.data(), partial_L.data(), splits, shape);
  };
  add("a block a query head", 1, [&] { run_flash_attention<T>(x, shape); });
  add("a block a group", 1, [&] { decode(1); });
  add("a group's keys split", most, [&] { decode(most); });
  return all;
}

}  // namespace yotta::bench
