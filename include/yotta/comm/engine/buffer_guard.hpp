// BufferGuard: was a buffer touched while an operation in flight owned it?
// (RunOptions::check_buffers)
//
//     Work work = world.all_reduce_async(g);   g is copied and filled with 0x7fa5: a signalling NaN
//     g[0] += 1;                               the mistake: g is not yours
//     work.wait();                             throws: the buffer of all_reduce_async at x.cpp:12
//
// (Arithmetic quiets such a NaN, so that even g[0] += 1 changes its bits; a quiet NaN would stay as
// it is.) Incoming data goes to a second buffer, so the caller's must still hold the poison at
// wait(); and code that reads it too early sees NaN, not a number that looks right. Outgoing data
// is hashed when the operation starts and at wait(). Cost: a copy of what is received, two passes
// over what is sent.
#pragma once

#include <vector>

#include "yotta/comm/data.hpp"
#include "yotta/comm/engine/transport.hpp"

namespace yotta {

class BufferGuard {
 public:
  // With `on` false, or on a device, where the host does not look, it costs nothing and out() and
  // in() are the caller's own buffers.
  BufferGuard(bool on, Data out, ConstData in)
      : on_(on && out.device != Device::cuda && in.device != Device::cuda),
        user_out_(out),
        user_in_(in),
        out_(out),
        in_(in) {
    if (!on_) return;
    if (has_bytes(in)) {
      in_aside_.assign(in.bytes, in.bytes + in.nbytes());
      in_.bytes = in_aside_.data();
    }
    if (has_bytes(out)) {
      out_aside_.assign(out.bytes, out.bytes + out.nbytes());
      out_.bytes = out_aside_.data();
      for (int64_t i = 0; i < out.nbytes(); ++i) out.bytes[i] = poison(i, out.dtype);
    }
    hash_ = hash(user_in_);  // after the poison: in may be a part of out
  }
  // What the operation works on.
  Data out() const { return out_; }
  ConstData in() const { return in_; }

  // When the operation is done: checks, and gives the caller what was received.
  void finish(const Call& call) {
    if (!on_) return;
    if (hash(user_in_) != hash_ || !is_poison(user_out_))
      fail(call.where,
           "the buffer of {}_async at {} was written while in flight; until wait() it belongs to "
           "the "
           "operation",
           call.operation, at(call.where));
    copy_data(out_, user_out_);
  }

 private:
  static bool has_bytes(ConstData data) { return data.bytes != nullptr && data.count > 0; }
  // Byte i of an array of poison. The two highest bytes of a number: exponent all ones, quiet bit
  // zero.
  static std::byte poison(int64_t i, DType dtype) {
    const int64_t from_top = bytes_of(dtype) - 1 - i % bytes_of(dtype);
    if (from_top == 0) return std::byte{0x7f};
    if (from_top > 1) return std::byte{0xa5};
    return dtype == DType::f64 ? std::byte{0xf5} : std::byte{0xa5};
  }
  static bool is_poison(ConstData data) {
    if (!has_bytes(data)) return true;
    for (int64_t i = 0; i < data.nbytes(); ++i)
      if (data.bytes[i] != poison(i, data.dtype)) return false;
    return true;
  }
  // FNV-1a.
  static uint64_t hash(ConstData data) {
    uint64_t h = 0xcbf29ce484222325u;
    if (!has_bytes(data)) return h;
    for (int64_t i = 0; i < data.nbytes(); ++i)
      h = (h ^ static_cast<uint64_t>(data.bytes[i])) * 0x100000001b3u;
    return h;
  }

  bool on_;
  Data user_out_;
  ConstData user_in_;
  Data out_;
  ConstData in_;
  std::vector<std::byte> out_aside_, in_aside_;
  uint64_t hash_ = 0;
};

}  // namespace yotta
