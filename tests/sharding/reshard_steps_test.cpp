#include "yotta/sharding/reshard_steps.hpp"

#include <doctest/doctest.h>

#include "sharding/spreads/spread_cases.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

std::string text_of(const Spread& spread, const NamedMesh& mesh) {
  std::string text;
  for (const Step& step : steps_from(spread, mesh))
    text += fmt::format("{} {} {}\n", name(step.move), step.axes, str(after(spread, step)));
  return text;
}

}  // namespace

TEST_CASE("the steps that can be taken from a spread") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  CHECK(text_of(parse_spread("[I_X, J]", mesh), mesh) ==
        "slice Y [I_XY, J]\n"
        "all_gather X [I, J]\n"
        "all_to_all X [I, J_X]\n"
        "slice Y [I_X, J_Y]\n");
  CHECK(text_of(parse_spread("[I_XY, J]", mesh), mesh) ==
        "all_gather Y [I_X, J]\n"
        "all_gather XY [I, J]\n"
        "all_to_all Y [I_X, J_Y]\n");
  CHECK(text_of(parse_spread("[I, J_X]{U_Y}", mesh), mesh) ==
        "reduce_scatter Y [I_Y, J_X]\n"
        "all_gather X [I, J]{U_Y}\n"
        "all_to_all X [I_X, J]{U_Y}\n"
        "reduce_scatter Y [I, J_XY]\n"
        "all_reduce Y [I, J_X]\n");
  CHECK(text_of(parse_spread("[I]{U_XY}", mesh), mesh) ==
        "reduce_scatter X [I_X]{U_Y}\n"
        "reduce_scatter XY [I_XY]\n"
        "reduce_scatter Y [I_Y]{U_X}\n"
        "reduce_scatter YX [I_YX]\n"
        "all_reduce X [I]{U_Y}\n"
        "all_reduce XY [I]\n"
        "all_reduce Y [I]{U_X}\n");
}

TEST_CASE("no step leads to a spread that is refused") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2, Z 2");
  for (const Spread& spread : all_spreads("[I, J]", mesh))
    for (const Step& step : steps_from(spread, mesh))
      CHECK_NOTHROW(expect_spread(after(spread, step), mesh));
}

TEST_CASE("every step from every spread, with data: parts, and bytes by the ledger") {
  for (const char* text : {"X 1", "X 3", "X 2, Y 3", "X 2, Y 2, Z 2"}) {
    const NamedMesh mesh = parse_mesh(text);
    const Tensor whole = normal_numbers({5, 3}, "whole");
    const auto spreads = all_spreads("[I, J]", mesh);
    const std::vector<RankReport> reports = run_ranks(ranks_of(mesh), [&](Communicator& world) {
      AxisGroups groups(world, mesh);
      for (const Spread& spread : spreads)
        for (const Step& step : steps_from(spread, mesh)) groups.along(step.axes);
      for (const Spread& spread : spreads) {
        const ShardedMatrix x = part_of(whole, spread, groups);
        for (const Step& step : steps_from(spread, mesh)) {
          const int64_t before = context().ledger.total_traffic().bytes_sent;
          const ShardedMatrix y = run_step(x, step, groups);
          const int64_t sent = context().ledger.total_traffic().bytes_sent - before;
          check_part(y, after(spread, step), whole, groups);
          const int64_t formula =
              bytes_sent(step, spread, {whole.shape(), DType::f64}, mesh, world.rank());
          if (sent != formula)
            fail(Where::current(), "{} {} of {} on rank {}: {} bytes, by formula {}",
                 name(step.move), step.axes, str(spread), world.rank(), sent, formula);
        }
      }
    });
    CHECK(reports.size() == static_cast<size_t>(ranks_of(mesh)));
  }
}

TEST_CASE("tensors of one and of three dims") {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const Tensor line = normal_numbers({7}, "line"), cube = normal_numbers({3, 4, 5}, "cube");
  const auto reports = run_ranks(4, [&](Communicator& world) {
    AxisGroups groups(world, mesh);
    for (const auto& [whole, like] : {std::pair{line, "[I]"}, {cube, "[B, T, C]"}})
      for (const Spread& spread : all_spreads(like, mesh))
        for (const Step& step : steps_from(spread, mesh))
          check_part(run_step(part_of(whole, spread, groups), step, groups), after(spread, step),
                     whole, groups);
  });
  CHECK(reports[0].ledger().traffic("all_to_all").bytes_sent > 0);
}

TEST_CASE("all_to_all sends 1/n of the gather's bytes, in a quarter of its time") {
  for (const int n : {2, 4, 8}) {
    const NamedMesh mesh{{{'X', n}}};
    const WholeTensor whole{{1024, 4096}, DType::bf16};
    const Spread rows = parse_spread("[I_X, J]", mesh);
    const TorusLinks links{90e9, 0};
    const StepCost gather = cost_of({Move::all_gather, "X", 0, -1}, rows, whole, mesh, links);
    const StepCost moved = cost_of({Move::all_to_all, "X", 0, 1}, rows, whole, mesh, links);
    CHECK(moved.bytes * n == gather.bytes);
    CHECK(moved.seconds == doctest::Approx(gather.seconds / 4).epsilon(1e-6).scale(0));
    const Spread sum = parse_spread("[I, J]{U_X}", mesh);
    const StepCost scatter = cost_of({Move::reduce_scatter, "X", -1, 0}, sum, whole, mesh, links);
    const StepCost all = cost_of({Move::all_reduce, "X"}, sum, whole, mesh, links);
    CHECK(scatter.bytes == gather.bytes);
    CHECK(all.bytes == 2 * gather.bytes);
    CHECK(all.ticks == 2 * scatter.ticks);
    CHECK(cost_of({Move::slice, "X", -1, 0}, parse_spread("[I, J]", mesh), whole, mesh, links)
              .ticks == 0);
  }
}
