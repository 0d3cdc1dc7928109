// Flat shards: the parameters of a unit as one array, cut into equal parts, one per rank.
//
//     parameters     w0 (3, 2)       b0 (3)    w1 (2, 3)
//     flat           [ 0 1 2 3 4 5 | 0 1 2 | 0 1 2 3 4 5 | . ]     padded to a multiple of p = 4
//     ranks            └─ 0 ─┘ └── 1 ──┘ └── 2 ──┘ └── 3 ──┘
//     rank 1 holds            4 5 of w0, 0 1 of b0                 two parameter shards
//
// One array for many parameters makes few large messages. all_gather and reduce_scatter want equal
// parts. A part cuts through matrices wherever it falls, and may hold the end of a matrix and the
// whole of a bias. So the optimizer does not see the part: it sees the parameter shards in it. Each
// is an ordinary Parameter with the name of the one it is cut from, which says whether its weights
// decay.
//
//     layer's Parameter      value: a view into the flat array while it is gathered, else undefined
//     shard's Parameter      value: a view into this rank's part, always there; grad: its own
//
// Cost: at most p - 1 numbers of padding per unit. An optimizer that steps each number by itself
// (SGD, AdamW) does not notice the cut; one that needs whole matrices would.
// Letters: p ranks.
// References: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023, section
// 4.2 (FlatParameter).
#pragma once

#include <vector>

#include "yotta/nn/parameter.hpp"

namespace yotta {

// Returns what `make` returns, with parameters that are shapes alone: they have no values, and no
// ledger counts them. FlatLayout draws the values of each rank's part, so that nobody ever holds
// the whole: as_shapes([&] { return Transformer(config); }).
template <class Make>
auto as_shapes(Make make) {
  RankContext uncounted;
  uncounted.rank = context().rank, uncounted.size = context().size;
  uncounted.device = Device::meta;
  const ContextScope scope(uncounted);
  return make();
}

// Gives parameters that are shapes alone the initial values of their ranges, on context().device.
inline void materialise(const std::vector<ParameterPtr>& parameters) {
  const MemoryScope memory(MemoryKind::parameters);
  for (const ParameterPtr& each : parameters) {
    if (each->value.device() != Device::meta) continue;
    each->value = Tensor::empty(each->value.shape(), each->value.dtype());
    fill_initial(each->value, each->range, each->initial, each->seed, each->name);
  }
}

// Where a whole parameter lies in the flat array: numbers [begin, end).
struct FlatRange {
  ParameterPtr parameter;
  Shape shape;
  int64_t begin = 0, end = 0;
};

// What a rank holds of a parameter: numbers [first, first + n) of the `whole`, row-major.
struct ParameterShard {
  ParameterPtr parameter;  // value, grad (n)
  Shape whole;
  int64_t first = 0;
};

namespace detail {

inline Tensor view(const Tensor& flat, const FlatRange& range) {
  return flat.rows(range.begin, range.end).reshape(range.shape);
}

}  // namespace detail

class FlatLayout {
 public:
  // Errors: parameters of two types.
  FlatLayout(const std::vector<ParameterPtr>& parameters, int ranks, Where where = Where::current())
      : ranks_(ranks) {
    for (const ParameterPtr& each : parameters) {
      if (ranges_.empty()) dtype_ = each->value.dtype();
      if (each->value.dtype() != dtype_)
        fail(where, "{} is {}, and {} in the same flat array is {}; one array holds one type",
             each->name, name(each->value.dtype()), ranges_.front().parameter->name, name(dtype_));
      ranges_.push_back({each, each->value.shape(), count_, count_ + each->value.numel()});
      count_ = ranges_.back().end;
    }
  }

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  DType dtype() const { return dtype_; }
  int64_t count() const { return count_; }                               // without padding
  int64_t shard_size() const { return (count_ + ranks_ - 1) / ranks_; }  // of each rank
  int64_t size() const { return shard_size() * ranks_; }                 // with padding

  // Copies numbers [begin, end) of the flat array from the parameters' values. If the parameters
  // are shapes alone, draws their initial values instead. The padding is zero.
  Tensor copy_part(int64_t begin, int64_t end) const {
    const MemoryScope memory(MemoryKind::parameters);
    Tensor part = Tensor::zeros({end - begin}, dtype_);
    for (const FlatRange& range : ranges_) {
      const int64_t first = std::max(range.begin, begin), last = std::min(range.end, end);
      if (first >= last) continue;
      const Parameter& from = *range.parameter;
      Tensor to = part.rows(first - begin, last - begin);
      if (from.value.device() == Device::meta)
        fill_initial(to, from.range, from.initial, from.seed, from.name, first - range.begin);
      else
        to.copy_from(from.value.reshape({-1}).rows(first - range.begin, last - range.begin));
    }
    return part;
  }

  // The parameter shards in numbers [begin, begin + part.numel()) of the flat array. Their values
  // are views of `part`.
  std::vector<ParameterShard> cut_shards(const Tensor& part, int64_t begin) const {
    std::vector<ParameterShard> shards;
    for (const FlatRange& range : ranges_) {
      const int64_t first = std::max(range.begin, begin);
      const int64_t last = std::min(range.end, begin + part.numel());
      if (first >= last) continue;
      // A copy keeps the name, and whether the weights decay.
      auto shard = std::make_shared<Parameter>(*range.parameter);
      shard->value = part.rows(first - begin, last - begin);
      shard->grad = {};
      shard->uses = 1;
      shard->on_grad_ready = nullptr;
      shards.push_back({std::move(shard), range.shape, first - range.begin});
    }
    return shards;
  }

  // Makes the parameters' values, or gradients, views of a flat array. Gradients that are there
  // already (a checkpointed slice makes them in its dgrad) are taken along.
  void set_values(const Tensor& flat) const {
    for (const FlatRange& range : ranges_) range.parameter->value = detail::view(flat, range);
  }
  void set_gradients(const Tensor& flat) const {
    for (const FlatRange& range : ranges_) {
      Tensor in_flat = detail::view(flat, range);
      if (range.parameter->grad.defined()) in_flat.copy_from(range.parameter->grad);
      range.parameter->grad = in_flat;
    }
  }
  void drop_values() const {
    for (const FlatRange& range : ranges_) range.parameter->value = {};
  }
  void drop_gradients() const {
    for (const FlatRange& range : ranges_) range.parameter->grad = {};
  }

 private:
  std::vector<FlatRange> ranges_;
  DType dtype_ = DType::f32;
  int64_t count_ = 0;
  int ranks_;
};

}  // namespace yotta
