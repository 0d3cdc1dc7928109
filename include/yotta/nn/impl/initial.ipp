// The bodies of nn/initial.hpp.
#pragma once

#include "yotta/nn/initial.hpp"

#include "yotta/core/parallel_for.hpp"
#include "yotta/core/random.hpp"

namespace yotta {

YOTTA_INLINE void fill_initial(Tensor& to, const ShardRange& range, Initial initial, uint64_t seed,
                               std::string_view name, int64_t first) {
  if (initial.deviation == 0) return to.fill(initial.constant);
  if (to.device() == Device::meta) return;
  if (to.device() == Device::cuda) {  // drawn by the host: the same bits everywhere
    const DeviceScope scope(Device::cpu);
    Tensor drawn = Tensor::empty(to.shape(), to.dtype());
    fill_initial(drawn, range, initial, seed, name, first);
    return to.copy_from(drawn);
  }
  const Random random(seed, name);
  visit(to.dtype(), [&]<class T>(Type<T>) {
    T* values = to.data<T>();
    parallel_for(to.numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t r = (first + i) / range.columns, c = (first + i) % range.columns;
        const int64_t index = (range.first_row + r) * range.all_columns() + range.first_column + c;
        const bool is_padding = r >= range.rows_in_whole();
        values[i] = static_cast<T>(
            is_padding ? 0 : initial.deviation * random.normal(static_cast<uint64_t>(index)));
      }
    });
  });
}

}  // namespace yotta
