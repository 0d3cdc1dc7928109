// Letters: what NCCL ranks must tell each other before NCCL can move anything.
//
//     the id of a communicator      128 bytes, from the rank that made it to the others that join       nccl_lanes.hpp
//     an envelope                   which message comes next: NCCL has no tags and looks at no counts   nccl_messages.hpp
//
// They go over the transport beneath, in a group of their own, and wait here until they have left. All have one length.
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

class NcclLetters {
 public:
  using Text = std::array<std::byte, 128>;
  // One on its way, from here or to here.
  struct Letter {
    Request request;
    Text text = {};
    Call call;
  };
  using LetterPtr = std::unique_ptr<Letter>;

  // All ranks of `inner` make one together.
  explicit NcclLetters(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {
    std::vector<int> all(static_cast<size_t>(inner_->size()));
    std::iota(all.begin(), all.end(), 0);
    group_ = inner_->open_group(0, -1, 0, all);
  }
  ~NcclLetters() {
    for (const LetterPtr& each : sent_)
      if (!each->request.done) inner_->withdraw(each->request);
  }
  NcclLetters(const NcclLetters&) = delete;
  NcclLetters& operator=(const NcclLetters&) = delete;

  // `kind` keeps apart what may be on its way between the same two ranks. `call`: for whom it is, in messages.
  void send(int to, int64_t kind, const Text& text, const Call& call) {
    std::erase_if(sent_, [&](const LetterPtr& each) { return inner_->test(each->request); });
    sent_.push_back(post(Request::Kind::send, to, kind, text, call));
  }
  LetterPtr expect(int from, int64_t kind, const Call& call) {
    return post(Request::Kind::recv, from, kind, {}, call);
  }
  bool has_come(Letter& letter) { return inner_->test(letter.request); }
  void take_back(Letter& letter) {
    if (!letter.request.done) inner_->withdraw(letter.request);
  }
  // Throws if a rank has failed. The device may hear of it a moment before the word comes.
  void check_peers(Where where) {
    for (int looks = 0; looks < 500 && !inner_->failed(); ++looks) {
      inner_->check(where);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    inner_->check(where);
  }
  bool have_left() {
    std::erase_if(sent_, [&](const LetterPtr& each) { return inner_->test(each->request); });
    return sent_.empty();
  }

  // Any struct of numbers as a text, and back.
  template <class T>
  static Text text_of(const T& value) {
    static_assert(sizeof(T) <= sizeof(Text) && std::is_trivially_copyable_v<T>);
    Text text = {};
    std::memcpy(text.data(), &value, sizeof value);
    return text;
  }
  template <class T>
  static T read(const Text& text) {
    T value;
    std::memcpy(&value, text.data(), sizeof value);
    return value;
  }

 private:
  LetterPtr post(Request::Kind kind, int peer, int64_t tag, const Text& text, const Call& call) {
    auto letter = std::make_unique<Letter>();
    letter->text = text;
    letter->call = call;
    Request& request = letter->request;
    request.kind = kind;
    request.group = group_;
    request.peer = peer;
    request.tag = -1 - tag;  // not a user's
    request.data = {letter->text.data(), std::ssize(letter->text), DType::u8};
    request.call = &letter->call;
    inner_->post(request);
    return letter;
  }

  std::shared_ptr<Transport> inner_;
  int group_ = 0;
  std::deque<LetterPtr> sent_;
};

}  // namespace yotta
