// narrow and cat: a range of a tensor along one dim, and tensors put together along one dim. Both
// are PyTorch's, arguments included.
//
//     x (B, T, C)          narrow(x, 1, 2, 2)         cat({a, b}, 1)
//     [ 0 1 2 3 4 5 ]      [ 2 3 ]                    [ 0 1 4 5 ]
//     [ 0 1 2 3 4 5 ]      [ 2 3 ]   (B, 2, C)        [ 0 1 4 5 ]
//
// Our tensors are contiguous, so narrow copies, unlike PyTorch's. Only where nothing has to move
// (all dims before it have size 1, or the range is all there is) the result is a view of x.
// Any type: bytes are moved, not numbers.
// Cost: no FLOPs; what is copied is read once and written once.
#pragma once

#include <span>

#include "yotta/nn/op.hpp"

namespace yotta {

// n numbers read and written.
constexpr OpCost copy_cost(const char* name, DType dtype, int64_t n) {
  return op_cost(name, dtype, 0, n, n);
}

// x[..., start to start + length, ...] along `dim`.
Tensor narrow(const Tensor& x, int dim, int64_t start, int64_t length,
              Where where = Where::current());

// The tensors one after the other along `dim`; they agree in type and in all other dims. Of a
// single tensor: that tensor, not a copy.
Tensor cat(std::span<const Tensor> tensors, int dim, Where where = Where::current());

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/nn/impl/narrow.ipp"
#endif
