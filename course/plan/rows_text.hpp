// Predictions beside what others measured: a table, its errors by source, and the same as JSON.
#pragma once

#include <string>

#include "course/options/json_object.hpp"
#include "yotta/plan/stack_fit.hpp"

namespace yotta {

// A line for each row, and a line for each source.
std::string rows_text(const std::vector<RowError>& errors);
std::string sources_text(const std::vector<SourceErrors>& sources);
std::string fit_text(const StackFit& fit);
JsonObject rows_json(const std::vector<RowError>& errors);

// The rows of this repository: course/data/measured_steps.tsv.
std::vector<MeasuredRow> own_rows();

// "Measured runs of this kind reach 38 to 43% of the peak (llama3-405B-8192-8192, ...)": of a model
// of about this size, of the same kind, on these chips; empty if there is none.
std::string measured_kind_text(const PlanRequest& request);

// By how much predictions are off, on average, on steps of software that no number was fitted to.
inline constexpr double others_error = 0.10;

}  // namespace yotta
