// What the graded cases of exercise 18 call. adapter.cpp fills it with one solution.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "course/cases/own_stack.hpp"
#include "yotta/comm/communicator.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/parallel/pipeline_schedule.hpp"

namespace exercise {

// A solution's class PipelineMessages.
class AnyMessages {
 public:
  virtual ~AnyMessages() = default;
  virtual std::pair<int, int> route(const yotta::PipelineAction& a) const = 0;
  virtual yotta::Tensor receive(const yotta::PipelineAction& a, const yotta::Shape& shape) = 0;
  virtual void send(const yotta::PipelineAction& a, yotta::Tensor made) = 0;
  virtual void finish() = 0;
};

struct Solution {
  Call<yotta::PipelineActions(int rank, int p, int64_t m)> gpipe;
  Call<yotta::PipelineActions(int rank, int p, int64_t m)> one_f_one_b;
  Call<int64_t(const yotta::PipelineActions& actions)> most_in_flight;
  Call<std::unique_ptr<AnyMessages>(const yotta::Communicator& comm,
                                    const yotta::PipelineSchedule& schedule)>
      make_messages;
  Call<yotta::PipelineActions(int rank, int p, int64_t m, int v)> interleaved;
};
extern const Solution solution;

}  // namespace exercise
