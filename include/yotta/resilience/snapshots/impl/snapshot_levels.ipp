// The bodies of resilience/snapshots/snapshot_levels.hpp.
#pragma once

#include "yotta/resilience/snapshots/snapshot_levels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "yotta/core/system/files.hpp"
#include "yotta/resilience/snapshots/snapshot_files.hpp"

namespace yotta {

namespace detail {
inline ConstData as_data(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), std::ssize(bytes), DType::u8};
}
inline Data as_data(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), std::ssize(bytes), DType::u8};
}
}  // namespace detail

YOTTA_INLINE void SnapshotLevels::start(const SnapshotHeader& header, Optimizer& optimizer,
                                        bool writes) {
  SnapshotKeeper::Write write;
  if (writes && !folder_.empty())
    write = [part = Part{part_, parts_}, folder = folder_](int64_t step, std::string_view bytes) {
      write_snapshot(folder, step, part, bytes);
    };
  keeper_.start(header, optimizer, write);
}

YOTTA_INLINE void SnapshotLevels::write_half(const SnapshotHeader& header,
                                             Optimizer& optimizer) const {
  if (folder_.empty()) return;
  const std::string bytes = pack_snapshot(header, memory_of(optimizer));
  const std::filesystem::path path = snapshot_file(folder_, header.step, {part_, parts_});
  std::filesystem::create_directories(path.parent_path());
  write_file(partial_name(path).string(), bytes.substr(0, bytes.size() / 2));
}

YOTTA_INLINE void SnapshotLevels::send_to_next(const Communicator& world) {
  const auto& own = keeper_.in_memory();
  if (own.empty() || own.rbegin()->first == sent_) return;
  const auto& [step, bytes] = *own.rbegin();
  const int p = world.size(), next = (world.rank() + 1) % p, before = (world.rank() + p - 1) % p;
  std::vector<int64_t> size(1);
  world.send_recv(std::vector<int64_t>{std::ssize(bytes)}, next, size, before);
  std::string theirs(static_cast<size_t>(size[0]), '\0');
  world.send_recv(detail::as_data(bytes), next, detail::as_data(theirs), before);
  of_others_[{step, (part_ + p - 1) % p}] = std::move(theirs);
  while (of_others_.size() > SnapshotKeeper::kept) of_others_.erase(of_others_.begin());
  sent_ = step;
}

YOTTA_INLINE void SnapshotLevels::keep_if(
    const std::function<bool(const SnapshotHeader&)>& belongs) {
  keeper_.keep_if(belongs);
  std::erase_if(of_others_, [&](const auto& each) {
    const std::optional<SnapshotHeader> header = read_snapshot(each.second);
    return !header || !belongs(*header);
  });
  sent_ = -1;
}

YOTTA_INLINE FoundSnapshot SnapshotLevels::find(const Communicator& world,
                                                std::span<const int> parts) {
  keeper_.wait();  // what this rank was writing is there
  std::vector<Offer> offers = memory_offers(world);
  Healing healing = find_healing(offers, parts);
  const std::vector<Offer> in_memory = offers, on_disk = disk_offers(world, parts, healing.step);
  offers.insert(offers.end(), on_disk.begin(), on_disk.end());
  if (Healing newer = find_healing(offers, parts); newer.step > healing.step)
    healing = std::move(newer);
  if (healing.step == 0) {
    warn_of_folder(world);
    return {};
  }
  FoundSnapshot found{healing.step, fetch(world, healing, parts), SnapshotLevel::own_memory, 0};
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Offer offer{healing.sources[rank], parts[rank], healing.step};
    const SnapshotLevel level = std::count(in_memory.begin(), in_memory.end(), offer) == 0
                                    ? SnapshotLevel::disk
                                : offer.rank != static_cast<int>(rank) ? SnapshotLevel::peer_memory
                                                                       : SnapshotLevel::own_memory;
    if (level != SnapshotLevel::own_memory) ++found.moved;
    found.level = std::max(found.level, level);
  }
  return found;
}

// Rank 0 warns if the folder has steps and none of them is whole. All ranks call it.
YOTTA_INLINE void SnapshotLevels::warn_of_folder(const Communicator& world) const {
  if (folder_.empty()) return;
  const std::string why = world.rank() == 0 ? why_no_step(folder_, parts_) : "";
  if (!why.empty())
    fmt::print(stderr, "the run begins again, since {} has no step that is whole: {}\n", folder_,
               why);
  world.barrier();  // no rank removes its part before rank 0 has looked
}

YOTTA_INLINE std::vector<Offer> SnapshotLevels::memory_offers(const Communicator& world) {
  const auto& own = keeper_.in_memory();
  std::vector<int64_t> said = {static_cast<int64_t>(own.size() + of_others_.size())};
  for (const auto& [step, bytes] : own) said.insert(said.end(), {part_, step});
  for (const auto& [key, bytes] : of_others_) said.insert(said.end(), {key.second, key.first});
  said.resize(1 + 4 * SnapshotKeeper::kept);
  const std::vector<int64_t> all = said_by_all(world, said, "regroup");
  std::vector<Offer> offers;
  for (int rank = 0; rank < world.size(); ++rank) {
    const int64_t* const its = all.data() + static_cast<size_t>(rank) * said.size();
    for (int64_t i = 0; i < its[0]; ++i)
      offers.push_back({rank, static_cast<int>(its[1 + 2 * i]), its[2 + 2 * i]});
  }
  return offers;
}

// Each rank looks for its own part, of steps later than `after`.
YOTTA_INLINE std::vector<Offer> SnapshotLevels::disk_offers(const Communicator& world,
                                                            std::span<const int> parts,
                                                            int64_t after) const {
  std::vector<int64_t> own = good_steps(folder_, {part_, parts_}, run_, after);
  own.resize(2 * SnapshotKeeper::kept);
  const std::vector<int64_t> all = said_by_all(world, own, "regroup");
  std::vector<Offer> offers;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t rank = i / own.size();
    if (all[i] > 0) offers.push_back({static_cast<int>(rank), parts[rank], all[i]});
  }
  return offers;
}

// From memory, or else from the disk.
YOTTA_INLINE std::string SnapshotLevels::held(int part, int64_t step) {
  const auto& own = keeper_.in_memory();
  if (const auto found = own.find(step); part == part_ && found != own.end()) return found->second;
  if (const auto found = of_others_.find({step, part}); found != of_others_.end())
    return found->second;
  return read_file(snapshot_file(folder_, step, {part, parts_}));
}

YOTTA_INLINE void SnapshotLevels::forget_after(int64_t step) const {
  if (!folder_.empty()) remove_snapshots(folder_, {part_, parts_}, step);
}

// One transfer after the other.
YOTTA_INLINE std::string SnapshotLevels::fetch(const Communicator& world, const Healing& healing,
                                               std::span<const int> parts) {
  std::string bytes;
  for (int rank = 0; rank < world.size(); ++rank) {
    const int source = healing.sources[static_cast<size_t>(rank)];
    const bool gets = rank == world.rank(), gives = source == world.rank();
    if (gets && gives) bytes = held(part_, healing.step);
    if (gives && !gets) {
      const std::string from = held(parts[static_cast<size_t>(rank)], healing.step);
      world.send(std::vector<int64_t>{std::ssize(from)}, rank);
      world.send(detail::as_data(from), rank);
    }
    if (gets && !gives) {
      std::vector<int64_t> size(1);
      world.recv(size, source);
      bytes.resize(static_cast<size_t>(size[0]));
      world.recv(detail::as_data(bytes), source);
    }
  }
  return bytes;
}

}  // namespace yotta
