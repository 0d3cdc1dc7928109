// Train command: a planned layout as ours is started: ./yotta train, or under srun on the chips.
//
//     sizes of the model       --dialect llama --layers 32 ...      or --load FOLDER
//     the batch                --context 8192 --batch 512 --microbatches 16
//     the layout               --layout tp=8,pp=4,dp=16 --sequence-parallel --schedule zb-v ...
//
// The command names the model by its sizes, or loads it. Up to 64 ranks of a small model are
// threads here, on a clock of the planned cluster; more of them are processes on the chips.
// Contract: a layout of layout_space. Letters: none.
#pragma once

#include <string>

#include "yotta/plan/layout_space.hpp"

namespace yotta {

// What a command names besides the layout.
struct TrainFrom {
  std::string load = {};     // a folder with weights; empty: a new model of the same sizes
  std::string cluster = {};  // as --cluster is told it
};
// Whether `train` can run it on this computer: ranks as threads, and a model that fits.
inline constexpr int most_threads = 64;
inline constexpr int64_t most_parameters_here = int64_t{1} << 28;
constexpr bool runs_here(const PlanRequest& request, const Layout& layout) {
  return layout.shape.ranks() <= most_threads && parameters(request.config) <= most_parameters_here;
}

// ./yotta train ...; where the chips are needed, under srun with NCCL.
std::string train_command(const PlanRequest& request, const Layout& layout, const TrainFrom& from);

// A word as a shell takes it: in quotes, where it has blanks and the like.
std::string shell_word(const std::string& word);

// Words with spaces between them.
class OptionWords {
 public:
  explicit OptionWords(std::string first) : text_(std::move(first)) {}
  template <class... Values>
  void add(bool given, fmt::format_string<Values...> words, Values&&... values) {
    if (given) text_ += " " + fmt::format(words, std::forward<Values>(values)...);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/train_command.ipp"
#endif
