#include "course/training/same_everywhere.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "yotta/core/random.hpp"

namespace yotta {

namespace {

std::string joined(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + '\n' + value + '\n';
  return text;
}

// The texts of all ranks, on all ranks.
std::vector<std::string> all_texts(const std::string& mine, Communicator& world, Where where) {
  const auto ranks = static_cast<size_t>(world.size());
  const std::vector<int64_t> size = {std::ssize(mine)};
  std::vector<int64_t> sizes(ranks);
  world.all_gather(sizes, size, {.label = "same.size"}, where);
  const auto words = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()) / 8 + 1);
  std::vector<int64_t> own(words), all(words * ranks);
  std::memcpy(own.data(), mine.data(), mine.size());
  world.all_gather(all, own, {.label = "same.facts"}, where);
  std::vector<std::string> texts;
  for (size_t r = 0; r < ranks; ++r)
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + r * words),
                       static_cast<size_t>(sizes[r]));
  return texts;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

// Eight bytes at a time: a checkpoint is long.
uint64_t hash_bytes(const std::byte* bytes, size_t count, uint64_t hash) {
  for (size_t i = 0; i < count; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<size_t>(8, count - i));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

void expect_same_everywhere(const Facts& mine, Communicator& world, Where where) {
  const std::string text = joined(mine);
  const std::vector<int64_t> own = {static_cast<int64_t>(hash_name(text))};
  std::vector<int64_t> hashes(static_cast<size_t>(world.size()));
  world.all_gather(hashes, own, {.label = "same.hash"}, where);
  const auto other =
      std::find_if(hashes.begin(), hashes.end(), [&](int64_t hash) { return hash != hashes[0]; });
  if (other == hashes.end()) return;
  const std::vector<std::string> texts = all_texts(text, world, where);
  const std::ptrdiff_t rank = other - hashes.begin();
  const std::vector<std::string> first = lines_of(texts[0]),
                                 its = lines_of(texts[static_cast<size_t>(rank)]);
  const auto find = [](const std::vector<std::string>& lines, const std::string& name) {
    for (size_t i = 0; i + 1 < lines.size(); i += 2)
      if (lines[i] == name) return lines[i + 1];
    return std::string("left out");
  };
  for (const auto* const lines : {&first, &its})
    for (size_t i = 0; i + 1 < lines->size(); i += 2)
      if (const std::string& name = (*lines)[i]; find(first, name) != find(its, name))
        fail(where,
             "the ranks were not started alike: {} is {} on rank 0, and {} on rank {}. Start all "
             "with the same options, the same files and the same program",
             name, find(first, name), find(its, name), rank);
  fail(where, "the ranks were not started alike: rank {} runs another program than rank 0", rank);
}

std::string digest(std::string_view bytes) {
  const auto* const first = reinterpret_cast<const std::byte*>(bytes.data());
  return fmt::format("{:016x}", hash_bytes(first, bytes.size(), bytes.size()));
}

std::string digest(const std::vector<NamedTensor>& tensors) {
  uint64_t hash = tensors.size();
  for (const NamedTensor& each : tensors) {
    const Tensor here = each.value.to(Device::cpu);
    hash = hash_bytes(static_cast<const std::byte*>(here.raw()), static_cast<size_t>(here.nbytes()),
                      hash ^ hash_name(each.name));
  }
  return fmt::format("{:016x}", hash);
}

std::string program_stamp() {
  struct stat about {};
  if (stat("/proc/self/exe", &about) != 0) return "";
  return fmt::format("{} {} {}.{}", about.st_ino, about.st_size, about.st_mtim.tv_sec,
                     about.st_mtim.tv_nsec);
}

std::string program_digest() {
  static const std::string found = [] {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();  // many at once: a program has megabytes
    return digest(bytes.str());
  }();
  return found;
}

}  // namespace yotta
