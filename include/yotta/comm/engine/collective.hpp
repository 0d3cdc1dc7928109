// Collective: one call of a collective on one rank, as its algorithm sees it.
//
// It is the Channel of message algorithms and, where the ranks share memory, the
// SharedMemoryChannel of native ones. Its messages have a tag of their own (the number of the call
// in its group), so they never meet those of the user or of another collective. Whether its waits
// block the rank or suspend a fiber is decided below, in the engine.
#pragma once

#include "yotta/comm/channel.hpp"
#include "yotta/comm/engine/message.hpp"
#include "yotta/comm/threads/collective_rendezvous.hpp"

namespace yotta {

class Collective : public Channel, public SharedMemoryChannel {
 public:
  // Numbers the call and, on threads, compares it with those of the other ranks.
  Collective(std::shared_ptr<const Group> group, int64_t number, const Call& call,
             std::string_view label)
      : group_(std::move(group)),
        number_(number),
        call_(call),
        label_(label),
        rendezvous_(transport().enter(group_->number, number, call)) {
    if (CostSink* clock = context().clock) issued_ = clock->now(compute_lane);
  }
  ~Collective() override {
    if (rendezvous_ != nullptr) transport().leave(group_->number, *rendezvous_);
  }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  int rank() const override { return group_->rank; }
  int size() const override { return group_->size(); }
  const Call& call() const { return call_; }
  bool can_meet() const { return rendezvous_ != nullptr; }
  // For mirrored groups: what the algorithm that runs next tells apart.
  void tell_apart(ToldApart apart) { apart_ = apart; }

  // Runs the algorithm. If it throws, the collective cannot be completed by anybody.
  template <class Algorithm>
  void run(Algorithm algorithm) {
    CostSink* const clock = context().clock;
    const LaneScope lane(group_->lane);
    try {
      if (clock != nullptr) clock->wait(group_->lane, issued_);
      algorithm(*this);
      stop_reading();
      if (clock != nullptr) ended_ = clock->now(group_->lane);
    } catch (const std::exception& error) {
      give_up(error.what());
      throw;
    } catch (...) {
      give_up("it was given up");
      throw;
    }
  }

  // The rank's own code goes on when the collective has ended.
  void join_clock() const {
    if (CostSink* clock = context().clock) clock->wait(compute_lane, ended_);
  }

  // Channel
  void send(ConstData data, int to, Where where) override {
    const Call call = call_of("send", data, where);
    if (group_->is_mirrored()) fail_roles("one only sends");
    Messages message(*group_, call, label_, tag(), apart_);
    message.send(data, to);
    message.wait();
  }
  void recv(Data data, int from, Where where) override {
    const Call call = call_of("recv", data, where);
    if (group_->is_mirrored()) fail_roles("one only receives");
    Messages message(*group_, call, label_, tag(), apart_);
    message.recv(data, from);
    message.wait();
  }
  void send_recv(ConstData outgoing, int to, Data incoming, int from, Where where) override {
    const Call call = call_of("send_recv", outgoing, where);
    expect_exchange(outgoing, incoming, where);
    Messages both(*group_, call, label_, tag(), apart_);
    both.send(outgoing, to);
    both.recv(incoming, from);
    both.wait();
  }
  void exchange(std::span<const Exchange> all, Where where) override {
    std::deque<Call> calls;  // deques: messages hold the addresses of both
    std::deque<Messages> together;
    for (const Exchange& each : all) {
      expect_exchange(each.outgoing, each.incoming, where);
      calls.push_back(call_of("exchange", each.outgoing, where));
      together.emplace_back(*group_, calls.back(), label_, tag(), apart_);
      together.back().send(each.outgoing, each.to);
      together.back().recv(each.incoming, each.from);
    }
    Messages::wait_all(together);
  }

  // SharedMemoryChannel
  void show(ConstData in, Data out) override {
    rendezvous_->slot(rank()).in = in;
    rendezvous_->slot(rank()).out = out;
  }
  void meet() override {
    stop_reading();
    Request request;
    request.kind = Request::Kind::meet;
    request.group = group_->number;
    request.tag = ++meetings_;
    request.call = &call_;
    request.handle = reinterpret_cast<uintptr_t>(rendezvous_);
    transport().arrive(*rendezvous_, rank());
    group_->engine->wait({&call_, call_.where, {&request, nullptr}, -1});
    // First announce that we read, then check whether a rank has failed and may free its buffers:
    // see give_up().
    rendezvous_->start_reading();
    reading_ = true;
    transport().check(call_.where);
  }
  ConstData in(int other) const override { return rendezvous_->slot(other).in; }
  Data out(int other) const override { return rendezvous_->slot(other).out; }
  // A collective that the transport runs by itself. One that is asynchronous is not waited for if
  // the transport queues it: so collectives of several groups reach it in the order of the calls.
  void run_by_transport(const NativeCall& native) {
    Request own;
    Request* const of_work = group_->engine->request_of_work();
    is_queued_ =
        of_work != nullptr &&
        transport().has_queues(native.out.count > 0 ? native.out.device : native.in.device);
    Request& request = is_queued_ ? *of_work : own;
    request.kind = Request::Kind::native;
    request.group = group_->number;
    request.tag = tag();
    request.call = &call_;
    transport().post(request, native);
    if (is_queued_) return;
    try {
      group_->engine->wait({&call_, call_.where, {&request, nullptr}, -1});
    } catch (...) {
      if (!request.done) transport().withdraw(request);
      throw;
    }
  }
  // A mean is a sum that is divided at the end: by finish(), if the transport has only queued it.
  void divide_at_end(Data sum) {
    to_divide_ = sum;
    if (!is_queued_) finish();
  }
  // The Work has been waited for.
  void finish() {
    if (to_divide_.count > 0) divide(to_divide_, size());
    to_divide_ = {};
  }
  void count(const Traffic& traffic) override {
    Ledger& ledger = context().ledger;
    ledger.sent(label_, traffic.messages_sent, traffic.bytes_sent);
    ledger.received(label_, traffic.messages_received, traffic.bytes_received);
  }

 private:
  Transport& transport() const { return group_->engine->transport(); }
  int64_t tag() const { return -1 - number_; }
  // A message as errors describe it: for the library's algorithms at the user's call, for the
  // user's own at the line that sends.
  Call call_of(const char* message, ConstData data, Where where) const {
    if (!call_.is_custom) return call_;
    return {message, data.count, data.dtype, -1, "", call_.operation, where, true};
  }

  void expect_exchange(ConstData out, ConstData in, Where where) const {
    expect_apart(out, in, where);
    const int64_t rounding = apart_.what == Apart::nodes ? 1 : 0;  // of what another ring carries
    if (group_->is_mirrored() && std::abs(out.count - in.count) > rounding)
      fail_roles(fmt::format("one sends {} and receives {}", out.count, in.count));
  }
  // Mirrored ranks all do what this one does.
  [[noreturn]] void fail_roles(const std::string& difference) const {
    fail(call_.where,
         "{} of {} ranks cannot be mirrored: its ranks play different parts ({}). Mirrored ranks "
         "need "
         "a collective without a root, an algorithm in which all do the same, and a count that the "
         "ranks divide",
         describe_operation(call_), size(), difference);
  }

  void stop_reading() {
    if (std::exchange(reading_, false)) rendezvous_->stop_reading();
  }
  // After this, our buffers may be freed: no rank starts to read them, since the world has failed,
  // and those that were reading have ended.
  void give_up(const char* why) {
    transport().fail(fmt::format("{} was given up: {}", call_.operation, why));
    if (rendezvous_ == nullptr) return;
    stop_reading();
    rendezvous_->wait_for_readers();
  }

  std::shared_ptr<const Group> group_;
  int64_t number_;
  Call call_;
  std::string label_;
  CollectiveRendezvous* rendezvous_;
  ToldApart apart_;
  int meetings_ = 0;
  bool reading_ = false;
  bool is_queued_ = false;  // by the transport; whoever waits for the Work waits for it
  Data to_divide_;
  EventStamp issued_, ended_;  // on a virtual clock
};

}  // namespace yotta
