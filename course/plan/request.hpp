// What `./yotta plan` is asked: models by name or file, numbers with K, M and G, logs of measured
// steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "yotta/plan/calibration.hpp"

namespace yotta {

// "16M" is 16 x 2^20; also K and G. Errors: no such number, by the option's name.
int64_t parse_count(const std::string& option, const std::string& text);

// gpt2, llama3-8b, llama3-70b, llama3-405b, mixtral-8x7b, deepseek-v3; or a config.json of ours or
// Hugging Face's, or the folder that it is in.
TransformerConfig model_from(const std::string& text);

// "tp=8,pp=16,dp=128,tp_kind=sp,chunks=8,zero=1": the columns of a log that say how a step is
// spread. Errors: another key; a value that cannot be.
Layout layout_from(const std::string& text, int64_t microbatches);

// Errors: another number of ranks than chips, in `option`.
void expect_ranks(const MeshShape& shape, const Cluster& cluster, const std::string& option);

// A log: JSON of `./yotta train --json` (one object, or a list of them), or a table whose first
// line names the columns, separated by commas:
//     tp,cp,pp,ep,fsdp,dp,microbatches,schedule,chunks,zero,recomputed,tp_kind,cp_kind,step_seconds
// What a line leaves out is 1, 1F1B, 0, "plain" or "ring"; batch, sequence, model and cluster are
// the request's unless the log has columns of these names, as --model and --cluster are told them.
// `reach`: what the software reaches of a row's own cluster. Errors: another column; a run of
// another model, or one that has no formula.
struct MeasuredSteps {
  std::vector<MeasuredStep> steps = {};
  bool names_model = true;  // each run says how many parameters its model has
};
using RowReach = std::function<void(PlanRequest&)>;
MeasuredSteps measured_steps(const std::string& path, const PlanRequest& request,
                             const RowReach& reach = {});

}  // namespace yotta
