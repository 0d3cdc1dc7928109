// How a collective begins: what each one checks, what all ranks must agree on, which algorithm it
// runs.
//
//     blocking     on this stack
//     async        in a fiber; the Work that is returned waits for it
#pragma once

#include "yotta/comm/engine/algorithms.hpp"
#include "yotta/comm/engine/collective.hpp"
#include "yotta/comm/engine/point_to_point.hpp"

namespace yotta {

enum class Mode : uint8_t { blocking, async };

// Runs a collective: body(collective, out, in), with out and in as given or, when buffers are
// checked, aside.
template <class Body>
Work launch(const std::shared_ptr<Group>& group, Mode mode, const Call& call, const char* label,
            Data out, ConstData in, Body body) {
  Group& self = *group;
  if (label == nullptr) label = call.operation;
  const bool is_queued =
      std::string_view(call.algorithm) == name(Algorithm::native) &&
      self.engine->transport().has_queues(out.count > 0 ? out.device : in.device);
  auto collective = std::make_shared<Collective>(group, self.collectives++, call, label);
  if (mode == Mode::blocking) {
    if (const auto before = self.engine->last(self.number)) self.engine->wait(*before, call.where);
    if (is_queued) self.engine->wait_for_turn(call);
    collective->run([&](Collective& c) { body(c, out, in); });
    collective->join_clock();
    return {};
  }
  auto watch = std::make_shared<BufferGuard>(self.engine->options().check_buffers, out, in);
  auto job = std::make_shared<InFlightOp>();
  job->call = call;
  job->group = self.number;
  job->is_queued = is_queued;
  job->waiting = {&job->call, call.where, {}, -1};  // for its turn
  job->body = [collective, watch, body] {
    collective->run([&](Collective& c) { body(c, watch->out(), watch->in()); });
  };
  job->finish = [collective, watch] {
    collective->finish();
    collective->join_clock();
    watch->finish(collective->call());
  };
  self.engine->start(job);
  return {self.engine, job};
}

inline const Group& enter(const std::shared_ptr<Group>& group, Where where) {
  const Group& self = group_or_fail(group, where);
  self.engine->enter(where);
  return self;
}

inline const Group& enter_rooted(const std::shared_ptr<Group>& group, int root, Where where) {
  const Group& self = enter(group, where);
  expect_rank(root, self.size(), "root", where);
  return self;
}

inline Call describe(const char* operation, ConstData data, Algorithm algorithm, Where where,
                     int root = -1, const char* op = "") {
  return {operation, data.count, data.dtype, root, op, name(algorithm), where};
}

// `data` must have `count` elements of the type of `other`.
inline void expect_count(ConstData data, int64_t count, ConstData other, const char* what,
                         Where where) {
  expect_data(data, what, where);
  if (data.count != count)
    fail(where, "{} has {} elements; {} are expected", what, data.count, count);
  if (data.dtype != other.dtype)
    fail(where, "{} is {}, but the other array is {}", what, name(data.dtype), name(other.dtype));
  if (data.device != other.device)
    fail(where, "{} is on {}, but the other array is on {}", what, name(data.device),
         name(other.device));
}

inline void expect_counts(ConstData data, Counts counts, const Group& self, const char* what,
                          Where where) {
  expect_data(data, what, where);
  if (std::ssize(counts) != self.size())
    fail(where, "{} has {} counts for {} ranks", what, counts.size(), self.size());
  int64_t sum = 0;
  for (int64_t count : counts) {
    if (count < 0) fail(where, "{} has a negative count, {}", what, count);
    sum += count;
  }
  if (sum != data.count)
    fail(where, "{} has {} elements, but its counts add up to {}", what, data.count, sum);
}

inline Work start_broadcast(const std::shared_ptr<Group>& group, Mode mode, Data data, int root,
                            CommOptions options, Where where) {
  const Group& self = enter_rooted(group, root, where);
  expect_data(data, "data", where);
  options = choose(self, Operation::broadcast, options, data, where);
  return launch(group, mode, describe("broadcast", data, options.algorithm, where, root),
                options.label, data, {}, [=](Collective& c, Data out, ConstData) {
                  run_broadcast(c, options.algorithm, out, root);
                });
}

inline Work start_reduce(const std::shared_ptr<Group>& group, Mode mode, Data data, int root,
                         ReduceOp op, CommOptions options, Where where) {
  const Group& self = enter_rooted(group, root, where);
  expect_data(data, "data", where);
  options = choose(self, Operation::reduce, options, data, where);
  return launch(group, mode, describe("reduce", data, options.algorithm, where, root, name(op)),
                options.label, data, {}, [=](Collective& c, Data out, ConstData) {
                  run_reduce(c, options.algorithm, out, op, root);
                  if (op == ReduceOp::mean && c.rank() == root) c.divide_at_end(out);
                });
}

inline Work start_all_reduce(const std::shared_ptr<Group>& group, Mode mode, Data data, ReduceOp op,
                             CommOptions options, Where where) {
  const Group& self = enter(group, where);
  expect_data(data, "data", where);
  options = choose(self, Operation::all_reduce, options, data, where);
  return launch(group, mode, describe("all_reduce", data, options.algorithm, where, -1, name(op)),
                options.label, data, {}, [=](Collective& c, Data out, ConstData) {
                  run_all_reduce(c, options.algorithm, out, op, options);
                  if (op == ReduceOp::mean) c.divide_at_end(out);
                });
}

inline Work start_reduce_scatter(const std::shared_ptr<Group>& group, Mode mode, Data out,
                                 ConstData in, ReduceOp op, CommOptions options, Where where) {
  const Group& self = enter(group, where);
  const int p = self.size();
  expect_data(in, "in", where);
  expect_count(out, chunk_count(in.count, p, self.rank), in, "out, this rank's chunk,", where);
  options = choose(self, Operation::reduce_scatter, options, in, where);
  return launch(group, mode, describe("reduce_scatter", in, options.algorithm, where, -1, name(op)),
                options.label, out, in, [=](Collective& c, Data sum, ConstData mine) {
                  run_reduce_scatter(c, options.algorithm, mine, sum, op, options);
                  if (op == ReduceOp::mean) c.divide_at_end(sum);
                });
}

inline Work start_all_gather(const std::shared_ptr<Group>& group, Mode mode, Data out, ConstData in,
                             CommOptions options, Where where) {
  const Group& self = enter(group, where);
  expect_data(out, "out", where);
  expect_count(in, chunk_count(out.count, self.size(), self.rank), out, "in, this rank's chunk,",
               where);
  options = choose(self, Operation::all_gather, options, out, where);
  return launch(group, mode, describe("all_gather", out, options.algorithm, where), options.label,
                out, in, [=](Collective& c, Data all, ConstData mine) {
                  run_all_gather(c, options.algorithm, mine, all, options);
                });
}

inline Work start_all_to_all(const std::shared_ptr<Group>& group, Mode mode, Data out, ConstData in,
                             CommOptions options, Where where) {
  const Group& self = enter(group, where);
  const int p = self.size();
  expect_data(in, "in", where);
  expect_count(out, p * chunk_count(in.count, p, self.rank), in, "out, this rank's chunk of all,",
               where);
  options = choose(self, Operation::all_to_all, options, in, where);
  return launch(group, mode, describe("all_to_all", in, options.algorithm, where), options.label,
                out, in, [=](Collective& c, Data mine, ConstData all) {
                  run_all_to_all(c, options.algorithm, all, mine);
                });
}

inline Work start_all_to_all_v(const std::shared_ptr<Group>& group, Mode mode, Data out,
                               Counts out_counts, ConstData in, Counts in_counts,
                               CommOptions options, Where where) {
  const Group& self = enter(group, where);
  expect_counts(out, out_counts, self, "out", where);
  expect_counts(in, in_counts, self, "in", where);
  expect_count(out, out.count, in, "out", where);
  const auto i = static_cast<size_t>(self.rank);
  if (in_counts[i] != out_counts[i])
    fail(where, "this rank sends {} elements to itself but expects {}", in_counts[i],
         out_counts[i]);
  options = choose(self, Operation::all_to_all_v, options, in, where);
  Call call = describe("all_to_all_v", in, options.algorithm, where);
  call.count = -1;
  return launch(group, mode, call, options.label, out, in,
                [options, ins = std::vector(in_counts.begin(), in_counts.end()),
                 outs = std::vector(out_counts.begin(), out_counts.end())](Collective& c, Data to,
                                                                           ConstData from) {
                  run_all_to_all_v(c, options.algorithm, from, ins, to, outs, options.node);
                });
}

inline Work start_gather(const std::shared_ptr<Group>& group, Mode mode, Data out, ConstData in,
                         int root, CommOptions options, Where where) {
  const Group& self = enter_rooted(group, root, where);
  const int p = self.size();
  expect_data(in, "in", where);
  if (self.rank == root) expect_data(out, "out", where);
  if (self.rank != root && out.count == 0) out = {nullptr, in.count * p, in.dtype, in.device};
  expect_count(in, chunk_count(out.count, p, self.rank), out, "in, this rank's chunk,", where);
  options = choose(self, Operation::gather, options, out, where);
  return launch(group, mode, describe("gather", out, options.algorithm, where, root), options.label,
                out, in, [=](Collective& c, Data all, ConstData mine) {
                  run_gather(c, options.algorithm, mine, all, root);
                });
}

inline Work start_scatter(const std::shared_ptr<Group>& group, Mode mode, Data out, ConstData in,
                          int root, CommOptions options, Where where) {
  const Group& self = enter_rooted(group, root, where);
  const int p = self.size();
  expect_data(out, "out", where);
  if (self.rank == root) expect_data(in, "in", where);
  if (self.rank != root && in.count == 0) in = {nullptr, out.count * p, out.dtype, out.device};
  expect_count(out, chunk_count(in.count, p, self.rank), in, "out, this rank's chunk,", where);
  options = choose(self, Operation::scatter, options, in, where);
  return launch(group, mode, describe("scatter", in, options.algorithm, where, root), options.label,
                out, in, [=](Collective& c, Data mine, ConstData all) {
                  run_scatter(c, options.algorithm, all, mine, root);
                });
}

inline Work start_barrier(const std::shared_ptr<Group>& group, Mode mode, CommOptions options,
                          Where where) {
  const Group& self = enter(group, where);
  options = choose(self, Operation::barrier, options, {}, where);
  Call call = describe("barrier", {}, options.algorithm, where);
  call.count = -1;
  return launch(group, mode, call, options.label, {}, {},
                [=](Collective& c, Data, ConstData) { run_barrier(c, options.algorithm); });
}

inline Work start_collective(const std::shared_ptr<Group>& group, Mode mode, const char* name,
                             const std::function<void(Channel&)>& body, Where where) {
  enter(group, where);
  const Call call{name, -1, DType::u8, -1, "", "", where, /*is_custom=*/true};
  return launch(group, mode, call, nullptr, {}, {},
                [body](Collective& c, Data, ConstData) { body(static_cast<Channel&>(c)); });
}

// The group of the ranks that give the same color, ordered by key, then rank; null for color < 0.
inline std::shared_ptr<Group> split_group(const std::shared_ptr<Group>& group_of_all, int color,
                                          int key, Where where) {
  const Group& parent = group_or_fail(group_of_all, where);
  parent.engine->enter(where);
  if (parent.is_mirrored())
    fail(where, "a mirrored communicator cannot be split: name the chips of each with mirrored()");
  std::vector<int32_t> all(2 * parent.members.size());
  const std::vector<int32_t> mine = {color, key};
  const Call call{"split", -1, DType::i32, -1, "", "", where};
  launch(group_of_all, Mode::blocking, call, nullptr, all, mine,
         [](Collective& c, Data out, ConstData in) { all_gather_ring(c, in, out); })
      .wait();
  const int64_t sequence = group_of_all->splits++;
  parent.engine->transport().split(parent.number, color, key);
  if (color < 0) return nullptr;
  std::vector<std::tuple<int32_t, int>> order;  // (key, rank) of those with this color
  for (int r = 0; r < parent.size(); ++r)
    if (all[static_cast<size_t>(2 * r)] == color)
      order.emplace_back(all[static_cast<size_t>(2 * r + 1)], r);
  std::sort(order.begin(), order.end());
  auto group = std::make_shared<Group>();
  group->engine = parent.engine;
  group->own_name = fmt::format("split {} of {}", sequence + 1, parent.name);
  // Only a clock keeps the name, in its timeline; otherwise the kept texts would grow with every
  // split.
  group->name = context().clock != nullptr ? kept(group->own_name) : group->own_name;
  group->lane = parent.engine->new_lane();
  for (const auto& [its_key, rank] : order) {
    if (rank == parent.rank) group->rank = group->size();
    group->members.push_back(parent.world(rank));
  }
  group->number =
      parent.engine->transport().open_group(parent.number, sequence, color, group->members);
  return group;
}

}  // namespace yotta
