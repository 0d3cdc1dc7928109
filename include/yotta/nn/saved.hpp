// Saved: what one microbatch's forward pass leaves behind for its backward pass.
//
// A framework with a tape hides this memory. Here it is a value: one tree of named tensors per
// microbatch, shaped like the model, that the caller of forward holds.
//
//     saved                       one microbatch
//     ├── embedding   ids
//     ├── layers.0
//     │   ├── attention ── q    x, after dgrad also dy
//     │   │             └─ k    x           (the same tensor as q's: counted once)
//     │   └── mlp ...
//     └── head ...
//
//     forward fills it            backward_input reads it, and leaves x and dy for the weights
//     clear() drops it            that is activation checkpointing: forward must be run again
//     keeping it after dgrad      that is the memory price of a zero-bubble pipeline
//
// It also knows where the microbatch is in the whole run, so that a dropout mask can be drawn
// again, the same on every layout of ranks. Saved can be moved but not copied: two copies would
// keep the same memory alive.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yotta/core/tensor.hpp"
#include "yotta/nn/positions.hpp"

namespace yotta {

class Saved {
 public:
  explicit Saved(BatchPosition position = {}, std::string name = "")
      : position_(position), name_(std::move(name)) {}
  ~Saved() = default;
  Saved(Saved&&) noexcept = default;
  Saved& operator=(Saved&&) noexcept = default;

  const BatchPosition& position() const { return position_; }
  const std::string& name() const { return name_; }

  // The tree of the layer called `name` below this one; made on first use.
  Saved& child(std::string_view name) {
    for (const std::unique_ptr<Saved>& each : children_)
      if (each->name_ == name) return *each;
    children_.push_back(std::make_unique<Saved>(position_, std::string(name)));
    return *children_.back();
  }

  // Holds a tensor (the handle, no copy) under a name; replaces what was there.
  void keep(std::string_view slot, Tensor tensor) {
    const size_t i = find(slot);
    if (i < slots_.size())
      slots_[i].second = std::move(tensor);
    else
      slots_.emplace_back(slot, std::move(tensor));
  }
  bool has(std::string_view slot) const { return find(slot) < slots_.size(); }
  const Tensor& get(std::string_view slot, Where where = Where::current()) const {
    return slots_[must_find(slot, where)].second;
  }

  // Gives a tensor out and forgets it: for its last reader.
  Tensor take(std::string_view slot, Where where = Where::current()) {
    const size_t i = must_find(slot, where);
    Tensor tensor = std::move(slots_[i].second);
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(i));
    return tensor;
  }

  // Drops every tensor, here and below.
  void clear() {
    slots_.clear();
    children_.clear();
  }

  // Calls visit(saved) for this one and all below it.
  void each(const std::function<void(Saved&)>& visit) {
    visit(*this);
    for (const std::unique_ptr<Saved>& child : children_) child->each(visit);
  }

  bool empty() const { return bytes() == 0; }
  // Bytes held. Tensors that share a buffer (q, k and v keep the same x) count once, as
  // the largest.
  int64_t bytes() const {
    std::vector<const Tensor*> distinct;
    collect(distinct);
    int64_t sum = 0;
    for (const Tensor* tensor : distinct) sum += tensor->nbytes();
    return sum;
  }

 private:
  void collect(std::vector<const Tensor*>& distinct) const {
    for (const auto& [name, tensor] : slots_) {
      const Tensor** same = nullptr;
      for (const Tensor*& seen : distinct)
        if (seen->shares_memory(tensor)) same = &seen;
      if (same == nullptr)
        distinct.push_back(&tensor);
      else if ((*same)->nbytes() < tensor.nbytes())
        *same = &tensor;
    }
    for (const std::unique_ptr<Saved>& each : children_) each->collect(distinct);
  }
  size_t find(std::string_view slot) const {
    size_t i = 0;
    while (i < slots_.size() && slots_[i].first != slot) ++i;
    return i;
  }
  size_t must_find(std::string_view slot, Where where) const {
    const size_t i = find(slot);
    if (i == slots_.size())
      fail(where, "the Saved of '{}' holds no '{}', but {}: {}", name_, slot, held(),
           slot == "dy"
               ? "run backward_input, which keeps it, before backward_weight, which uses it up"
               : "run forward, which keeps it, on this Saved; after a checkpoint dropped it, run "
                 "forward again; after backward_weight it is used up");
    return i;
  }

  // 'x', 'h'; or: nothing
  std::string held() const {
    std::string text;
    for (const auto& [slot, tensor] : slots_) text += (text.empty() ? "'" : ", '") + slot + "'";
    return text.empty() ? "nothing" : text;
  }

  BatchPosition position_;
  std::string name_;
  std::vector<std::pair<std::string, Tensor>> slots_;
  std::vector<std::unique_ptr<Saved>> children_;
};

}  // namespace yotta
