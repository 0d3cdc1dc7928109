// The bodies of model/text.hpp.
#pragma once

#include "yotta/model/text.hpp"

#include <iconv.h>

#include <algorithm>
#include <filesystem>

#include "yotta/core/system/files.hpp"

namespace yotta {

YOTTA_INLINE size_t first_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](size_t at) -> uint32_t {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
    };
    const uint32_t lead = byte(i);
    if (lead < 0x80) continue;
    const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length == 0 || lead > 0xF4) return i;
    for (size_t k = 1; k < length; ++k)
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    const uint32_t second = byte(i + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate = lead == 0xED && second > 0x9F;
    const bool too_large = lead == 0xF4 && second > 0x8F;  // beyond U+10FFFF
    if (overlong || surrogate || too_large) return i;
    i += length - 1;
  }
  return text.size();
}

YOTTA_INLINE std::string printable(std::string_view text) {
  const std::string_view dot = "\xC2\xB7";
  std::string out;
  while (!text.empty()) {
    const size_t good = first_invalid_utf8(text);
    for (const char each : text.substr(0, good)) {
      const auto byte = static_cast<unsigned char>(each);
      const bool control = (byte < 0x20 && byte != '\n') || byte == 0x7F;
      if (control)
        out += dot;
      else
        out += each;
    }
    if (good < text.size()) out += dot;
    text.remove_prefix(std::min(good + 1, text.size()));
  }
  return out;
}

namespace detail {
// Files of a folder and its folders in the order of their names, so that every machine reads the
// same text. Hidden ones are counted and left out.
inline std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                                      int64_t& hidden, Where where) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found;
  try {
    for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
      if (it->path().filename().string().starts_with('.')) {
        hidden += 1;
        it.disable_recursion_pending();
      } else if (it->is_regular_file()) {
        found.push_back(it->path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    fail(where, "{} cannot be read: {}", folder.string(), error.code().message());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return a.generic_string() < b.generic_string();
  });
  return found;
}

inline bool is_utf8(std::string_view bytes) { return first_invalid_utf8(bytes) == bytes.size(); }

// The same text in UTF-8.
inline std::string to_utf8(std::string bytes, const std::string& encoding, const std::string& path,
                           Where where) {
  const iconv_t conversion = iconv_open("UTF-8", encoding.c_str());
  if (conversion == reinterpret_cast<iconv_t>(-1))
    fail(where, "no encoding is called '{}'; `iconv -l` lists them", printable(encoding));
  std::string text(4 * bytes.size() + 4, ' ');  // a character has 4 bytes at most
  char *from = bytes.data(), *to = text.data();
  size_t from_left = bytes.size(), to_left = text.size();
  const bool is_whole =
      iconv(conversion, &from, &from_left, &to, &to_left) != static_cast<size_t>(-1);
  iconv_close(conversion);
  if (!is_whole)
    fail(where, "{} is neither UTF-8 nor {}: byte {} is 0x{:02x}", path, encoding,
         bytes.size() - from_left, static_cast<unsigned char>(*from));
  text.resize(text.size() - to_left);
  return text;
}

// Throws if texts of a folder are not UTF-8: a run on the others alone would be another run.
inline void expect_no_others(const std::string& folder, const std::vector<std::string>& others,
                             int64_t their_bytes, Where where) {
  if (others.empty()) return;
  std::string names = others[0];
  for (size_t i = 1; i < std::min<size_t>(3, others.size()); ++i) names += ", " + others[i];
  if (others.size() > 3) names += fmt::format(" and {} more", others.size() - 3);
  fail(where,
       "{}: {} of its files, {} bytes, are text that is not UTF-8 ({}); say what it is, for "
       "example --encoding latin1, or take them out",
       folder, others.size(), their_bytes, names);
}

inline Text read_folder(const std::filesystem::path& folder, const std::string& encoding,
                        Where where) {
  Text text;
  std::vector<std::string> others;
  int64_t their_bytes = 0;
  for (const std::filesystem::path& path : files_below(folder, text.skipped, where)) {
    std::string bytes = read_file(path, where);
    if (bytes.empty() || is_binary(bytes)) {
      text.skipped += 1;
      text.skipped_bytes += std::ssize(bytes);
      continue;
    }
    if (!is_utf8(bytes) && encoding.empty()) {
      others.push_back(path.lexically_relative(folder).string());
      their_bytes += std::ssize(bytes);
      continue;
    }
    text.files += 1;
    text.bytes += is_utf8(bytes) ? bytes : to_utf8(bytes, encoding, path.string(), where);
    text.ends.push_back(std::ssize(text.bytes));
  }
  expect_no_others(folder.string(), others, their_bytes, where);
  if (text.files == 0)
    fail(where, "{}: no text in this folder ({} files were hidden, empty or binary)",
         folder.string(), text.skipped);
  return text;
}
}  // namespace detail

YOTTA_INLINE Text read_text(const std::string& path, const std::string& encoding, Where where) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return detail::read_folder(path, encoding, where);
  Text text{.bytes = read_file(path, where), .files = 1, .ends = {}};
  if (text.bytes.empty())
    fail(where, "{} is empty; give a UTF-8 text of a few thousand characters", path);
  if (is_binary(text.bytes))
    fail(where, "{} is binary (byte {} is zero); give a UTF-8 text", path, text.bytes.find('\0'));
  const size_t bad = first_invalid_utf8(text.bytes);
  text.ends = {std::ssize(text.bytes)};
  if (bad == text.bytes.size()) return text;
  if (encoding.empty())
    fail(where,
         "{} is not UTF-8: byte {} is 0x{:02x}; say what it is, for example --encoding latin1",
         path, bad, static_cast<unsigned char>(text.bytes[bad]));
  text.bytes = detail::to_utf8(text.bytes, encoding, path, where);
  text.ends = {std::ssize(text.bytes)};
  return text;
}

YOTTA_INLINE void split_documents(Text& text, std::string_view separator, Where where) {
  const std::string_view all = text.bytes;
  if (separator.empty() || all.find(separator) == all.npos)
    fail(where, "'{}' stands nowhere in the text, so it parts no documents", printable(separator));
  Text parted{.bytes = {}, .ends = {}};
  const auto add = [&](std::string_view document) {
    if (document.empty()) return;
    parted.bytes += document;
    parted.ends.push_back(std::ssize(parted.bytes));
  };
  size_t begin = 0;
  for (const int64_t end : text.ends) {
    std::string_view file = all.substr(begin, static_cast<size_t>(end) - begin);
    for (size_t at = file.find(separator); at != file.npos; at = file.find(separator)) {
      add(file.substr(0, at));
      file.remove_prefix(at + separator.size());
    }
    add(file);
    begin = static_cast<size_t>(end);
  }
  text.bytes = std::move(parted.bytes), text.ends = std::move(parted.ends);
}

YOTTA_INLINE Text course_text(const std::string& root, Where where) {
  Text all;
  for (const char* part : {"README.md", "lessons", "include"}) {
    const std::string path = root + "/" + part;
    std::error_code error;
    if (std::filesystem::is_directory(path, error) && std::filesystem::is_empty(path, error))
      continue;
    const Text text = read_text(path, "", where);
    for (const int64_t end : text.ends) all.ends.push_back(std::ssize(all.bytes) + end);
    all.bytes += text.bytes;
    all.files += text.files;
    all.skipped += text.skipped;
    all.skipped_bytes += text.skipped_bytes;
  }
  return all;
}

YOTTA_INLINE TextSplit split_text(std::string_view text, int64_t context, double validation_share,
                                  Where where) {
  if (!(validation_share >= 0 && validation_share < 1))
    fail(where, "the share kept for validation is {}, expected 0 to below 1", validation_share);
  const double kept = static_cast<double>(text.size()) * validation_share;
  size_t cut = text.size() - static_cast<size_t>(kept);
  while (cut > 0 && cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80)
    --cut;  // inside a character
  const TextSplit split{text.substr(0, cut), text.substr(cut)};
  const auto too_short = [&](std::string_view part) { return std::ssize(part) < context + 1; };
  if (too_short(split.train) || (validation_share > 0 && too_short(split.validation)))
    fail(where,
         "the text has {} bytes, {} to train on and {} to validate on; a context of {} needs "
         "{} in each: give a longer text or a shorter context",
         text.size(), split.train.size(), split.validation.size(), context, context + 1);
  return split;
}

YOTTA_INLINE Batches::Batches(std::string_view text, int64_t context, uint64_t seed, Where where)
    : Batches(text, {}, "bytes", context, seed, where) {}

YOTTA_INLINE Batches::Batches(std::span<const int32_t> tokens, int64_t context, uint64_t seed,
                              Where where)
    : Batches({}, tokens, "tokens", context, seed, where) {}

YOTTA_INLINE Batches::Batches(std::string_view text, std::span<const int32_t> tokens,
                              const char* unit, int64_t context, uint64_t seed, Where where)
    : text_(text), tokens_(tokens), context_(context), random_(seed, "batch") {
  if (context < 1) fail(where, "the context is {} tokens, expected 1 or more", context);
  if (size() < context + 1)
    fail(where,
         "the text has {} {}; a context of {} needs {}: give a longer text or a shorter context",
         size(), unit, context, context + 1);
}

YOTTA_INLINE void Batches::pack(const std::vector<int64_t>& ends, Where where) {
  first_columns_ = {0};
  for (int64_t begin = 0; const int64_t end : ends) {
    if (end > begin + 1) {  // a token alone predicts nothing
      begins_.push_back(begin);
      first_columns_.push_back(first_columns_.back() + end - begin - 1);
    }
    begin = end;
  }
  if (columns() < context_)
    fail(where,
         "the text's {} documents have {} tokens that another one follows; a context of {} needs "
         "as many: give more text or a shorter context",
         ends.size(), columns(), context_);
}

YOTTA_INLINE Batch Batches::draw(int64_t step, int64_t first, int64_t count) const {
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) starts.push_back(random_start(step, first + i));
  return gather(starts);
}

YOTTA_INLINE Batch Batches::in_order(int64_t first, int64_t count, Where where) const {
  if (first < 0 || first + count > sequences())
    fail(where, "sequences {} to {} of a text that holds {}: ask for fewer, or start earlier",
         first, first + count, sequences());
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) starts.push_back((first + i) * context_);
  return gather(starts);
}

YOTTA_INLINE int64_t Batches::random_start(int64_t step, int64_t sequence) const {
  const auto starts = static_cast<uint64_t>(columns() + 1 - context_);
  const Block128 words =
      random_.block(static_cast<uint64_t>(step) << 32 | static_cast<uint32_t>(sequence));
  return static_cast<int64_t>((uint64_t{words[0]} << 32 | words[1]) % starts);
}

YOTTA_INLINE Batch Batches::gather(const std::vector<int64_t>& starts) const {
  const MemoryScope scope(MemoryKind::buffers);
  const Shape shape = {std::ssize(starts), context_};
  Batch batch{Tensor::empty(shape, DType::i32), Tensor::empty(shape, DType::i32), {}};
  if (batch.inputs.device() != Device::cpu) return batch;
  int32_t* inputs = batch.inputs.data<int32_t>();
  int32_t* targets = batch.targets.data<int32_t>();
  for (const int64_t start : starts) {
    // Without documents column and place in the text are the same number.
    size_t document = 0, first = 0;
    if (!first_columns_.empty())
      first = document = static_cast<size_t>(
          std::upper_bound(first_columns_.begin(), first_columns_.end(), start) -
          first_columns_.begin() - 1);
    for (int64_t column = start; column < start + context_; ++column, ++inputs, ++targets) {
      int64_t at = column;
      if (!first_columns_.empty()) {
        document += column == first_columns_[document + 1];
        at = begins_[document] + column - first_columns_[document];
        batch.documents.push_back(static_cast<int32_t>(document - first));
      }
      *inputs = token(at), *targets = token(at + 1);
    }
  }
  return batch;
}

}  // namespace yotta
