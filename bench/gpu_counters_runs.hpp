// The kernels of lessons 02 to 08, each once, on small sizes; for the emulator's checks and for
// nvcc. (Lesson 05's are printed by its compiler: fused/print.cpp.)
#pragma once

#include <vector>

#include "yotta/device/device_memory.hpp"
#include "yotta/device/flash_attention_rungs.hpp"
#include "yotta/device/matmul_rungs.hpp"
#include "yotta/device/streams.hpp"
#include "yotta/device/tensor_cores_cuda_pipeline.hpp"
#include "yotta/device/tensor_cores_rungs.hpp"
#include "yotta/nn/cuda/block_mask_on_device.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

template <class T>
DeviceArray<T> small_numbers(int64_t count) {
  std::vector<T> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = T(static_cast<float>(i % 7) - 3.0f);
  return DeviceArray<T>(x);
}

// count(lesson, name, launch) for each.
template <class Count>
void count_matmuls(Count count) {
  constexpr int size = 128;
  const auto a = small_numbers<float>(size * size), b = small_numbers<float>(size * size);
  const auto a16 = small_numbers<bfloat16>(size * size), b16 = small_numbers<bfloat16>(size * size);
  DeviceArray<float> c(size * size);
  count("02", "shared tile", [&] {
    launch(matmul_shared_tile<32>, {size / 32, size / 32}, {32, 32}, 0, nullptr, a.data(), b.data(),
           c.data(), size, size, size);
  });
  for (const MatmulRung& rung : matmul_rungs)
    count("03", rung.name,
          [&] { rung.run(a.data(), b.data(), c.data(), size, size, size, nullptr); });
  using Small = Tiles<64, 64, 32, 32, 32>;
  for (const TensorCoreRung& rung : tensor_core_rungs<Small>)
    count("04", rung.name,
          [&] { rung.run(a16.data(), b16.data(), c.data(), size, size, size, nullptr); });
  count("04", "cuda::pipeline", [&] {
    run_tiles<Small, matmul_cuda_pipeline<Small, 3>, pipeline_bytes<Small, 3>()>(
        a16.data(), b16.data(), c.data(), size, size, size, nullptr);
  });
  count("06", "iterated map", [&] {
    launch(iterate_map<float>, size * size / 128, 128, 0, nullptr, a.data(), c.data(), size * size,
           4);
  });
}

template <class Count>
void count_attention(Count count) {
  constexpr AttentionShape shape = {
      .B = 1, .Tq = 64, .Tk = 64, .H = 2, .Hkv = 1, .d = 64, .causal = true};
  constexpr int splits = 2;
  const int64_t queries = shape.query_numbers(), keys = shape.key_numbers();
  const auto q = small_numbers<float>(queries), k = small_numbers<float>(keys),
             v = small_numbers<float>(keys);
  const auto q16 = small_numbers<bfloat16>(queries), k16 = small_numbers<bfloat16>(keys),
             v16 = small_numbers<bfloat16>(keys);
  const auto rows = static_cast<size_t>(shape.query_rows());
  DeviceArray<float> o(q.size()), L(rows), D(rows), room(splits * q.size()), sums(splits * rows);
  DeviceArray<float> dq(q.size()), dk(k.size()), dv(k.size());
  const AttentionArrays<float> x = {q.data(), k.data(), v.data(), o.data(), L.data()};
  const AttentionArrays<bfloat16, float> x16 = {q16.data(), k16.data(), v16.data(), o.data(),
                                                L.data()};
  using Warps = FlashWarps<64, 64, 32, 32>;
  count("07", "three kernels", [&] { run_unfused_attention(x, room.data(), shape); });
  count("07", "online rows", [&] { run_online_attention(x, shape); });
  count("07", "FlashAttention",
        [&] { run_flash_tile<FlashTile<64, 32, 32, 128>>(x, sums.data(), shape); });
  count("07", "FlashAttention-2, mma", [&] { run_flash_attention<Warps>(x16, shape); });
  count("07", "decoding, 2 splits", [&] {
    run_flash_decoding<FlashWarps<64, 16, 32, 16>>(x16, room.data(), sums.data(), splits, shape);
  });
  using Square = FlashSquare<64, 32>;
  const AttentionGradientArrays<float> gradients = {q16.data(), k16.data(), v16.data(), o.data(),
                                                    q16.data(), L.data(),   D.data(),   dq.data(),
                                                    dk.data(),  dv.data()};
  count("07", "backward, fixed order",
        [&] { run_flash_backward<Square>(gradients, shape, SumOrder::fixed); });
  count("07", "backward, dq by atomics",
        [&] { run_flash_backward<Square>(gradients, shape, SumOrder::as_blocks_come); });
  const auto causal = [&](int BQ, int BK) {
    return create_block_mask(Causal{}, {.queries = shape.Tq, .keys = shape.Tk, .BQ = BQ, .BK = BK});
  };
  const BlockMaskOnDevice<Warps> tiles(causal(Warps::BQ, Warps::BK), shape);
  count("08", "flex, a causal mask", [&] {
    run_flash_attention<Warps>(x16, shape, tiles.by_row(Causal{}), ScoreAsIs{}, KeyRows{shape});
  });
  const BlockMaskOnDevice<Square> squares(causal(Square::side, Square::side), shape);
  count("08", "flex, backward", [&] {
    run_flash_backward<Square>(gradients, shape, SumOrder::fixed, squares.by_column(Causal{}),
                               squares.by_row(Causal{}), ScoreAsIs{});
  });
}

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
