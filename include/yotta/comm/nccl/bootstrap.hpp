// NcclBootstrap: the small messages that NCCL ranks exchange before NCCL can move anything.
//
//    the id of a communicator  128 bytes, from the rank that made it to the others that join
//    an envelope               which data message comes next: NCCL has no tags and checks no counts
//
// They travel by the transport beneath, in a group of their own, and are kept here until they have
// left. All have the same length. nccl_lanes.hpp sends and receives them.
#pragma once

#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <thread>
#include <type_traits>

#include "yotta/comm/engine/transport.hpp"

namespace yotta {

class NcclBootstrap {
 public:
  using Payload = std::array<std::byte, 128>;
  // One that is on its way, from this rank or to it.
  struct Message {
    Request request;
    Payload payload = {};
    Call call;
  };
  using MessagePtr = std::unique_ptr<Message>;

  // All ranks of `inner` make one together.
  explicit NcclBootstrap(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {
    std::vector<int> all(static_cast<size_t>(inner_->size()));
    std::iota(all.begin(), all.end(), 0);
    group_ = inner_->open_group(0, -1, 0, all);
  }
  ~NcclBootstrap() {
    for (const MessagePtr& each : sent_)
      if (!each->request.done) inner_->withdraw(each->request);
  }
  NcclBootstrap(const NcclBootstrap&) = delete;
  NcclBootstrap& operator=(const NcclBootstrap&) = delete;

  // `kind` separates messages that may be on their way between the same two ranks at once. `call`
  // is named in errors.
  void send(int to, int64_t kind, const Payload& payload, const Call& call) {
    std::erase_if(sent_, [&](const MessagePtr& each) { return inner_->test(each->request); });
    sent_.push_back(post(Request::Kind::send, to, kind, payload, call));
  }
  MessagePtr receive(int from, int64_t kind, const Call& call) {
    return post(Request::Kind::recv, from, kind, {}, call);
  }
  bool has_arrived(Message& message) { return inner_->test(message.request); }
  void cancel(Message& message) {
    if (!message.request.done) inner_->withdraw(message.request);
  }
  // Throws if a rank has failed. The device may notice it a moment before the control message
  // arrives.
  void check_peers(Where where) {
    for (int looks = 0; looks < 500 && !inner_->failed(); ++looks) {
      inner_->check(where);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    inner_->check(where);
  }
  bool all_sent() {
    std::erase_if(sent_, [&](const MessagePtr& each) { return inner_->test(each->request); });
    return sent_.empty();
  }

  // Any struct of numbers as a payload, and back.
  template <class T>
  static Payload pack(const T& value) {
    static_assert(sizeof(T) <= sizeof(Payload) && std::is_trivially_copyable_v<T>);
    Payload payload = {};
    std::memcpy(payload.data(), &value, sizeof value);
    return payload;
  }
  template <class T>
  static T read(const Payload& payload) {
    T value;
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
  }

 private:
  MessagePtr post(Request::Kind kind, int peer, int64_t tag, const Payload& payload,
                  const Call& call) {
    auto message = std::make_unique<Message>();
    message->payload = payload;
    message->call = call;
    Request& request = message->request;
    request.kind = kind;
    request.group = group_;
    request.peer = peer;
    request.tag = -1 - tag;  // not a user's
    request.data = {message->payload.data(), std::ssize(message->payload), DType::u8};
    request.call = &message->call;
    inner_->post(request);
    return message;
  }

  std::shared_ptr<Transport> inner_;
  int group_ = 0;
  std::deque<MessagePtr> sent_;
};

}  // namespace yotta
