// The bodies of device/cp_async_bulk_tensor.hpp.
#pragma once

#include "yotta/device/cp_async_bulk_tensor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "yotta/device/impl/cp_async_bulk.ipp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {
namespace emulator {

// The box of a tensor that one copy moves.
class TensorBox {
 public:
  TensorBox(const char* word, const CUtensorMap* map, const int32_t* at, int dims, Where where)
      : word_(word), where_(where) {
    running_lane(word, where);
    if (reinterpret_cast<uintptr_t>(map) % 64 != 0)
      refuse_copy("the address of a tensor map must be a multiple of 64");
    std::memcpy(&map_, map, sizeof map_);
    if (map_.mark != EncodedTensorMap::right_mark)
      refuse_copy(
          "this is no tensor map. Encode it on the host with tensor_map() and pass it as a "
          "parameter: const __grid_constant__ CUtensorMap");
    if (map_.rank != dims)
      refuse_copy(fmt::format("{} coordinates for a tensor map of {} dimensions", dims, map_.rank));
    std::copy_n(at, dims, at_.begin());
    bytes_ = bytes_of(static_cast<CUtensorMapDataType>(map_.type));
    for (int i = 0; i < dims; ++i) {
      const uint32_t step = i == 0 ? 1 : map_.element_stride[i];
      count_[static_cast<size_t>(i)] = (map_.box[i] + step - 1) / step;
    }
  }

  // The pieces of a copy between global memory and a tile in shared memory.
  std::vector<CopyPiece> pieces(std::byte* tile, bool load) const {
    check_tile(tile);
    std::vector<CopyPiece> all;
    std::array<uint32_t, 5> index = {};
    uint32_t offset = 0;
    do {
      add_row(tile, offset, index, load, all);
      offset += count_[0] * bytes_;
    } while (advance(index));
    return all;
  }
  CUtensorMapDataType type() const { return static_cast<CUtensorMapDataType>(map_.type); }
  // Its span, in bytes.
  int swizzle() const {
    return static_cast<int>(swizzle_of(static_cast<CUtensorMapSwizzle>(map_.swizzle)));
  }

 private:
  void check_tile(const std::byte* tile) const {
    if (reinterpret_cast<uintptr_t>(tile) % 128 != 0)
      refuse_copy(
          "the address in shared memory must be a multiple of 128: __align__(128), or 1024 with a "
          "swizzle");
  }
  [[noreturn]] void refuse_copy(const std::string& why) const {
    refuse(where_, fmt::format("{}: {}", word_, why));
  }
  // The next row of the box, as an odometer.
  bool advance(std::array<uint32_t, 5>& index) const {
    for (size_t i = 1; i < map_.rank; ++i) {
      if (++index[i] < count_[i]) return true;
      index[i] = 0;
    }
    return false;
  }
  // A row begins at `offset` of the tile. Chunks of 16 bytes may change places.
  void add_row(std::byte* tile, uint32_t offset, const std::array<uint32_t, 5>& index, bool load,
               std::vector<CopyPiece>& all) const {
    const auto swizzle = swizzle_of(static_cast<CUtensorMapSwizzle>(map_.swizzle));
    const auto begin = reinterpret_cast<uintptr_t>(tile);
    std::byte* const row = row_of(index);
    const uint32_t per_chunk = 16 / bytes_;
    for (uint32_t first = 0; first < count_[0]; first += per_chunk) {
      const auto linear = static_cast<uint32_t>((begin & 1023) + offset + first * bytes_);
      std::byte* const chunk = tile + swizzled_byte(linear, swizzle) - (begin & 1023);
      for (uint32_t i = 0; i < per_chunk; ++i) {
        const int64_t column = int64_t{at_[0]} + first + i;
        const bool inside = row != nullptr && column >= 0 && column <= map_.last[0];
        add_element(chunk + i * bytes_, inside ? row + column * bytes_ : nullptr, load, all);
      }
    }
  }
  // The address of column 0; null for a row outside of the tensor.
  std::byte* row_of(const std::array<uint32_t, 5>& index) const {
    std::byte* row = map_.data;
    for (size_t i = 1; i < map_.rank; ++i) {
      const int64_t place = at_[i] + int64_t{index[i]} * map_.element_stride[i];
      if (place < 0 || place > map_.last[i]) return nullptr;
      row += place * static_cast<int64_t>(map_.stride[i - 1]);
    }
    return row;
  }
  // One more element, joined to the piece before it where it follows that.
  void add_element(std::byte* in_tile, std::byte* in_tensor, bool load,
                   std::vector<CopyPiece>& all) const {
    if (!load && in_tensor == nullptr) return;
    std::byte* const to = load ? in_tile : in_tensor;
    const std::byte* const from = load ? in_tensor : in_tile;
    if (!all.empty()) {
      CopyPiece& last = all.back();
      const bool same_kind = (last.from == nullptr) == (from == nullptr);
      if (same_kind && last.to + last.bytes == to &&
          (from == nullptr || last.from + last.bytes == from)) {
        last.bytes += bytes_;
        return;
      }
    }
    all.push_back({to, from, bytes_});
  }

  EncodedTensorMap map_ = {};
  std::array<int32_t, 5> at_ = {};
  std::array<uint32_t, 5> count_ = {1, 1, 1, 1, 1};  // elements of the box
  uint32_t bytes_ = 1;                               // of an element
  const char* word_;                                 // by which the kernel calls the copy
  Where where_;
};

YOTTA_INLINE void start_tensor_load(void* to, const CUtensorMap* map, const int32_t* at, int dims,
                                    uint64_t* barrier, uint32_t blocks, Where where) {
  const UncheckedScope unchecked;
  const char* const word =
      blocks == 0 ? "cp_async_bulk_tensor()" : "cp_async_bulk_tensor_multicast()";
  const TensorBox box(word, map, at, dims, where);
  BulkCopy copy{.barrier = barrier, .where = where};
  copy.pieces = box.pieces(static_cast<std::byte*>(to), true);
  copy.swizzle = box.swizzle();
  start_load(word, std::move(copy), blocks);
}

YOTTA_INLINE void start_tensor_multicast(void* to, const CUtensorMap* map, const int32_t* at,
                                         int dims, uint64_t* barrier, uint32_t blocks,
                                         Where where) {
  const UncheckedScope unchecked;
  const size_t size =
      running_lane("cp_async_bulk_tensor_multicast()", where).block->cluster().blocks.size();
  if (blocks == 0 || blocks >> size != 0)
    refuse(where, fmt::format("cp_async_bulk_tensor_multicast() for the blocks of mask {:#x}: the "
                              "cluster has {} blocks, and bit r is the one of rank r",
                              blocks, size));
  start_tensor_load(to, map, at, dims, barrier, blocks, where);
}

// What a reduction adds to each number of the tensor, while other blocks may add too.
template <class T>
void add_numbers(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += sizeof(T)) {
    T more;
    std::memcpy(&more, from + i, sizeof more);
    atomically(reinterpret_cast<T*>(to + i), [=](T before) {
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(before + more);
      else
        return T(static_cast<float>(before) + static_cast<float>(more));
    });
  }
}
inline BulkCopy::Add adding(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32: return add_numbers<uint32_t>;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: return add_numbers<uint64_t>;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return add_numbers<float16>;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return add_numbers<bfloat16>;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return add_numbers<float>;
    default: return nullptr;
  }
}

YOTTA_INLINE void start_tensor_store(const CUtensorMap* map, const int32_t* at, int dims,
                                     const void* from, bool adds, Where where) {
  const UncheckedScope unchecked;
  const char* const word = adds ? "cp_reduce_async_bulk_tensor_add()" : "cp_async_bulk_tensor()";
  const TensorBox box(word, map, at, dims, where);
  BulkCopy copy{.where = where};
  copy.pieces = box.pieces(static_cast<std::byte*>(const_cast<void*>(from)), false);
  if (adds && (copy.add = adding(box.type())) == nullptr)
    refuse(where,
           "cp_reduce_async_bulk_tensor_add() adds int32, uint32, uint64, float, float16 and "
           "bfloat16; the tensor map names another type");
  start_store(word, std::move(copy));
}

}  // namespace emulator
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
