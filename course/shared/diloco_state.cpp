#include "course/shared/diloco_state.hpp"

#include <fmt/format.h>

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
void set_numbers(const DilocoRank& rank, const Tensor& numbers) {
  const double* next = numbers.data<double>();
  const auto count = [&] { return static_cast<int64_t>(*next++); };
  const int64_t steps = count(), means = count();
  rank.diloco.go_on_from(steps, means);
  rank.inner.set_steps(count());
  for (OuterFragment& each : rank.diloco.fragments()) {
    each.weight = *next++;
    each.steps = count();
    each.left = count();
    const int64_t moving = count();
    each.moving = moving == each.size() || moving == each.size() + 1
                      ? Tensor::empty({moving}, each.outer.dtype())
                      : Tensor();
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
  set_numbers(rank, numbers);
  expect_bytes();
  for (const Tensor& each : tensors_of(rank)) take(each, from);
  for (Optimizer::Slot& slot : rank.inner.slots())
    if (slot.master.defined()) slot.parameter->value.copy_from(slot.master);
}

}  // namespace yotta
