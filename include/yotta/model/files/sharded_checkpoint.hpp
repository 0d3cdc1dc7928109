// Sharded checkpoint: each rank saves the shards that it holds, and any number of ranks loads them.
//
//     DIR/step_120/rank_0_of_2.safetensors    exp_avg.w[0:12/24]   w[0:12/24]   ...
//     DIR/step_120/rank_1_of_2.safetensors    exp_avg.w[12:24/24]  w[12:24/24]  ...
//     DIR/latest                              "step_120/rank_0_of_2.safetensors", written last
//
//   saved by 2 ranks  [ 0 ............... 11 | 12 .............. 23 ]   numbers of w
//   loaded by 3       [ 0 ...... 7 | 8 ....... 15 | 16 ........ 23 ]   rank 1 reads from both files
//
// With ZeRO or FSDP no rank holds the whole model, and none should have to for a save. So a file
// holds runs of numbers, each named by the parameter and the range of it that it holds. Whoever
// loads takes from all files what overlaps with its own shards: the number of ranks, the units and
// the padding may differ from when it was saved.
//
// A save that is cut short leaves `latest` with the step before; older steps stay until you delete
// them. Cost: written by each rank 1/N of weights and optimizer state, in parallel; held: one run
// of numbers beside its own. Contract: all ranks of `comm` call; their shards are the model, each
// number once. (Under tensor parallelism the shards are those of one rank of tp: give each rank of
// tp a folder of its own.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/nn/optimizer.hpp"
#include "yotta/parallel/flat_shard.hpp"

namespace yotta {

// Numbers [first, last) of the `whole` ones of a tensor, as it is named in a file: "w[0:12/24]".
struct Run {
  std::string tensor;
  int64_t first = 0, last = 0, whole = 0;

  YOTTA_API std::string name() const;
};

// Errors: a name that is no run's.
YOTTA_API Run parse_run(const std::string& name, const std::string& source,
                        Where where = Where::current());

// Where a rank's shards lie in the folder.
YOTTA_API std::string shard_file(int64_t step, int64_t rank, int64_t ranks);

// Saves this rank's shards after `step` steps. The folder is made if it is not there.
YOTTA_API void save_sharded(const std::string& folder, Communicator& comm,
                            const std::vector<ParameterShard>& shards, Optimizer& optimizer,
                            int64_t step, Where where = Where::current());

// Loads what this rank holds; returns the steps done. With ZeRO's stages 1 and 2 call gather()
// after it. Errors: after one the model is as it was, unless a disk fails.
YOTTA_API int64_t load_sharded(const std::string& folder, const std::vector<ParameterShard>& shards,
                               Optimizer& optimizer, Where where = Where::current());

}  // namespace yotta

#if YOTTA_BODIES_OF(model_json)
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <list>
#include <utility>

#include "yotta/core/system/files.hpp"
#include "yotta/model/files/safetensors.hpp"

namespace yotta {

std::string Run::name() const { return fmt::format("{}[{}:{}/{}]", tensor, first, last, whole); }

Run parse_run(const std::string& name, const std::string& source, Where where) {
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
         source, name);
  return run;
}

std::string shard_file(int64_t step, int64_t rank, int64_t ranks) {
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

// The files of the step that was saved last.
class ShardedFiles {
 public:
  explicit ShardedFiles(const std::string& folder, Where where = Where::current());

  // "step", "optimizer_steps", "ranks"
  int64_t number(const std::string& name, Where where = Where::current()) const;

  // Throws unless the files hold every number of `to`, in a tensor of the same size.
  void expect(const ShardedTensor& to, Where where = Where::current());
  void fill(const ShardedTensor& to, Where where = Where::current());

 private:
  template <class F>
  void each_overlap(const ShardedTensor& to, F&& f) {
    for (auto& [run, file] : runs_) {
      const int64_t first = std::max(run.first, to.run.first);
      const int64_t last = std::min(run.last, to.run.last);
      if (run.tensor == to.run.tensor && first < last) f(run, *file, first, last);
    }
  }

  std::string source_;
  std::list<SafetensorsFile> files_;
  std::vector<std::pair<Run, SafetensorsFile*>> runs_;
};

inline ShardedFiles::ShardedFiles(const std::string& folder, Where where) : source_(folder) {
  files_.emplace_back(folder + "/" + read_file(folder + "/latest", where), where);
  const int64_t ranks = number("ranks", where), step = number("step", where);
  for (int64_t r = 1; r < ranks; ++r)
    files_.emplace_back(folder + "/" + shard_file(step, r, ranks), where);
  for (SafetensorsFile& file : files_)
    for (const auto& [name, entry] : file.entries())
      runs_.emplace_back(parse_run(name, file.name(), where), &file);
}

inline int64_t ShardedFiles::number(const std::string& name, Where where) const {
  const auto found = files_.front().metadata().find(name);
  if (found == files_.front().metadata().end())
    fail(where, "{} does not say its {}: it is no rank's file of a sharded checkpoint",
         files_.front().name(), name);
  int64_t value = -1;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

inline void ShardedFiles::expect(const ShardedTensor& to, Where where) {
  int64_t found = 0;
  each_overlap(to, [&](const Run& run, SafetensorsFile&, int64_t first, int64_t last) {
    if (run.whole != to.run.whole)
      fail(where, "{}: {} has {} numbers there and {} in this model", source_, run.tensor,
           run.whole, to.run.whole);
    found += last - first;
  });
  if (found != to.run.last - to.run.first)
    fail(where,
         "{} holds {} of the {} numbers of {} that this rank needs: is it the same model, with "
         "the same optimizer?",
         source_, found, to.run.last - to.run.first, to.run.name());
}

inline void ShardedFiles::fill(const ShardedTensor& to, Where where) {
  each_overlap(to, [&](const Run& run, SafetensorsFile& file, int64_t first, int64_t last) {
    const Tensor from = file.read(run.name(), where);
    to.value.rows(first - to.run.first, last - to.run.first)
        .copy_from(from.rows(first - run.first, last - run.first), where);
  });
}
}  // namespace detail

void save_sharded(const std::string& folder, Communicator& comm,
                  const std::vector<ParameterShard>& shards, Optimizer& optimizer, int64_t step,
                  Where where) {
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

int64_t load_sharded(const std::string& folder, const std::vector<ParameterShard>& shards,
                     Optimizer& optimizer, Where where) {
  const MemoryScope memory(MemoryKind::buffers);
  detail::ShardedFiles files(folder, where);
  const std::vector<detail::ShardedTensor> tensors = detail::sharded_tensors(shards, optimizer);
  for (const detail::ShardedTensor& each : tensors) files.expect(each, where);
  for (const detail::ShardedTensor& each : tensors) files.fill(each, where);
  optimizer.set_steps(files.number("optimizer_steps", where));
  return files.number("step", where);
}

}  // namespace yotta
#endif  // YOTTA_BODIES
