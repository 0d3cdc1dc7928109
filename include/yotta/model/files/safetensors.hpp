// safetensors: named tensors in one file, in the format the whole field reads and writes.
//
//     byte 0          8                       8 + N                                    end
//     | N as u64, LE  | JSON header, N bytes  | data of a | data of b      | data of c |
//                       {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...
//                        "__metadata__": {"format": "pt"}}
//
// Offsets count from the end of the header, and the tensors fill the data without gap or overlap.
// The header is padded with spaces so that the data starts at a multiple of 8, and wide types come
// first, so that every tensor is aligned to its own type. Cost: a file is as large as its tensors
// plus about 100 bytes for each; reading and writing go tensor by tensor and hold no second copy of
// the file. Contract: a file that breaks a rule is refused whole, with what is wrong and where.
// Nothing is loaded. A tensor of a type that is none of ours is refused only when it is asked for.
//
// Large models are split over several files of a folder. An index says which tensor is in which
// file:
//
//     DIR/model.safetensors                      all tensors, or
//     DIR/model.safetensors.index.json           {"weight_map": {"model.norm.weight":
//     DIR/model-00001-of-00002.safetensors          "model-00002-of-00002.safetensors", ...}}
//     DIR/model-00002-of-00002.safetensors
//
// Reference: https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "yotta/model/named_tensor.hpp"

namespace yotta {

class AtomicFile;
class InputFile;

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

struct SafetensorsType {
  DType dtype;
  const char* name;
};
inline constexpr SafetensorsType safetensors_types[] = {
    {DType::f64, "F64"},          {DType::f32, "F32"},          {DType::bf16, "BF16"},
    {DType::f16, "F16"},          {DType::i64, "I64"},          {DType::i32, "I32"},
    {DType::fp8_e4m3, "F8_E4M3"}, {DType::fp8_e5m2, "F8_E5M2"}, {DType::u8, "U8"}};

// ---- writing ------------------------------------------------------------------------------------

// Into an open file: 8 bytes of length, the header, then all data, wide types first, so that each
// is aligned. Errors: a name twice; a tensor without data on the CPU; a full disk.
void write_safetensors(AtomicFile& file, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata = {}, Where where = Where::current());

// Writes all tensors, and strings about them, to one file, which appears whole or not at all.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata = {}, Where where = Where::current());

// ---- reading ------------------------------------------------------------------------------------

// An open file: its header is checked, its tensors are read when asked for.
class SafetensorsFile {
 public:
  struct Entry {
    DType dtype;
    Shape shape;
    int64_t begin, end;        // bytes of the data, from the end of the header
    std::string foreign_type;  // in place of dtype: the name of a type that is none of ours
  };

  explicit SafetensorsFile(const std::string& path, Where where = Where::current());
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const Metadata& metadata() const { return metadata_; }
  std::string name() const;

  // Errors: no tensor has this name; its type is none of ours.
  const Entry& entry(const std::string& name, Where where = Where::current()) const;
  Tensor read(const std::string& name, Where where = Where::current());

 private:
  std::unique_ptr<InputFile> file_;
  int64_t data_begin_ = 0;
  std::map<std::string, Entry> entries_;
  Metadata metadata_;
};

// All tensors of a file, by name.
std::vector<NamedTensor> load_safetensors(const std::string& path, Where where = Where::current());

// Throws if the weights in a folder are in PyTorch's own format alone; says how to convert them.
void expect_no_pickles(const std::string& folder, Where where = Where::current());

// The files of one model. An index that disagrees with them is refused.
class WeightsFolder {
 public:
  using Entry = SafetensorsFile::Entry;

  explicit WeightsFolder(const std::string& folder, Where where = Where::current());

  // Every tensor, and the file it is in.
  const std::map<std::string, SafetensorsFile*>& tensors() const { return tensors_; }
  const Entry& entry(const std::string& name, Where where = Where::current()) const {
    return tensors_.at(name)->entry(name, where);
  }
  Tensor read(const std::string& name, Where where = Where::current()) const {
    return tensors_.at(name)->read(name, where);
  }
  // Of the only file; empty if there are several.
  Metadata metadata() const { return files_.size() == 1 ? files_[0]->metadata() : Metadata{}; }

 private:
  SafetensorsFile* open(const std::string& path, Where where);
  void open_index(const std::string& index, Where where);

  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile*> tensors_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/model/files/impl/safetensors.ipp"
#endif
