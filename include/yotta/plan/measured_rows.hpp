// Measured rows: steps that others have measured and published, each predicted at its own layout.
//
//     a table, columns separated by tabs     id, source, chip, gpus, the model's sizes, the layout,
//                                            seconds, gigabytes (empty: not published), a note
//       └ row                                the request, the layout, what was measured
//          └ estimate                        with a stack, or without some cause
//             └ errors by source             mean and worst of |predicted / measured - 1|
//
// A row says more than a layout of a search can: attention "plain" holds its scores, with dropout
// 0.1 as its papers train; recompute "selective" runs attention again where it is plain, and every
// second product where it is flash attention; a note "SHARD_GRAD_OP" keeps FSDP's units whole from
// forward to backward; "Ulysses" exchanges heads for tokens over cp.
// A row's experts stand inside the pipeline's ranks, as in Megatron Core and TorchTitan.
// Where the pipeline has more stages than there are blocks, its ends count as blocks.
// Contract: the columns of measured_columns, in any order. Letters: none.
#pragma once

#include <string>
#include <vector>

#include "yotta/plan/layout.hpp"
#include "yotta/plan/stacks.hpp"
#include "yotta/plan/step_estimate.hpp"

namespace yotta {

inline constexpr std::array<const char*, 30> measured_columns = {
    "id",           "source",
    "chip",         "gpus",
    "dialect",      "layers",
    "width",        "heads",
    "kv_heads",     "feed_forward",
    "vocabulary",   "context",
    "sequences",    "tp",
    "cp",           "pp",
    "ep",           "fsdp",
    "dp",           "chunks",
    "microbatches", "sequence_parallel",
    "zero",         "recompute",
    "attention",    "experts",
    "top_k",        "seconds",
    "gigabytes",    "note"};

struct MeasuredRow {
  std::string id, source, note;
  PlanRequest request;
  Layout layout;
  double seconds = 0, bytes = 0;  // as measured; 0: not published
  const Stack* stack = nullptr;   // whose profile was fitted to its source; nullptr: none
};

// Errors: the line and the column of what cannot be; a column that is missing.
std::vector<MeasuredRow> measured_rows(const std::string& text, const std::string& path,
                                       Where where = Where::current());

// The request on chips and links as `stack` finds them.
PlanRequest reached_request(const PlanRequest& request, const Stack& stack,
                            const Causes& left_out = {});
StepEstimate estimate_row(const MeasuredRow& row, const Stack& stack, EstimateCache& cache,
                          const Causes& left_out = {});

// ---- errors ----

struct RowError {
  const MeasuredRow* row = nullptr;
  StepEstimate estimate;

  double seconds() const { return estimate.seconds / row->seconds - 1; }
  double bytes() const { return row->bytes > 0 ? estimate.memory.bytes() / row->bytes - 1 : 0; }
};
// `stack`: nullptr gives each row the profile of its source, where there is one.
std::vector<RowError> row_errors(const std::vector<MeasuredRow>& rows, const Stack* stack,
                                 const Causes& left_out = {});
// Each row by the stack that was fitted to all sources but its own (`usual`, where no stack was
// fitted to its source).
std::vector<RowError> unseen_errors(const std::vector<MeasuredRow>& rows,
                                    const Causes& left_out = {});

// Mean and worst of the absolute errors of a source; of all rows, the last one.
struct SourceErrors {
  std::string source;
  int rows = 0, rows_with_bytes = 0;
  double mean = 0, worst = 0, bytes_mean = 0, bytes_worst = 0;
};
std::vector<SourceErrors> errors_by_source(const std::vector<RowError>& errors);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/plan/impl/measured_rows.ipp"
#endif
