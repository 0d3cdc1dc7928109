// KernelBatch: bodies of one type that many small tensors have, by one launch.
//
//     AdamW of 148 parameters       run_kernel for each     148 launches of some microseconds
//                                   run_together, run()     1 or 2
//
// A launch costs some five microseconds wherever its kernel is short; a model has a dozen small
// parameters in each layer. While a batch lives on this thread, run_together() only gathers bodies,
// and run() launches those of a type together, in no order: none may read what another writes.
// Whatever else is asked of the device meanwhile launches them first (launch_gathered). What they
// read must live until then: after_launch(f) calls f when they are launched, so an f that holds a
// tensor keeps it. Without a batch run_together() is run_kernel(), and after_launch(f) is f(). The
// slot is filled beside KernelOf (accelerator.hpp), by device/cuda/body_kernels.hpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "yotta/core/system/accelerator.hpp"

namespace yotta {

// Where the kernel is that runs bodies[i] for items 0, 1, ..., items[i] - 1, for all i.
template <class Body>
struct KernelOfMany {
  using Launch = void (*)(std::span<const Body> bodies, std::span<const int64_t> items,
                          Where where);
  static inline Launch launch = nullptr;
};

class KernelBatch : public Gathered {
 public:
  KernelBatch() : outer_(gathered_kernels()) {
    launch_gathered(Where::current());
    gathered_kernels() = this;
  }
  ~KernelBatch() override { gathered_kernels() = outer_; }
  KernelBatch(const KernelBatch&) = delete;
  KernelBatch& operator=(const KernelBatch&) = delete;

  // This thread's innermost; null: none.
  static KernelBatch* here() { return static_cast<KernelBatch*>(gathered_kernels()); }
  template <class Body>
  void add(const Body& body, int64_t items) {
    if (items == 0) return;
    List<Body>& list = list_of<Body>();
    list.bodies.push_back(body);
    list.items.push_back(items);
  }
  bool empty() const { return lists_.empty(); }
  void after(std::function<void()> f) { after_.push_back(std::move(f)); }
  // Launches all that was gathered, then calls what was to come after it.
  void run(Where where) override {
    const auto lists = std::exchange(lists_, {});
    const auto after = std::exchange(after_, {});  // now: a body's launch may come here again
    for (const auto& list : lists) list->run(where);
    for (const auto& f : after) f();
  }

 private:
  struct AnyList {
    virtual ~AnyList() = default;
    virtual void run(Where where) const = 0;
  };
  template <class Body>
  struct List : AnyList {
    std::vector<Body> bodies;
    std::vector<int64_t> items;
    void run(Where where) const override { KernelOfMany<Body>::launch(bodies, items, where); }
  };
  template <class Body>
  List<Body>& list_of() {
    for (const auto& list : lists_)
      if (auto* const its = dynamic_cast<List<Body>*>(list.get())) return *its;
    lists_.push_back(std::make_unique<List<Body>>());
    return static_cast<List<Body>&>(*lists_.back());
  }

  Gathered* outer_;
  std::vector<std::unique_ptr<AnyList>> lists_;
  std::vector<std::function<void()>> after_;
};

// body for every item: with those of the batch, if there is one and the body has a kernel for that.
template <class Body>
void run_together(const char* operation, const Body& body, int64_t items, Where where) {
  if (KernelBatch::here() != nullptr && KernelOfMany<Body>::launch != nullptr)
    KernelBatch::here()->add(body, items);
  else
    run_kernel(operation, body, items, where);
}

// f() when all that this thread has gathered so far is launched; at once if there is nothing.
template <class F>
void after_launch(F&& f) {
  KernelBatch* const batch = KernelBatch::here();
  if (batch == nullptr || batch->empty())
    f();
  else
    batch->after(std::forward<F>(f));
}

}  // namespace yotta
