// Weights folder: the safetensors files of one model, whether it is one file or a hundred.
//
//     DIR/model.safetensors                      all tensors, or
//     DIR/model.safetensors.index.json           {"weight_map": {"model.norm.weight":
//     DIR/model-00001-of-00002.safetensors          "model-00002-of-00002.safetensors", ...}}
//     DIR/model-00002-of-00002.safetensors
//
// Large models are split so that no file is larger than a few GB. The index says which tensor is where;
// an index that disagrees with the files is refused.
#pragma once

#include <memory>

#include "yotta/model/files/safetensors.hpp"

namespace yotta {

class WeightsFolder {
 public:
  using Entry = SafetensorsFile::Entry;

  explicit WeightsFolder(const std::filesystem::path& folder, Where where = Where::current())
      : folder_(folder) {
    const std::filesystem::path single = folder / "model.safetensors";
    const std::filesystem::path index = folder / "model.safetensors.index.json";
    if (!std::filesystem::exists(single) && std::filesystem::exists(index))
      open_sharded(index, where);
    else
      add_all(open(single, where));
  }

  // Every tensor, and the file it is in.
  const std::map<std::string, SafetensorsFile*>& tensors() const { return tensors_; }
  const Entry& entry(const std::string& name) const {
    return tensors_.at(name)->entries().at(name);
  }
  Tensor read(const std::string& name, Where where = Where::current()) const {
    return tensors_.at(name)->read(name, where);
  }
  // Of the only file; empty if there are several.
  Metadata metadata() const { return files_.size() == 1 ? files_[0]->metadata() : Metadata{}; }

 private:
  SafetensorsFile* open(const std::filesystem::path& path, Where where) {
    files_.push_back(std::make_unique<SafetensorsFile>(path, where));
    return files_.back().get();
  }
  void add_all(SafetensorsFile* file) {
    for (const auto& [name, entry] : file->entries()) tensors_[name] = file;
  }

  void open_sharded(const std::filesystem::path& index, Where where) {
    const nlohmann::json json = nlohmann::json::parse(read_file(index, where), nullptr, false);
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
      fail(where, "{} has no weight_map; copy or download it again", index.string());
    std::map<std::string, SafetensorsFile*> opened;
    for (const auto& [name, file] : json["weight_map"].items()) {
      const std::string text = file.is_string() ? file.get<std::string>() : "";
      if (!text.ends_with(".safetensors") || text.find('/') != text.npos)
        fail(where, "{}: '{}' is in {}, which is no safetensors file of this folder",
             index.string(), name, file.dump());
      if (!opened.contains(text)) opened[text] = open(folder_ / text, where);
      if (!opened[text]->entries().contains(name))
        fail(where, "{}: '{}' should be in {}, and is not", index.string(), name, text);
      tensors_[name] = opened[text];
    }
  }

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile*> tensors_;
};

}  // namespace yotta
