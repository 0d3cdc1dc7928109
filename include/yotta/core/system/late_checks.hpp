// LateChecks: a device looks whether numbers are as they must be, and the host does not wait for
// the answer.
//
//     host      embedding(ids) ── add(message) ──► goes on             wait() ── throws the message
//     device                       kernel looks ──► { check, item, value } in the host's memory
//
// Ids of tokens lie on the device. To look at them the host would have to wait for all that was
// launched before. A kernel looks instead, and writes down the first finding. Whoever launches a
// check must see to it that what follows is safe with wrong numbers.
//
// The words of a check are kept for as long as some 1000 checks that come after it. The kernels of
// a graph look again and again, so the words of its checks are kept until it is gone.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "yotta/core/error.hpp"
#include "yotta/core/system/build.hpp"

namespace yotta {

// What a kernel writes down. check 0: nothing has been found.
struct LateFinding {
  int32_t check = 0, item = 0, value = 0;
};

class LateChecks {
 public:
  // message(item, value) says what is wrong.
  using Message = std::function<std::string(int64_t item, int64_t value)>;

  // The checks of a graph, whose words are kept while this lives.
  class OfGraph {
   public:
    explicit OfGraph(LateChecks& all) : all_(all) {}
    ~OfGraph();
    OfGraph(const OfGraph&) = delete;
    OfGraph& operator=(const OfGraph&) = delete;

   private:
    LateChecks& all_;
  };

  // A new check: the number that its kernel writes down.
  int32_t add(Message message, Where where);
  // Checks that are added from now on are this graph's; null: nobody's.
  void record(const OfGraph* graph);
  // Throws what was found and forgets it.
  void raise(LateFinding& finding);

 private:
  struct Check {
    int32_t number = 0;
    Message message;
    Where where;
    const OfGraph* graph = nullptr;
  };
  static constexpr size_t most = 1024;  // whose messages are kept

  const Check* find(int32_t number) const;

  std::mutex mutex_;  // ranks may be threads
  int32_t added_ = 0;
  std::array<Check, most> checks_;
  std::map<int32_t, Check> of_graphs_;
  const OfGraph* recorded_ = nullptr;
};

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/core/system/impl/late_checks.ipp"
#endif
