// A tensor map: a description of a tensor in global memory, and of the box of it that one copy
// moves (cp_async_bulk_tensor.hpp). The host makes it, and a kernel gets it as a parameter:
//
//     const CUtensorMap map = tensor_map(x, {rows, columns}, {64, 64}, Swizzle::b128);
//     launch(kernel, grid, block, 0, nullptr, map);
//
//     __global__ void kernel(const __grid_constant__ CUtensorMap map) { ... &map ... }
//
// encode_tensor_map() takes the arguments of CUDA's cuTensorMapEncodeTiled, dimensions and boxes
// from the innermost one on. A description that breaks one of its rules throws an error with the
// rule.
//
// Swizzle. In shared memory the box lies row after row without gaps. With a swizzle its 16-byte
// chunks change places within each span of 32, 64 or 128 bytes: bits 4 to 6 of a byte's address are
// XORed with bits 7 to 9, as many of them as the span needs. So the same chunk of neighbouring rows
// lies in different banks.
//
//     span    bits          rows of `span` bytes: chunk c of row r lies at     repeats after
//     128     4-6 ^= 7-9    c ^ (r % 8)                                        1024 bytes
//     64      4-5 ^= 7-8    c ^ (r / 2 % 4)                                    512
//     32      4 ^= 7        c ^ (r / 4 % 2)                                    256
//
// Contract: 1 to 5 dimensions; no interleaved layouts, no packed types of 4 and 6 bits, no atoms of
// 32 and 64 bytes, and zeros outside of the tensor. References: CUDA Driver API,
// cuTensorMapEncodeTiled; PTX ISA, "Tensors", "Swizzling Modes".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "yotta/core/dtype.hpp"
#include "yotta/device/kernel.hpp"

#if defined(__CUDACC__)
#include <cuda.h>
#else
#define __grid_constant__

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
struct CUtensorMap {
  alignas(64) uint64_t opaque[16];
};
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_UINT8,
  CU_TENSOR_MAP_DATA_TYPE_UINT16,
  CU_TENSOR_MAP_DATA_TYPE_UINT32,
  CU_TENSOR_MAP_DATA_TYPE_INT32,
  CU_TENSOR_MAP_DATA_TYPE_UINT64,
  CU_TENSOR_MAP_DATA_TYPE_INT64,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
};
enum CUtensorMapInterleave {
  CU_TENSOR_MAP_INTERLEAVE_NONE,
  CU_TENSOR_MAP_INTERLEAVE_16B,
  CU_TENSOR_MAP_INTERLEAVE_32B
};
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B
};
enum CUtensorMapL2promotion {
  CU_TENSOR_MAP_L2_PROMOTION_NONE,
  CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B
};
enum CUtensorMapFloatOOBfill {
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
};
#endif

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The span within which chunks of 16 bytes change places, in bytes.
enum class Swizzle : uint8_t { none = 16, b32 = 32, b64 = 64, b128 = 128 };

// Where a byte of a box lies, both as distances from an address at which the pattern begins (a
// multiple of 1024 will do).
__host__ __device__ constexpr uint32_t swizzled_byte(uint32_t byte, Swizzle swizzle) {
  return byte ^ (byte >> 3 & (static_cast<uint32_t>(swizzle) - 16));
}

// The arguments of cuTensorMapEncodeTiled, from the innermost dimension on.
struct TensorMapArguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  uint32_t rank = 0;
  void* data = nullptr;
  std::array<uint64_t, 5> size = {};    // elements
  std::array<uint64_t, 4> stride = {};  // bytes from one element of dimension 1, 2, ... to the next
  std::array<uint32_t, 5> box = {};     // elements
  std::array<uint32_t, 5> element_stride = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

// Bytes of an element.
constexpr uint32_t bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 4;
  }
}
constexpr Swizzle swizzle_of(CUtensorMapSwizzle swizzle) {
  constexpr Swizzle all[] = {Swizzle::none, Swizzle::b32, Swizzle::b64, Swizzle::b128};
  return all[swizzle];
}
constexpr CUtensorMapSwizzle cuda_swizzle(Swizzle swizzle) {
  return swizzle == Swizzle::none  ? CU_TENSOR_MAP_SWIZZLE_NONE
         : swizzle == Swizzle::b32 ? CU_TENSOR_MAP_SWIZZLE_32B
         : swizzle == Swizzle::b64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                   : CU_TENSOR_MAP_SWIZZLE_128B;
}

// The rule that a description breaks; empty if it breaks none.
std::string broken_rule(const TensorMapArguments& map);
// Throws an error with the rule.
CUtensorMap encode_tensor_map(const TensorMapArguments& map, Where where = Where::current());

template <class T>
constexpr CUtensorMapDataType tensor_map_type() {
  if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if constexpr (std::is_same_v<T, double>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  if constexpr (std::is_same_v<T, bfloat16>) return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if constexpr (std::is_same_v<T, float16>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if constexpr (std::is_same_v<T, int32_t>) return CU_TENSOR_MAP_DATA_TYPE_INT32;
  return sizeof(T) == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
         : sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
         : sizeof(T) == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                          : CU_TENSOR_MAP_DATA_TYPE_UINT64;
}

// Of a tensor without gaps: size and box from the outermost dimension on, as in C.
template <class T, size_t rank>
CUtensorMap tensor_map(const T* data, const int64_t (&size)[rank], const uint32_t (&box)[rank],
                       Swizzle swizzle = Swizzle::none, Where where = Where::current()) {
  TensorMapArguments map{.type = tensor_map_type<T>(),
                         .rank = rank,
                         .data = const_cast<T*>(data),
                         .swizzle = cuda_swizzle(swizzle)};
  uint64_t stride = sizeof(T);
  for (size_t i = 0; i < rank; ++i) {
    map.size[i] = static_cast<uint64_t>(size[rank - 1 - i]);
    map.box[i] = box[rank - 1 - i];
    stride *= map.size[i];
    if (i + 1 < rank) map.stride[i] = stride;
  }
  return encode_tensor_map(map, where);
}

inline std::string broken_rule(const TensorMapArguments& map) {
  const uint32_t bytes = bytes_of(map.type);
  const auto address = reinterpret_cast<uintptr_t>(map.data);
  if (map.rank < 1 || map.rank > 5)
    return fmt::format("a tensor map has 1 to 5 dimensions, not {}", map.rank);
  if (map.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || map.swizzle > CU_TENSOR_MAP_SWIZZLE_128B ||
      map.type > CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ ||
      map.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return "interleaved layouts, swizzles of other atoms, packed types and NaN outside of the "
           "tensor "
           "are left out here";
  if (map.data == nullptr || address % 16 != 0)
    return fmt::format("the address of the tensor must be a multiple of 16, and is {:#x}", address);
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (map.size[i] < 1 || map.size[i] > uint64_t{1} << 32)
      return fmt::format("dimension {} must have 1 to 2^32 elements, not {}", i, map.size[i]);
    if (map.box[i] < 1 || map.box[i] > 256)
      return fmt::format("a box has 1 to 256 elements along each dimension; along {} it has {}", i,
                         map.box[i]);
    if (map.element_stride[i] < 1 || map.element_stride[i] > 8)
      return fmt::format("the step along each dimension is 1 to 8 elements; along {} it is {}", i,
                         map.element_stride[i]);
    if (i + 1 < map.rank && (map.stride[i] % 16 != 0 || map.stride[i] >= uint64_t{1} << 40))
      return fmt::format(
          "strides must be multiples of 16 bytes and less than 2^40; that of dimension "
          "{} is {}. Pad the rows",
          i + 1, map.stride[i]);
  }
  const uint32_t row = map.box[0] * bytes, span = static_cast<uint32_t>(swizzle_of(map.swizzle));
  if (row % 16 != 0)
    return fmt::format("a row of the box must be a multiple of 16 bytes; {} elements have {}",
                       map.box[0], row);
  if (map.swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && row > span)
    return fmt::format(
        "with a swizzle of {} bytes a row of the box has at most {} bytes; {} elements "
        "have {}. Let several copies fill tiles of that width",
        span, span, map.box[0], row);
  return {};
}

#if defined(__CUDACC__)

// The driver's function, which the runtime finds, so that no program needs to be linked with it.
inline CUtensorMap encode_tensor_map(const TensorMapArguments& map, Where where) {
  if (const std::string rule = broken_rule(map); !rule.empty()) fail(where, "tensor map: {}", rule);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                              cudaEnableDefault, &result),
             where);
  if (found == nullptr) fail(where, "tensor map: the driver has no cuTensorMapEncodeTiled");
  CUtensorMap encoded;
  const CUresult code = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found)(
      &encoded, map.type, map.rank, map.data, map.size.data(), map.stride.data(), map.box.data(),
      map.element_stride.data(), map.interleave, map.swizzle, map.l2_promotion, map.fill);
  if (code != CUDA_SUCCESS)
    fail(where, "tensor map: cuTensorMapEncodeTiled returns {}", static_cast<int>(code));
  return encoded;
}

#else

namespace emulator {

// What lies in the 128 bytes of a tensor map.
struct EncodedTensorMap {
  static constexpr uint32_t right_mark = 0x7e50a3a9u;
  uint32_t mark;
  uint8_t type, rank, swizzle;
  std::byte* data;
  uint64_t stride[4];
  uint32_t last[5];  // size - 1
  uint16_t box[5];
  uint8_t element_stride[5];
};
static_assert(sizeof(EncodedTensorMap) <= sizeof(CUtensorMap));

}  // namespace emulator

inline CUtensorMap encode_tensor_map(const TensorMapArguments& map, Where where) {
  if (const std::string rule = broken_rule(map); !rule.empty()) fail(where, "tensor map: {}", rule);
  emulator::EncodedTensorMap encoded = {};
  encoded.mark = emulator::EncodedTensorMap::right_mark;
  encoded.type = static_cast<uint8_t>(map.type);
  encoded.rank = static_cast<uint8_t>(map.rank);
  encoded.swizzle = static_cast<uint8_t>(map.swizzle);
  encoded.data = static_cast<std::byte*>(map.data);
  for (size_t i = 0; i < map.rank; ++i) {
    if (i + 1 < map.rank) encoded.stride[i] = map.stride[i];
    encoded.last[i] = static_cast<uint32_t>(map.size[i] - 1);
    encoded.box[i] = static_cast<uint16_t>(map.box[i]);
    encoded.element_stride[i] = static_cast<uint8_t>(map.element_stride[i]);
  }
  CUtensorMap all = {};
  std::memcpy(&all, &encoded, sizeof encoded);
  return all;
}

#endif

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta

#if !defined(__CUDACC__)
inline namespace YOTTA_DEVICE_BUILD {

// CUDA's own function; encode_tensor_map says which rule is broken.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, uint32_t rank,
                                       void* data, const uint64_t* size, const uint64_t* stride,
                                       const uint32_t* box, const uint32_t* element_stride,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion l2_promotion,
                                       CUtensorMapFloatOOBfill fill) {
  yotta::TensorMapArguments map{.type = type,
                                .rank = rank,
                                .data = data,
                                .interleave = interleave,
                                .swizzle = swizzle,
                                .l2_promotion = l2_promotion,
                                .fill = fill};
  for (uint32_t i = 0; i < rank && i < 5; ++i) {
    map.size[i] = size[i];
    map.box[i] = box[i];
    map.element_stride[i] = element_stride[i];
    if (i + 1 < rank) map.stride[i] = stride[i];
  }
  if (!yotta::broken_rule(map).empty()) return CUDA_ERROR_INVALID_VALUE;
  *out = yotta::encode_tensor_map(map);
  return CUDA_SUCCESS;
}

}  // namespace YOTTA_DEVICE_BUILD
#endif
