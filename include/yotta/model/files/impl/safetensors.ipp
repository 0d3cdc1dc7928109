// The bodies of model/files/safetensors.hpp.
#pragma once

#include "yotta/model/files/safetensors.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "yotta/core/files/json.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/text.hpp"

namespace yotta {

// ---- writing ------------------------------------------------------------------------------------

namespace detail {
// The format's name of a type, and back; nothing for a name that is none of ours.
constexpr const char* safetensors_name(DType dtype) {
  for (const SafetensorsType& row : safetensors_types)
    if (row.dtype == dtype) return row.name;
  return "?";
}
inline std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const SafetensorsType& row : safetensors_types)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

// Widest type first, then by name: the order of the reference implementation.
inline std::vector<NamedTensor> in_file_order(std::vector<NamedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const int64_t wide_a = bytes_of(a.value.dtype()), wide_b = bytes_of(b.value.dtype());
    return wide_a != wide_b ? wide_a > wide_b : a.name < b.name;
  });
  return tensors;
}

inline void expect_utf8(const char* of, const std::string& name, const std::string& text,
                        Where where) {
  if (first_invalid_utf8(text) < text.size())
    fail(where, "{}'{}' is not UTF-8, as JSON must be; give it another", of, printable(name));
}

inline std::string safetensors_header(const std::vector<NamedTensor>& tensors,
                                      const Metadata& metadata, Where where) {
  for (const auto& [name, text] : metadata) {
    expect_utf8("", name, name, where);
    expect_utf8("the value of ", name, text, where);
  }
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t begin = 0;
  for (const auto& [name, value] : tensors) {
    expect_utf8("", name, name, where);
    if (name.empty() || name == "__metadata__" || header.contains(name))
      fail(where, "a tensor cannot be saved as '{}': {}", name,
           header.contains(name) ? "another one has this name" : "this name is not allowed");
    if (!value.defined() || value.device() != Device::cpu)
      fail(where, "'{}' {} has no data to save", name, value.describe());
    const int64_t end = begin + value.nbytes();
    header[name] = {{"dtype", safetensors_name(value.dtype())},
                    {"shape", value.shape()},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}
}  // namespace detail

YOTTA_INLINE void write_safetensors(AtomicFile& file, const std::vector<NamedTensor>& tensors,
                                    const Metadata& metadata, Where where) {
  const std::vector<NamedTensor> ordered = detail::in_file_order(tensors);
  const std::string header = detail::safetensors_header(ordered, metadata, where);
  const uint64_t header_bytes = header.size();
  file.write(&header_bytes, sizeof header_bytes, where);
  file.write(header.data(), static_cast<int64_t>(header.size()), where);
  for (const auto& [name, value] : ordered) file.write(value.raw(), value.nbytes(), where);
}

YOTTA_INLINE void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                                   const Metadata& metadata, Where where) {
  AtomicFile file(path, where);
  write_safetensors(file, tensors, metadata, where);
  file.commit(where);
}

// ---- reading ------------------------------------------------------------------------------------

namespace detail {
// Reads and checks the header of an open file.
class SafetensorsHeader {
 public:
  using Entry = SafetensorsFile::Entry;

  SafetensorsHeader(InputFile& file, Where where) : file_(file) {
    const nlohmann::json header = parse(read_header(where), where);
    for (const auto& [name, item] : header.items()) {
      if (name == "__metadata__")
        metadata = strings(item, where);
      else
        entries.emplace(name, entry(visible(name), item, where));
    }
    check_layout(where);
  }

  int64_t data_begin = 0;
  std::map<std::string, Entry> entries;
  Metadata metadata;

 private:
  static constexpr int64_t most_header_bytes = most_json_bytes;  // the reference's limit, too

  template <class... Args>
  [[noreturn]] void corrupt(Where where, fmt::format_string<Args...> message,
                            Args&&... args) const {
    fail(where, "{} is not a whole safetensors file: {}; copy or download it again", file_.name(),
         fmt::format(message, std::forward<Args>(args)...));
  }

  std::string read_header(Where where) {
    uint64_t bytes = 0;
    if (file_.size() < 8) corrupt(where, "it has {} bytes, the least is 8", file_.size());
    file_.read(0, &bytes, sizeof bytes, where);
    if (bytes > most_header_bytes)
      corrupt(where, "it claims a header of {} bytes, more than {}", bytes, most_header_bytes);
    data_begin = 8 + static_cast<int64_t>(bytes);
    if (data_begin > file_.size())
      corrupt(where, "it claims a header of {} bytes and ends after {}", bytes, file_.size());
    std::string header(bytes, ' ');
    file_.read(8, header.data(), static_cast<int64_t>(bytes), where);
    if (!header.starts_with('{')) corrupt(where, "the header does not start with '{{'");
    return header;
  }

  nlohmann::json parse(const std::string& text, Where where) const {
    try {
      return parse_json(text);
    } catch (const JsonProblem& problem) {
      corrupt(where, "the header is not JSON ({})", problem.what());
    }
  }

  Metadata strings(const nlohmann::json& item, Where where) const {
    Metadata all;
    if (!item.is_object()) corrupt(where, "__metadata__ is not an object");
    for (const auto& [key, value] : item.items()) {
      if (!value.is_string()) corrupt(where, "__metadata__ '{}' is not a string", visible(key));
      all.emplace(key, value.get<std::string>());
    }
    return all;
  }

  Entry entry(const std::string& name, const nlohmann::json& item, Where where) const {
    if (!item.is_object() || !item.contains("dtype") || !item.at("dtype").is_string())
      corrupt(where, "tensor '{}' has no dtype", name);
    const std::string type = item.at("dtype").get<std::string>();
    const std::optional<DType> dtype = safetensors_dtype(type);
    Shape shape = sizes(name, item, "shape", where);
    const Shape offsets = sizes(name, item, "data_offsets", where);
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      corrupt(where, "data_offsets of '{}' are {}", name, str(offsets));
    if (!dtype) return {DType::u8, std::move(shape), offsets[0], offsets[1], visible(type)};
    const int64_t bytes = checked_bytes(name, shape, *dtype, where);
    if (bytes != offsets[1] - offsets[0])
      corrupt(where, "'{}' is {} {}, which is {} bytes, but has {}", name, str(shape), type, bytes,
              offsets[1] - offsets[0]);
    return {*dtype, std::move(shape), offsets[0], offsets[1], ""};
  }

  // A list of sizes of a tensor's entry, none negative.
  Shape sizes(const std::string& name, const nlohmann::json& item, const char* key,
              Where where) const {
    Shape list;
    if (!item.contains(key) || !item.at(key).is_array())
      corrupt(where, "tensor '{}' has no {}", name, key);
    for (const nlohmann::json& size : item.at(key)) {
      if (!size.is_number_unsigned() ||
          size.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
        corrupt(where, "{} of '{}' are not all sizes: {}", key, name, json_excerpt(size));
      list.push_back(size.get<int64_t>());
    }
    return list;
  }

  int64_t checked_bytes(const std::string& name, const Shape& shape, DType dtype,
                        Where where) const {
    int64_t bytes = bytes_of(dtype);
    for (const int64_t size : shape) {
      if (size != 0 && bytes > std::numeric_limits<int64_t>::max() / size)
        corrupt(where, "'{}' cannot be {}: that is more than 2^63 bytes", name, str(shape));
      bytes *= size;
    }
    return bytes;
  }

  // The tensors must fill the data exactly.
  void check_layout(Where where) const {
    std::vector<std::pair<const Entry*, std::string_view>> order;
    for (const auto& [name, entry] : entries) order.emplace_back(&entry, name);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first->begin, a.first->end) < std::pair(b.first->begin, b.first->end);
    });
    int64_t end = 0;
    for (const auto& [entry, name] : order) {
      if (entry->begin != end)
        corrupt(where, "'{}' starts at byte {} of the data, and the one before ends at {}",
                visible(std::string(name)), entry->begin, end);
      end = entry->end;
    }
    if (data_begin + end != file_.size())
      corrupt(where, "its tensors need {} bytes and the file has {}", data_begin + end,
              file_.size());
  }

  InputFile& file_;
};
}  // namespace detail

YOTTA_INLINE SafetensorsFile::SafetensorsFile(const std::string& path, Where where)
    : file_(std::make_unique<InputFile>(InputFile::saved(path, where))) {
  detail::SafetensorsHeader header(*file_, where);
  data_begin_ = header.data_begin;
  entries_ = std::move(header.entries);
  metadata_ = std::move(header.metadata);
}
YOTTA_INLINE SafetensorsFile::~SafetensorsFile() = default;
YOTTA_INLINE SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;

YOTTA_INLINE std::string SafetensorsFile::name() const { return file_->name(); }

YOTTA_INLINE const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name,
                                                                  Where where) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    fail(where, "{} holds {} tensors, and none is called '{}'", file_->name(), entries_.size(),
         name);
  if (!found->second.foreign_type.empty())
    fail(where,
         "{}: tensor '{}' is of type {}, which is not one of F64 F32 BF16 F16 I64 I32 F8_E4M3 "
         "F8_E5M2 U8; convert the file",
         file_->name(), name, found->second.foreign_type);
  return found->second;
}

YOTTA_INLINE Tensor SafetensorsFile::read(const std::string& name, Where where) {
  const Entry& entry = this->entry(name, where);
  Tensor value = Tensor::empty(entry.shape, entry.dtype, where);
  if (value.device() == Device::cpu)
    file_->read(data_begin_ + entry.begin, value.raw(), value.nbytes(), where);
  return value;
}

YOTTA_INLINE std::vector<NamedTensor> load_safetensors(const std::string& path, Where where) {
  SafetensorsFile file(path, where);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, entry] : file.entries())
    tensors.push_back({name, file.read(name, where)});
  return tensors;
}

namespace detail {
inline bool is_missing(const std::string& path) {
  std::error_code error;  // what stands in the way is named when it is read
  return std::filesystem::status(saved_path(path), error).type() ==
         std::filesystem::file_type::not_found;
}
inline std::string single_file(const std::string& folder) { return folder + "/model.safetensors"; }
inline std::string index_file(const std::string& folder) {
  return folder + "/model.safetensors.index.json";
}
}  // namespace detail

YOTTA_INLINE void expect_no_pickles(const std::string& folder, Where where) {
  using detail::is_missing;
  if (!is_missing(detail::single_file(folder)) || !is_missing(detail::index_file(folder))) return;
  for (const char* name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"})
    if (!is_missing(folder + "/" + name))
      fail(where,
           "{}: the weights are in {}, and not in model.safetensors. Such a file is a Python "
           "program and is not read; convert it, if you trust it: python3 -c \"from transformers "
           "import AutoModelForCausalLM as M; M.from_pretrained('{}', "
           "torch_dtype='auto').save_pretrained('{}')\"{}",
           folder, name, folder, folder,
           is_missing(folder + "/config.json") ? " (it needs the model's config.json, too)" : "");
}

YOTTA_INLINE WeightsFolder::WeightsFolder(const std::string& folder, Where where)
    : folder_(folder) {
  expect_no_pickles(folder, where);
  const std::string single = detail::single_file(folder), index = detail::index_file(folder);
  if (detail::is_missing(single) && !detail::is_missing(index)) {
    open_index(index, where);
  } else {
    SafetensorsFile* const file = open(single, where);
    for (const auto& [name, entry] : file->entries()) tensors_[name] = file;
  }
}

YOTTA_INLINE SafetensorsFile* WeightsFolder::open(const std::string& path, Where where) {
  files_.push_back(std::make_unique<SafetensorsFile>(path, where));
  for (const auto& [name, entry] : files_.back()->entries())
    if (has_control_characters(name))
      fail(where, "{}: '{}': a tensor's name has no control characters", path, visible(name));
  return files_.back().get();
}

YOTTA_INLINE void WeightsFolder::open_index(const std::string& index, Where where) {
  nlohmann::json json;
  std::string problem;
  try {
    json = parse_json(read_json_text(index, where));
  } catch (const JsonProblem& error) {
    problem = fmt::format(" ({})", error.what());
  }
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail(where, "{} has no weight_map{}; copy or download it again", index, problem);
  std::map<std::string, SafetensorsFile*> opened;
  for (const auto& [name, file] : json["weight_map"].items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (!text.ends_with(".safetensors") || text.find('/') != text.npos ||
        has_control_characters(text))
      fail(where, "{}: '{}' is in {}, which is not a safetensors file of this folder", index,
           visible(name), json_excerpt(file));
    if (!opened.contains(text)) opened[text] = open(folder_ + "/" + text, where);
    if (!opened[text]->entries().contains(name))
      fail(where, "{}: '{}' should be in {}, and is not", index, visible(name), text);
    tensors_[name] = opened[text];
  }
}

}  // namespace yotta
