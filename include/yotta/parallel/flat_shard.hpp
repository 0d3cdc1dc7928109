// Flat shards: the parameters of a unit as one array, cut into equal parts, one a rank.
//
//     parameters     w0 (3, 2)       b0 (3)    w1 (2, 3)
//     flat           [ 0 1 2 3 4 5 | 0 1 2 | 0 1 2 3 4 5 | . ]        padded to a multiple of N = 4
//     ranks            └─ 0 ─┘ └── 1 ──┘ └── 2 ──┘ └── 3 ──┘
//     rank 1 holds            4 5 of w0, 0 1 of b0                   two pieces
//
// One array for many parameters makes few large messages; equal parts are what all_gather and
// reduce_scatter want. A part cuts through matrices wherever it falls, and may hold the end of a matrix and
// the whole of a bias. So the optimizer does not see the part: it sees its pieces, each an ordinary
// Parameter with the name of the one it is cut from, which says whether its weights decay.
//
//     layer's Parameter      value: a view into the flat array while that is gathered, undefined after
//     piece's Parameter      value: a view into this rank's part, always there; grad: its own
//
// Cost: at most N - 1 numbers of padding a unit. What is done to each number alone (SGD, AdamW) does not
// see the cut; what needs a whole matrix would.
// References: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023, section 4.2
// (FlatParameter).
#pragma once

#include <algorithm>
#include <vector>

#include "yotta/nn/parameter.hpp"

namespace yotta {

// What `make` returns, its parameters shapes alone: without values, and counted on no ledger. FlatLayout draws the
// values of each rank's part, so that the whole is never held: as_shapes([&] { return Transformer(config); }).
template <class Make>
auto as_shapes(Make make) {
  RankContext uncounted;
  uncounted.rank = context().rank, uncounted.size = context().size;
  uncounted.device = Device::meta;
  const ContextScope scope(uncounted);
  return make();
}

// Where a whole parameter lies in the flat array.
struct FlatPlace {
  ParameterPtr parameter;
  Shape shape;
  int64_t begin = 0, end = 0;
};

// The part of a parameter that a rank holds: numbers [first, first + n) of its `whole` ones, row-major.
struct ParameterShard {
  ParameterPtr parameter;  // value, grad (n)
  Shape whole;
  int64_t first = 0;
};

class FlatLayout {
 public:
  FlatLayout(const std::vector<ParameterPtr>& parameters, int ranks, Where where = Where::current())
      : ranks_(ranks) {
    for (const ParameterPtr& each : parameters) {
      if (places_.empty()) dtype_ = each->value.dtype();
      if (each->value.dtype() != dtype_)
        fail(where, "{} is {}, and {} in the same flat array is {}; one array holds one type",
             each->name, name(each->value.dtype()), places_.front().parameter->name, name(dtype_));
      places_.push_back({each, each->value.shape(), count_, count_ + each->value.numel()});
      count_ = places_.back().end;
    }
  }

  const std::vector<FlatPlace>& places() const { return places_; }
  DType dtype() const { return dtype_; }
  int64_t count() const { return count_; }                               // without padding
  int64_t shard_size() const { return (count_ + ranks_ - 1) / ranks_; }  // of each rank
  int64_t size() const { return shard_size() * ranks_; }                 // with padding

  // Numbers [begin, end) of the flat array: a copy of the parameters' values, or of parameters that are shapes alone
  // their initial values, drawn here. The padding is zero.
  Tensor copy_part(int64_t begin, int64_t end) const {
    const MemoryScope memory(MemoryKind::parameters);
    Tensor part = Tensor::zeros({end - begin}, dtype_);
    for (const FlatPlace& place : places_) {
      const int64_t first = std::max(place.begin, begin), last = std::min(place.end, end);
      if (first >= last) continue;
      const Parameter& from = *place.parameter;
      Tensor to = part.rows(first - begin, last - begin);
      if (from.value.device() == Device::meta)
        fill_initial(to, from.range, from.initial, from.seed, from.name, first - place.begin);
      else
        to.copy_from(from.value.reshape({-1}).rows(first - place.begin, last - place.begin));
    }
    return part;
  }

  // The pieces in numbers [begin, begin + part.numel()) of the flat array; their values are views of `part`.
  std::vector<ParameterShard> cut_pieces(const Tensor& part, int64_t begin) const {
    std::vector<ParameterShard> pieces;
    for (const FlatPlace& place : places_) {
      const int64_t first = std::max(place.begin, begin);
      const int64_t last = std::min(place.end, begin + part.numel());
      if (first >= last) continue;
      auto piece =
          std::make_shared<Parameter>(*place.parameter);  // its name, and whether it decays
      piece->value = part.rows(first - begin, last - begin);
      piece->grad = {};
      piece->uses = 1;
      piece->on_grad_ready = nullptr;
      pieces.push_back({std::move(piece), place.shape, first - place.begin});
    }
    return pieces;
  }

  // Let the parameters' values, or gradients, be views of a flat array, or nothing.
  void set_values(const Tensor& flat) const {
    for (const FlatPlace& place : places_) place.parameter->value = view(flat, place);
  }
  // Gradients that are there already (a checkpointed slice makes them in its dgrad) are taken along.
  void set_gradients(const Tensor& flat) const {
    for (const FlatPlace& place : places_) {
      Tensor in_flat = view(flat, place);
      if (place.parameter->grad.defined()) in_flat.copy_from(place.parameter->grad);
      place.parameter->grad = in_flat;
    }
  }
  void drop_values() const {
    for (const FlatPlace& place : places_) place.parameter->value = {};
  }
  void drop_gradients() const {
    for (const FlatPlace& place : places_) place.parameter->grad = {};
  }

 private:
  static Tensor view(const Tensor& flat, const FlatPlace& place) {
    return flat.rows(place.begin, place.end).reshape(place.shape);
  }

  std::vector<FlatPlace> places_;
  DType dtype_ = DType::f32;
  int64_t count_ = 0;
  int ranks_;
};

}  // namespace yotta
