#include "course/training/diloco_state.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace yotta {

namespace {

// What decides how long the rest is comes first: counts, in doubles.
Tensor numbers_of(const DilocoRank& rank) {
  Diloco& diloco = rank.diloco;
  std::vector<double> all = {static_cast<double>(diloco.steps()),
                             static_cast<double>(diloco.means()),
                             static_cast<double>(rank.inner.steps())};
  for (const OuterFragment& each : diloco.fragments())
    all.insert(all.end(),
               {each.weight, static_cast<double>(each.steps), static_cast<double>(each.left),
                static_cast<double>(each.moving.defined() ? each.moving.numel() : 0)});
  return Tensor::from<double>(all, {std::ssize(all)});
}

// The numbers of a file, one after the other.
class SavedNumbers {
 public:
  SavedNumbers(const Tensor& numbers, std::string whose)
      : next_(numbers.data<double>()), whose_(std::move(whose)) {}

  int64_t count(const char* what) {
    const double value = *next_++;
    if (!(value >= 0 && value <= most_steps && std::floor(value) == value))
      refuse(what, value, "a whole number from 0 to 2^53");
    return static_cast<int64_t>(value);
  }
  double weight() {
    const double value = *next_++;
    if (!(value >= 0 && std::isfinite(value))) refuse("weight", value, "0 or more, and finite");
    return value;
  }
  [[noreturn]] void refuse(const char* what, double value, const char* expected) const {
    fail(Where::current(), "{}: {} is {}, and should be {}. The file is not one that was saved",
         whose_, what, value, expected);
  }

 private:
  static constexpr double most_steps = 9007199254740992;  // 2^53
  const double* next_;
  std::string whose_;
};

struct SavedFragment {
  double weight;
  int64_t steps, left, moving;
};

SavedFragment next_fragment(SavedNumbers& next, const OuterFragment& each,
                            const DilocoOptions& options) {
  const SavedFragment saved = {next.weight(), next.count("steps of a fragment"),
                               next.count("steps until a mean is there"),
                               next.count("length of what is on its way")};
  if (saved.left > options.overlap)
    next.refuse("steps until a mean is there", static_cast<double>(saved.left),
                "the overlap at most");
  const int64_t awaited = options.bits > 0 ? each.size() : each.size() + 1;
  if (saved.moving != (saved.left > 0 ? awaited : 0))
    next.refuse("length of what is on its way", static_cast<double>(saved.moving),
                saved.left > 0 ? "that of its fragment" : "0, for no mean is awaited");
  return saved;
}

void set_numbers(const DilocoRank& rank, const Tensor& numbers, const std::string& whose) {
  SavedNumbers next(numbers, whose);
  const int64_t steps = next.count("steps"), means = next.count("means");
  const int64_t inner_steps = next.count("steps of the inner optimizer");
  std::vector<SavedFragment> saved;
  for (const OuterFragment& each : rank.diloco.fragments())
    saved.push_back(next_fragment(next, each, rank.options));
  rank.diloco.go_on_from(steps, means);
  rank.inner.set_steps(inner_steps);
  auto from = saved.begin();
  for (OuterFragment& each : rank.diloco.fragments()) {
    each.weight = from->weight, each.steps = from->steps, each.left = from->left;
    each.moving = from->moving > 0 ? Tensor::empty({from->moving}, each.outer.dtype()) : Tensor();
    ++from;
  }
}

// All tensors of a rank, always in the same order.
std::vector<Tensor> tensors_of(const DilocoRank& rank) {
  std::vector<Tensor> all;
  for (Optimizer::Slot& slot : rank.inner.slots()) {
    all.push_back(slot.weight());
    all.insert(all.end(), slot.state.begin(), slot.state.end());
  }
  for (const OuterFragment& each : rank.diloco.fragments())
    for (const Tensor& part :
         {each.outer, each.momentum, each.lost.sent, each.lost.mean, each.moving})
      if (part.defined()) all.push_back(part);
  if (rank.average != nullptr)
    all.insert(all.end(), rank.average->averages().begin(), rank.average->averages().end());
  return all;
}

int64_t bytes_of(const std::vector<Tensor>& all) {
  int64_t sum = 0;
  for (const Tensor& each : all) sum += each.nbytes();
  return sum;
}

Tensor packed(const DilocoRank& rank) {
  std::vector<Tensor> all = tensors_of(rank);
  all.insert(all.begin(), numbers_of(rank));
  Tensor bytes = Tensor::empty({bytes_of(all)}, DType::u8);
  uint8_t* to = bytes.data<uint8_t>();
  for (const Tensor& each : all) {
    std::memcpy(to, each.raw(), static_cast<size_t>(each.nbytes()));
    to += each.nbytes();
  }
  return bytes;
}

// The next bytes from `from`, which moves on.
void take(const Tensor& to, const uint8_t*& from) {
  std::memcpy(to.raw(), from, static_cast<size_t>(to.nbytes()));
  from += to.nbytes();
}

// What has this name; without it nothing.
Tensor find_bytes(const std::vector<NamedTensor>& all, const std::string& name) {
  for (const NamedTensor& each : all)
    if (each.name == name) return each.value;
  return Tensor::empty({0}, DType::u8);
}

std::string name_of(int rank) { return fmt::format("diloco.rank{}", rank); }

}  // namespace

void await_means(Diloco& diloco) {
  for (OuterFragment& each : diloco.fragments()) each.work.wait();
}

std::vector<NamedTensor> gather_diloco(DilocoRank rank, const Communicator& world) {
  await_means(rank.diloco);
  const Tensor mine = packed(rank);
  std::vector<int64_t> sizes(static_cast<size_t>(world.size()));
  const std::vector<int64_t> size = {mine.numel()};
  world.gather(sizes, size, 0);
  if (world.rank() != 0) {
    world.send(mine, 0);
    return {};
  }
  std::vector<NamedTensor> all = {{name_of(0), mine}};
  for (int from = 1; from < world.size(); ++from) {
    all.push_back({name_of(from), Tensor::empty({sizes[static_cast<size_t>(from)]}, DType::u8)});
    world.recv(all.back().value, from);
  }
  return all;
}

void restore_diloco(DilocoRank rank, const Communicator& world, const std::vector<NamedTensor>& all,
                    const std::string& source) {
  const Tensor bytes = find_bytes(all, name_of(world.rank()));
  Tensor numbers = numbers_of(rank);
  const auto expect_bytes = [&] {
    const int64_t expected = numbers.nbytes() + bytes_of(tensors_of(rank));
    if (bytes.nbytes() != expected)
      fail(Where::current(),
           "{} has {} bytes of rank {}, and this run's rank holds {}: resume with the workers, the "
           "layout and the options of the saved run",
           source, bytes.nbytes(), world.rank(), expected);
  };
  if (bytes.nbytes() < numbers.nbytes()) expect_bytes();
  const auto* from = static_cast<const uint8_t*>(bytes.raw());
  take(numbers, from);
  set_numbers(rank, numbers, fmt::format("{}: {}", source, name_of(world.rank())));
  expect_bytes();
  for (const Tensor& each : tensors_of(rank)) take(each, from);
  for (Optimizer::Slot& slot : rank.inner.slots())
    if (slot.master.defined()) slot.parameter->value.copy_from(slot.master);
}

}  // namespace yotta
