// What the graded cases of pipelines share: a student's schedule drawn beside the one that is
// allowed.
#pragma once

#include "course/cases/graded.hpp"
#include "yotta/parallel/pipeline_picture.hpp"

namespace exercise {

// The message of an error without the place in the library.
inline std::string without_place(const yotta::Error& error) {
  const std::string text = error.what();
  const size_t place = text.find(": ");
  return place == std::string::npos ? text : text.substr(place + 2);
}

// Two pictures, one above the other. A rank that would wait forever ends there.
inline std::string beside(const yotta::PipelineSchedule& yours,
                          const yotta::PipelineSchedule& allowed,
                          const yotta::PipelineCosts& costs = {}) {
  const auto drawn = [&](const yotta::PipelineSchedule& schedule) {
    return yotta::picture(yotta::simulate_as_far(schedule, costs), costs.forward);
  };
  return fmt::format("\nyours, p = {}, m = {}:\n{}{}, which is allowed:\n{}", yours.ranks,
                     yours.microbatches, drawn(yours), allowed.name, drawn(allowed));
}

// Runs check(); fails with its complaint and both pictures.
template <class Check>
auto complaining(const yotta::PipelineSchedule& yours, const yotta::PipelineSchedule& allowed,
                 Check check) {
  try {
    return check();
  } catch (const yotta::Error& error) {
    FAIL((without_place(error) + beside(yours, allowed)));
    throw;
  }
}

}  // namespace exercise
