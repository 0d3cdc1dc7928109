// Rows that others have measured: how they are read, and what is wrong with bad ones.
#include "yotta/plan/measured_rows.hpp"

#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;  // in place of the usual ones

std::string table(const Cells& changed = {}) {
  Cells cells = {{"id", "one"},
                 {"source", "a paper"},
                 {"chip", "h100"},
                 {"gpus", "16"},
                 {"dialect", "llama"},
                 {"layers", "8"},
                 {"width", "1024"},
                 {"heads", "8"},
                 {"kv_heads", "4"},
                 {"feed_forward", "4096"},
                 {"vocabulary", "32000"},
                 {"context", "2048"},
                 {"sequences", "32"},
                 {"tp", "2"},
                 {"cp", "1"},
                 {"pp", "4"},
                 {"ep", "1"},
                 {"fsdp", "1"},
                 {"dp", "2"},
                 {"chunks", "2"},
                 {"microbatches", "16"},
                 {"sequence_parallel", "yes"},
                 {"zero", "1"},
                 {"recompute", "selective"},
                 {"attention", "plain"},
                 {"experts", "0"},
                 {"top_k", "0"},
                 {"seconds", "2"},
                 {"gigabytes", "40"},
                 {"note", ""}};
  for (const auto& [column, cell] : changed)
    for (auto& each : cells)
      if (each.first == column) each.second = cell;
  std::string names, values;
  for (const auto& [column, cell] : cells) names += column + "\t", values += cell + "\t";
  names.pop_back(), values.pop_back();
  return names + "\n" + values + "\n";
}
MeasuredRow row(const Cells& changed = {}) { return measured_rows(table(changed), "rows.tsv")[0]; }

}  // namespace

TEST_CASE("a row is a request and a layout") {
  const MeasuredRow found = row();
  CHECK(found.request.config.layers == 8);
  CHECK(found.request.config.attention == AttentionKind::plain);
  CHECK(found.request.config.dropout == 0.1);
  CHECK(found.request.batch() == 32);
  CHECK(found.request.cluster.size() == 16);
  CHECK(found.layout.shape == MeshShape{.tp = 2, .pp = 4, .dp_replicate = 2});
  CHECK(found.layout.schedule == PipelineKind::interleaved);
  CHECK(found.layout.zero == 1);
  CHECK(found.layout.again == Again::attention);
  CHECK(found.bytes == 40e9);
  CHECK(row({{"attention", "flash"}}).layout.again == Again::operators);
  CHECK(row({{"note", "SHARD_GRAD_OP"}}).layout.keeps_units);
  CHECK(row({{"gigabytes", ""}}).bytes == 0);
}

TEST_CASE("a bad cell is named by its line and its column") {
  const std::pair<Cells, const char*> wrong[] = {
      {{{"layers", "many"}}, "rows.tsv, line 2, column layers: 'many', expected a whole number"},
      {{{"tp", "0"}}, "column tp: '0', expected a whole number from 1"},
      {{{"seconds", ""}}, "column seconds: '', expected a number above 0"},
      {{{"seconds", "nan"}}, "column seconds: 'nan', expected a number above 0"},
      {{{"gigabytes", "-1"}}, "column gigabytes: '-1'"},
      {{{"attention", "sparse"}}, "column attention: 'sparse', expected one of flash, plain"},
      {{{"chip", "h1000"}}, "h1000"},
      {{{"dp", "4"}}, "line 2: tp 2 x pp 4 x dp 4 are 32 ranks, and there are 16 gpus"},
      {{{"kv_heads", "3"}}, "line 2: "},
      {{{"microbatches", "3"}}, "line 2: "}};
  for (const auto& [cells, words] : wrong) {
    const std::string text = table(cells);
    const std::string message = message_of([&] { measured_rows(text, "rows.tsv"); });
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  }
}

TEST_CASE("a table without a column, or without a row, is refused") {
  std::string text = table();
  text.replace(text.find("layers"), 6, "floors");
  CHECK(message_of([&] {
          measured_rows(text, "rows.tsv");
        }).find("rows.tsv, line 1: there is no column 'layers'") != std::string::npos);
  const std::string head = table().substr(0, table().find('\n'));
  CHECK(message_of([&] { measured_rows(head, "rows.tsv"); }).find("no row") != std::string::npos);
}

TEST_CASE("errors by source: means and worsts of absolute errors") {
  std::vector<MeasuredRow> rows(3);
  rows[0].source = rows[1].source = "a", rows[2].source = "b";
  std::vector<RowError> errors;
  for (size_t i = 0; i < 3; ++i) {
    rows[i].seconds = 1;
    errors.push_back({&rows[i], {}});
  }
  errors[0].estimate.seconds = 0.9, errors[1].estimate.seconds = 1.3;
  errors[2].estimate.seconds = 1;
  const auto found = errors_by_source(errors);
  REQUIRE(found.size() == 3);
  CHECK(found[0].mean == doctest::Approx(0.2));
  CHECK(found[0].worst == doctest::Approx(0.3));
  CHECK(found[1].mean == doctest::Approx(0).scale(1));
  CHECK(found[2].mean == doctest::Approx(0.4 / 3));
  CHECK(found[2].rows == 3);
}

TEST_CASE("each cause left out changes a row that has it") {
  EstimateCache cache;
  const MeasuredRow plain = row();
  const MeasuredRow kept = row({{"attention", "flash"},
                                {"note", "SHARD_GRAD_OP"},
                                {"fsdp", "4"},
                                {"dp", "1"},
                                {"pp", "1"},
                                {"chunks", "1"},
                                {"tp", "4"},
                                {"zero", "0"},
                                {"sequences", "64"}});
  // Of one microbatch, whose activations are gone before the last gradients are there.
  const MeasuredRow once = row({{"gpus", "4"},
                                {"tp", "4"},
                                {"pp", "1"},
                                {"dp", "1"},
                                {"chunks", "1"},
                                {"microbatches", "1"},
                                {"sequences", "1"}});
  const MeasuredRow in_turns = row({{"source", "ZeRO-3"},
                                    {"tp", "1"},
                                    {"pp", "1"},
                                    {"dp", "1"},
                                    {"fsdp", "16"},
                                    {"chunks", "1"},
                                    {"microbatches", "1"},
                                    {"sequence_parallel", "no"},
                                    {"zero", "0"}});
  for (size_t i = 0; i < cause_names.size(); ++i) {
    const auto cause = static_cast<Cause>(i);
    CAPTURE(std::string(cause_names[i]));
    bool changes = false;
    for (const MeasuredRow* each : {&plain, &kept, &once, &in_turns}) {
      const StepEstimate all = estimate_row(*each, known_stacks[0], cache);
      const StepEstimate without = estimate_row(*each, known_stacks[0], cache, {cause});
      changes =
          changes || without.seconds != all.seconds || without.memory.bytes() != all.memory.bytes();
    }
    CHECK(changes);
  }
}
