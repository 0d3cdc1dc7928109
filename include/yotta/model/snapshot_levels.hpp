// Snapshot levels: where a rank's part of the model can come from after a failure.
//
//     level         who has it                              lost when
//     own memory    the rank itself                         it dies
//     peer memory   the same part of another replica; or,   both die
//                   with a single replica, the next rank
//     disk          all, if they share it                   (the job can be started again)
//     beginning     all: weights are drawn from a seed      never; but all steps are done again
//
//     rank 0          rank 1          rank 2               one replica, three parts
//     part 0          part 1          part 2               its own
//     part 2          part 0          part 1               the rank before it, every snapshot
//
// Memory is a hundred times as fast as a shared disk, and two ranks that die at once are rare. So
// the disk is written behind training, and read only where it has a newer step of all parts than
// memory has. What memory and disk have is one list of offers for find_healing (regroup.hpp).
// Contract: all ranks of a world make the same calls.
// Reference: Wang et al. (2023), Gemini, sections 3 and 4 (which peers keep whose snapshots).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "yotta/comm/communicator.hpp"
#include "yotta/model/regroup.hpp"
#include "yotta/model/snapshot.hpp"

namespace yotta {

// The worst level that any rank of an epoch needed.
enum class SnapshotLevel : uint8_t { own_memory, peer_memory, disk, beginning };
constexpr const char* name(SnapshotLevel level) {
  constexpr const char* names[] = {"own memory", "peer memory", "disk", "beginning"};
  return names[static_cast<int>(level)];
}

// A rank's part, and from where.
struct FoundSnapshot {
  int64_t step = 0;   // of all ranks
  std::string bytes;  // empty: the run begins
  SnapshotLevel level = SnapshotLevel::beginning;
  int64_t moved = 0;  // ranks that did not have their own
};

// What each rank says, by rank.
inline std::vector<int64_t> said_by_all(const Communicator& world, const std::vector<int64_t>& own,
                                        const char* label) {
  std::vector<int64_t> all(own.size() * static_cast<size_t>(world.size()));
  world.all_gather(all, own, {.label = label});
  return all;
}

class SnapshotLevels {
 public:
  // part: of `parts`; folder: of snapshots on the disk, empty for none; run: their mark.
  SnapshotLevels(int part, int parts, std::string folder, uint64_t run)
      : part_(part), parts_(parts), folder_(std::move(folder)), run_(run) {}

  int part() const { return part_; }
  SnapshotKeeper& keeper() { return keeper_; }
  // Begins to take one; `writes`: this rank is the one that puts its part on the disk.
  YOTTA_API void start(const SnapshotHeader& header, Optimizer& optimizer, bool writes);
  // Leaves half a file, as a rank does that is killed while it writes.
  YOTTA_API void write_half(const SnapshotHeader& header, Optimizer& optimizer) const;
  // Gives the newest one to the next rank, once, and keeps that of the rank before.
  YOTTA_API void send_to_next(const Communicator& world);

  // Drops the snapshots that do not belong to the run.
  YOTTA_API void keep_if(const std::function<bool(const SnapshotHeader&)>& belongs);
  // The newest step of which all parts are somewhere, and this rank's part. parts: by rank. If
  // there is none, and steps in the folder, rank 0 warns.
  YOTTA_API FoundSnapshot find(const Communicator& world, std::span<const int> parts);
  // Removes later steps of this part from the disk: they were given up.
  YOTTA_API void forget_after(int64_t step) const;

 private:
  YOTTA_API std::vector<Offer> memory_offers(const Communicator& world);
  YOTTA_API std::vector<Offer> disk_offers(const Communicator& world, std::span<const int> parts,
                                           int64_t after) const;
  YOTTA_API std::string fetch(const Communicator& world, const Healing& healing,
                              std::span<const int> parts);
  YOTTA_API void warn_of_folder(const Communicator& world) const;
  YOTTA_API std::string held(int part, int64_t step);

  int part_, parts_;
  std::string folder_;
  uint64_t run_;
  SnapshotKeeper keeper_;
  std::map<std::pair<int64_t, int>, std::string> of_others_;  // by step and part
  int64_t sent_ = -1;                                         // the step
};

}  // namespace yotta

#if YOTTA_BODIES_OF(model_survival_json)
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "yotta/core/system/files.hpp"
#include "yotta/model/files/snapshot_files.hpp"

namespace yotta {

namespace detail {
inline ConstData as_data(const std::string& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), std::ssize(bytes), DType::u8};
}
inline Data as_data(std::string& bytes) {
  return {reinterpret_cast<std::byte*>(bytes.data()), std::ssize(bytes), DType::u8};
}
}  // namespace detail

void SnapshotLevels::start(const SnapshotHeader& header, Optimizer& optimizer, bool writes) {
  SnapshotKeeper::Write write;
  if (writes && !folder_.empty())
    write = [part = Part{part_, parts_}, folder = folder_](int64_t step, std::string_view bytes) {
      write_snapshot(folder, step, part, bytes);
    };
  keeper_.start(header, optimizer, write);
}

void SnapshotLevels::write_half(const SnapshotHeader& header, Optimizer& optimizer) const {
  if (folder_.empty()) return;
  const std::string bytes = pack_snapshot(header, memory_of(optimizer));
  const std::filesystem::path path = snapshot_file(folder_, header.step, {part_, parts_});
  std::filesystem::create_directories(path.parent_path());
  write_file(partial_name(path).string(), bytes.substr(0, bytes.size() / 2));
}

void SnapshotLevels::send_to_next(const Communicator& world) {
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

void SnapshotLevels::keep_if(const std::function<bool(const SnapshotHeader&)>& belongs) {
  keeper_.keep_if(belongs);
  std::erase_if(of_others_, [&](const auto& each) {
    const std::optional<SnapshotHeader> header = read_snapshot(each.second);
    return !header || !belongs(*header);
  });
  sent_ = -1;
}

FoundSnapshot SnapshotLevels::find(const Communicator& world, std::span<const int> parts) {
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
void SnapshotLevels::warn_of_folder(const Communicator& world) const {
  if (folder_.empty()) return;
  const std::string why = world.rank() == 0 ? why_no_step(folder_, parts_) : "";
  if (!why.empty())
    fmt::print(stderr, "the run begins again, since {} has no step that is whole: {}\n", folder_,
               why);
  world.barrier();  // no rank removes its part before rank 0 has looked
}

std::vector<Offer> SnapshotLevels::memory_offers(const Communicator& world) {
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
std::vector<Offer> SnapshotLevels::disk_offers(const Communicator& world,
                                               std::span<const int> parts, int64_t after) const {
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
std::string SnapshotLevels::held(int part, int64_t step) {
  const auto& own = keeper_.in_memory();
  if (const auto found = own.find(step); part == part_ && found != own.end()) return found->second;
  if (const auto found = of_others_.find({step, part}); found != of_others_.end())
    return found->second;
  return read_file(snapshot_file(folder_, step, {part, parts_}));
}

void SnapshotLevels::forget_after(int64_t step) const {
  if (!folder_.empty()) remove_snapshots(folder_, {part_, parts_}, step);
}

// One transfer after the other.
std::string SnapshotLevels::fetch(const Communicator& world, const Healing& healing,
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
#endif  // YOTTA_BODIES
