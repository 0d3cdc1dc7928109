// The bodies of model/files/sharded_checkpoint.hpp.
#pragma once

#include "yotta/model/files/sharded_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <list>
#include <map>
#include <utility>

#include "yotta/core/files/json.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/safetensors.hpp"

namespace yotta {

YOTTA_INLINE std::string Run::name() const {
  return fmt::format("{}[{}:{}/{}]", tensor, first, last, whole);
}

YOTTA_INLINE Run parse_run(const std::string& name, const std::string& source, Where where) {
  const size_t open = name.rfind('[');
  Run run{name.substr(0, open), 0, 0, 0};
  const char *at = name.data() + std::min(open, name.size()), *const end =
                                                                  name.data() + name.size();
  bool right = at != end;
  for (auto [value, after] : {std::pair{&run.first, ':'}, {&run.last, '/'}, {&run.whole, ']'}}) {
    const auto [stop, error] = std::from_chars(at + (right ? 1 : 0), end, *value);
    right = right && error == std::errc() && stop != end && *stop == after;
    at = stop;
  }
  if (!right || at + 1 != end || run.first < 0 || run.first > run.last || run.last > run.whole)
    fail(where,
         "{} holds '{}', which names no run of numbers, as w[0:12/24] does; a whole model is "
         "loaded with load_weights",
         source, visible(name));
  return run;
}

YOTTA_INLINE std::string shard_file(int64_t step, int64_t rank, int64_t ranks) {
  return fmt::format("step_{}/rank_{}_of_{}.safetensors", step, rank, ranks);
}

namespace detail {
// What a rank saves or loads of its shards and their optimizer, under the names of the whole
// tensors; the same memory.
struct ShardedTensor {
  Run run;
  Tensor value;  // (last - first)
};
inline std::vector<ShardedTensor> sharded_tensors(const std::vector<ParameterShard>& shards,
                                                  Optimizer& optimizer) {
  std::vector<ShardedTensor> all;
  for (const ParameterShard& shard : shards) {
    const auto add = [&](const std::string& prefix, const Tensor& value) {
      const int64_t n = value.numel();
      all.push_back(
          {{prefix + shard.parameter->name, shard.first, shard.first + n, product(shard.whole)},
           value.reshape({n})});
    };
    add("", shard.parameter->value);
    for (const Optimizer::Slot& slot : optimizer.slots()) {
      if (slot.parameter != shard.parameter) continue;
      if (slot.master.defined()) add("master.", slot.master);
      for (size_t i = 0; i < slot.state.size(); ++i)
        add(optimizer.state_names()[i] + ".", slot.state[i]);
    }
  }
  return all;
}

// A number that a file says of itself; `text` must be what save_sharded writes.
inline int64_t said_number(const SafetensorsFile& file, const std::string& name, int64_t least,
                           int64_t most, Where where) {
  const auto found = file.metadata().find(name);
  if (found == file.metadata().end())
    fail(where, "{} does not say its {}: it is not a rank's file of a sharded checkpoint",
         file.name(), name);
  const std::string& text = found->second;
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  if (std::to_string(value) != text || value < least || value > most)
    fail(where, "{} says {} '{}', expected {}", file.name(), name, visible(text),
         least == most ? std::to_string(least) : fmt::format("{} to {}", least, most));
  return value;
}

// The step and the number of ranks in rank 0's file name. It leads to no other folder.
inline std::pair<int64_t, int64_t> parse_latest(const std::string& folder, Where where) {
  const std::string text = read_file(folder + "/latest", where);
  int64_t step = -1, ranks = -1;
  const size_t after_step = text.find("_of_");
  if (text.starts_with("step_") && after_step != text.npos) {
    std::from_chars(text.data() + 5, text.data() + text.size(), step);
    std::from_chars(text.data() + after_step + 4, text.data() + text.size(), ranks);
  }
  if (step < 0 || ranks < 1 || text != shard_file(step, 0, ranks))
    fail(where, "{}/latest must name rank 0's file of a step, as {} does, and holds '{}'", folder,
         shard_file(120, 0, 2), visible(text.substr(0, 100)));
  return {step, ranks};
}

// The files of the step that was saved last.
class ShardedFiles {
 public:
  explicit ShardedFiles(const std::string& folder, Where where);

  int64_t step() const { return step_; }
  int64_t optimizer_steps() const { return optimizer_steps_; }

  // The numbers of `to`, read and checked. Errors: they are not there, or are not of its type.
  Tensor read(const ShardedTensor& to, Where where);

 private:
  struct Piece {
    Run run;
    SafetensorsFile* file;
  };
  using Pieces = std::vector<Piece>;

  void add(SafetensorsFile& file, Where where);
  void expect_each_once(const std::string& tensor, Pieces& pieces, Where where) const;
  Tensor read_piece(const Piece& piece, DType dtype, Where where) const;

  std::string source_;
  int64_t step_ = 0, optimizer_steps_ = 0;
  std::list<SafetensorsFile> files_;
  std::map<std::string, Pieces> pieces_;  // of each tensor, in their order
};

inline ShardedFiles::ShardedFiles(const std::string& folder, Where where) : source_(folder) {
  const auto [step, ranks] = parse_latest(folder, where);
  step_ = step;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    SafetensorsFile& file =
        files_.emplace_back(folder + "/" + shard_file(step, rank, ranks), where);
    said_number(file, "step", step, step, where);
    said_number(file, "ranks", ranks, ranks, where);
    const int64_t least = rank == 0 ? 0 : optimizer_steps_;
    const int64_t most = rank == 0 ? step : optimizer_steps_;
    optimizer_steps_ = said_number(file, "optimizer_steps", least, most, where);
    add(file, where);
  }
  for (auto& [tensor, pieces] : pieces_) expect_each_once(tensor, pieces, where);
}

inline void ShardedFiles::add(SafetensorsFile& file, Where where) {
  for (const auto& [name, entry] : file.entries()) {
    const Run run = parse_run(name, file.name(), where);
    if (const Shape expected = {run.last - run.first}; entry.shape != expected)
      fail(where, "{}: '{}' is {}, expected {}", file.name(), name, str(entry.shape),
           str(expected));
    pieces_[run.tensor].push_back({run, &file});
  }
}

inline void ShardedFiles::expect_each_once(const std::string& tensor, Pieces& pieces,
                                           Where where) const {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.run.first, a.run.last) < std::pair(b.run.first, b.run.last);
  });
  int64_t next = 0;
  const int64_t whole = pieces[0].run.whole;
  for (const auto& [run, file] : pieces) {
    if (run.whole != whole)
      fail(where, "{}: {} has {} numbers in one file and {} in {}", source_, tensor, whole,
           run.whole, file->name());
    if (run.first < next)
      fail(where, "{}: {} has number {} twice, the second time in {}", source_, tensor, run.first,
           file->name());
    if (run.first > next) break;
    next = run.last;
  }
  if (next != whole)
    fail(where, "{}: {} lacks its numbers from {} on; it has {}. Copy all files again", source_,
         tensor, next, whole);
}

inline Tensor ShardedFiles::read(const ShardedTensor& to, Where where) {
  const auto found = pieces_.find(to.run.tensor);
  const int64_t count = to.run.last - to.run.first;
  if (found == pieces_.end())
    fail(where,
         "{} holds none of the {} numbers of {} that this rank needs: is it the same model, with "
         "the same optimizer?",
         source_, count, to.run.name());
  const int64_t whole = found->second[0].run.whole;
  if (whole != to.run.whole)
    fail(where, "{}: {} has {} numbers there and {} in this model", source_, to.run.tensor, whole,
         to.run.whole);
  Tensor all = Tensor::empty({count}, to.value.dtype());
  for (const Piece& piece : found->second) {
    const int64_t first = std::max(piece.run.first, to.run.first);
    const int64_t last = std::min(piece.run.last, to.run.last);
    if (first >= last) continue;
    const Tensor from = read_piece(piece, to.value.dtype(), where);
    all.rows(first - to.run.first, last - to.run.first)
        .copy_from(from.rows(first - piece.run.first, last - piece.run.first), where);
  }
  return all;
}

inline Tensor ShardedFiles::read_piece(const Piece& piece, DType dtype, Where where) const {
  const std::string name = piece.run.name(), file = piece.file->name();
  const DType stored = piece.file->entries().at(name).dtype;
  if (stored != dtype)
    fail(where, "{}: '{}' is {}, expected {}: a run goes on in the types that it was started with",
         file, name, yotta::name(stored), yotta::name(dtype));
  const Tensor values = piece.file->read(name, where);
  expect_state(file, name, values, where);
  return values;
}
}  // namespace detail

YOTTA_INLINE void save_sharded(const std::string& folder, Communicator& comm,
                               const std::vector<ParameterShard>& shards, Optimizer& optimizer,
                               int64_t step, Where where) {
  if (optimizer.steps() > step)
    fail(where, "an optimizer that has taken {} steps cannot be saved in a run of {}",
         optimizer.steps(), step);
  const auto file = [&](int rank) { return shard_file(step, rank, comm.size()); };
  const std::filesystem::path mine = folder + "/" + file(comm.rank());
  std::error_code error;
  std::filesystem::create_directories(mine.parent_path(), error);
  if (error) fail(where, "{} cannot be made: {}", mine.parent_path().string(), error.message());
  std::vector<NamedTensor> tensors;
  for (const detail::ShardedTensor& each : detail::sharded_tensors(shards, optimizer))
    tensors.push_back({each.run.name(), each.value});
  save_safetensors(mine.string(), tensors,
                   {{"ranks", std::to_string(comm.size())},
                    {"step", std::to_string(step)},
                    {"optimizer_steps", std::to_string(optimizer.steps())}},
                   where);
  comm.barrier({.label = "sharded_checkpoint"}, where);  // all files are there
  if (comm.rank() == 0) {
    AtomicFile latest(folder + "/latest", where);
    const std::string first = file(0);
    latest.write(first.data(), std::ssize(first), where);
    latest.commit(where);
  }
  comm.barrier({.label = "sharded_checkpoint"}, where);
}

YOTTA_INLINE int64_t load_sharded(const std::string& folder,
                                  const std::vector<ParameterShard>& shards, Optimizer& optimizer,
                                  Where where) {
  const MemoryScope memory(MemoryKind::buffers);
  detail::ShardedFiles files(folder, where);
  const std::vector<detail::ShardedTensor> tensors = detail::sharded_tensors(shards, optimizer);
  std::vector<Tensor> values;
  for (const detail::ShardedTensor& each : tensors) values.push_back(files.read(each, where));
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor to = tensors[i].value;
    to.copy_from(values[i], where);
  }
  optimizer.set_steps(files.optimizer_steps());
  return files.step();
}

}  // namespace yotta
