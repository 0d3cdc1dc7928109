// Lesson 11: matrices spread over a mesh: who holds what, how a spread is changed, how two are
// multiplied.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/spread_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/comm/torus_rings.hpp"
#include "yotta/core/random.hpp"
#include "yotta/sharding/feed_forward_spreads.hpp"
#include "yotta/sharding/matmul_plans.hpp"
#include "yotta/sharding/resharding.hpp"
#include "yotta/sharding/torus_times.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t x = 4, y = 8, z = 2, tokens = 131072, gathered = 8;
};

std::string text_of(int64_t bytes) { return console::bytes(static_cast<double>(bytes)); }
double us(double seconds) { return 1e6 * seconds; }
TorusLinks v5p_links() { return links_of(chip_named("v5p")); }

// bf16[256, 2048] as A[I_XY, J]: by formula, and what tensors of that shape take on each rank.
void memory(Lesson& lesson, const Sizes& s) {
  const NamedMesh mesh{
      {{'X', static_cast<int>(s.x)}, {'Y', static_cast<int>(s.y)}, {'Z', static_cast<int>(s.z)}}};
  const Spread spread = parse_spread("A[I_XY, J]", mesh);
  lesson.section(fmt::format("bf16[256, 2048] as A{} on {}", str(spread), str(mesh)));
  const auto reports = run_ranks(ranks_of(mesh), [&](Communicator& world) {
    const DeviceScope meta(Device::meta);
    const MemoryScope weights(MemoryKind::parameters);
    Tensor::empty(held_shape({256, 2048}, spread, mesh, world.rank()), DType::bf16);
  });
  int64_t all = 0;
  for (const RankReport& rank : reports)
    all += rank.ledger().memory()->peak(MemoryKind::parameters);
  const int64_t formula = held_bytes({256, 2048}, DType::bf16, spread, mesh, 0);
  const int64_t ledger = reports[0].ledger().memory()->peak(MemoryKind::parameters);
  lesson.say("rank 0 holds      {} by formula, {} by its ledger", text_of(formula),
             text_of(ledger));
  lesson.say("all {} ranks hold {} by their ledgers; A itself has {}", ranks_of(mesh), text_of(all),
             text_of(256 * 2048 * 2));
  lesson.say("each number is held {} times", copies_of(spread, mesh));
  lesson.number("memory.rank", static_cast<double>(ledger));
}

void who_holds_what(Lesson& lesson) {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  lesson.section("Who holds which block, on {X 2, Y 2}: ranks, and + between parts of a sum");
  for (const char* text :
       {"A[I_X, J]", "A[I_X, J_Y]", "A[I_XY, J]", "A[I_YX, J]", "A[I, J_Y]{U_X}"}) {
    lesson.say("{}", text);
    lesson.show(spread_text(parse_spread(text, mesh), mesh));
  }
  lesson.section("Seven rows over X and Y");
  for (int rank = 0; rank < 4; ++rank) {
    const IndexRange held = held_range(7, "XY", mesh, rank);
    lesson.say("rank {}: rows {} to {}", rank, held.begin, held.end - 1);
  }
  lesson.section("An axis twice");
  try {
    parse_spread("C[I_X, K_X]", mesh);
  } catch (const std::exception& error) {
    const std::string words = error.what();  // "lesson.cpp:62: [I_X, ..."
    lesson.say("{}", words.substr(words.find('[')));
  }
}

void resharding(Lesson& lesson) {
  lesson.section("The cheapest steps, bf16[8192, 8192] on {X 4, Y 4} of TPU v5p");
  const NamedMesh mesh = parse_mesh("X 4, Y 4");
  const WholeTensor whole{{8192, 8192}, DType::bf16};
  for (const auto& [from, to] : {std::pair{"A[I_X, J]", "A[I, J_X]"},
                                 {"A[I_XY, J]", "A[I, J_X]"},
                                 {"A[I_XY, J]", "A[I_YX, J]"},
                                 {"A[I, J]{U_XY}", "A[I_X, J_Y]"}}) {
    const ReshardPlan plan = cheapest_reshard(parse_spread(from, mesh), parse_spread(to, mesh),
                                              whole, mesh, v5p_links());
    lesson.say("{} to {}", from, to);
    lesson.show(str(plan, whole, mesh, v5p_links()));
  }
}

// What an all_gather and an all_to_all of 8 MiB send by the ledger, and what a link of the ring
// carries.
void all_to_all(Lesson& lesson) {
  lesson.section("An array of 8 MiB on a ring: all_gather of A[I_X, J], all_to_all to A[I, J_X]");
  lesson.say("{:>5} {:>16} {:>16} {:>8} {:>16} {:>14}", "chips", "gather, bytes", "all_to_all",
             "ratio", "gather N/W, us", "all_to_all, us");
  for (const int n : {2, 4, 8, 16}) {
    const NamedMesh mesh{{{'X', n}}};
    const auto reports = run_ranks(n, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      AxisGroups groups(world, mesh);
      const Spread rows = parse_spread("[I_X, J]", mesh);
      const ShardedMatrix a{
          Tensor::empty(held_shape({2048, 2048}, rows, mesh, world.rank()), DType::bf16),
          rows,
          {2048, 2048}};
      gathered(a, 0, 1, groups);
      run_step(a, {Move::all_to_all, "X", 0, 1}, groups);
    });
    const int64_t gather = reports[0].ledger().traffic("all_gather").bytes_sent;
    const int64_t moved = reports[0].ledger().traffic("all_to_all").bytes_sent;
    const double W = v5p_links().both_ways, bytes = 2.0 * 2048 * 2048;
    lesson.say("{:>5} {:>16} {:>16} {:>8} {:>16.2f} {:>14.2f}", n, gather, moved, gather / moved,
               us(torus_gather_seconds({W, 0}, {n}, bytes)),
               us(ring_all_to_all_link_bytes(n, 2, bytes) / (W / 2)));
  }
}

std::string steps_text(const MatmulPlan& plan) {
  std::string said;
  const auto say = [&](const char* matrix, const std::vector<Step>& steps) {
    for (const Step& step : steps)
      said += fmt::format("{}{} {} over {}", said.empty() ? "" : ", ", name(step.move), matrix,
                          step.axes);
  };
  say("A", plan.of_a), say("B", plan.of_b), say("C", plan.of_c);
  return said.empty() ? "nothing" : said;
}

MatmulProblem square(int64_t I, int64_t J, int64_t K, const NamedMesh& mesh) {
  MatmulProblem problem;
  problem.I = I, problem.J = J, problem.K = K;
  problem.mesh = mesh, problem.links = v5p_links();
  return problem;
}

void cases(Lesson& lesson) {
  const NamedMesh mesh = parse_mesh("X 4");
  lesson.section("The four cases, all sizes 8192, on {X 4}: what the chooser sends");
  MatmulPlanner planner(square(8192, 8192, 8192, mesh));
  for (const auto& [a, b, c] : {std::tuple{"[I_X, J]", "[J, K]", "[I_X, K]"},
                                {"[I, J_X]", "[J, K]", "[I, K]"},
                                {"[I, J_X]", "[J_X, K]", "[I, K]"},
                                {"[I, J_X]", "[J_X, K]", "[I_X, K]"},
                                {"[I_X, J]", "[J, K_X]", "[I_X, K]"}}) {
    const Spread left = parse_spread(a, mesh), right = parse_spread(b, mesh);
    const MatmulPlan plan = planner.choose(left, right, parse_spread(c, mesh));
    lesson.say("case {}  A{:<9} B{:<9} -> C{:<9} {:<22} {:>7.1f} us", product_of(left, right).which,
               a, b, c, steps_text(plan), us(plan.cost.seconds));
  }
  lesson.section("Case 2, A[I, J_X] B[J, K] to C[I, K], I and K 4096: gather A, or reduce C?");
  for (const int64_t J : {1024, 4096, 8192, 16384, 65536}) {
    MatmulPlanner by_size(square(4096, J, 4096, mesh));
    const MatmulPlan plan = by_size.choose(
        parse_spread("[I, J_X]", mesh), parse_spread("[J, K]", mesh), parse_spread("[I, K]", mesh));
    lesson.say("J {:>6}   {:<36} {:>8.1f} us", J, steps_text(plan), us(plan.cost.seconds));
  }
}

Tensor numbers(const Shape& shape, const char* name) {
  Tensor made = Tensor::empty(shape, DType::f64);
  for (int64_t i = 0; i < made.numel(); ++i)
    made.data<double>()[i] = Random(11, name).normal(static_cast<uint64_t>(i));
  return made;
}

// Every pair of spreads on {X 2, Y 2}, with data: the largest difference from the product on one
// rank.
void proof(Lesson& lesson) {
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  const Tensor a = numbers({5, 7}, "a"), b = numbers({7, 6}, "b");
  constexpr const char* ways[] = {"", "_X", "_Y", "_XY", "_YX"};
  std::vector<std::pair<std::string, std::string>> all;  // two dims, no axis twice
  for (const char* first : ways)
    for (const char* second : ways)
      if (std::string(first).find_first_of(second[0] == 0 ? " " : second + 1) == std::string::npos)
        all.emplace_back(first, second);
  double largest = 0;
  int pairs = 0;
  std::vector<double> whole;
  run_ranks(1, [&](Communicator& world) {
    AxisGroups groups(world, parse_mesh("X 1"));
    const ShardedMatrix left = cut(a, parse_spread("[I, J]", groups.mesh()), groups);
    const ShardedMatrix right = cut(b, parse_spread("[J, K]", groups.mesh()), groups);
    whole = sharded_matmul(left, right, -1, groups).local.values();
  });
  run_ranks(4, [&](Communicator& world) {
    AxisGroups groups(world, mesh);
    for (const auto& [i, j] : all)
      for (const auto& [j_of_b, k] : all) {
        const Spread left = parse_spread(fmt::format("[I{}, J{}]", i, j), mesh);
        const Spread right = parse_spread(fmt::format("[J{}, K{}]", j_of_b, k), mesh);
        ShardedMatrix c = sharded_matmul(cut(a, left, groups), cut(b, right, groups), -1, groups);
        for (const size_t dim : {0, 1})
          if (const size_t cuts = c.spread.dims[dim].axes.size(); cuts > 0)
            c = gathered(c, dim, cuts, groups);
        if (world.rank() != 3) continue;
        ++pairs;
        const std::vector<double> values = c.local.values();
        for (size_t n = 0; n < whole.size(); ++n)
          largest = std::max(largest, std::abs(values[n] - whole[n]));
      }
  });
  lesson.section("(5, 7) times (7, 6) on four ranks, in every pair of spreads");
  lesson.say("{} pairs; the largest difference from one rank's product is {}", pairs,
             largest < 1e-12 ? "rounding" : fmt::format("{:.2g}", largest));
}

void times(Lesson& lesson) {
  lesson.section("Times on a torus: worked answers of the scaling book, and ours");
  const TorusLinks v5e = links_of(chip_named("v5e"));
  const auto line = [&](const char* what, double printed, double ours) {
    lesson.say("{:<58} {:>7.1f} us {:>8.1f} us", what, printed, us(ours));
  };
  lesson.say("{:<58} {:>10} {:>11}", "", "printed", "ours");
  line("v5e: all_gather of bf16[2048, 8192] over 4 chips, a ring", 377,
       torus_gather_seconds(v5e, {4}, 2.0 * 2048 * 8192));
  line("the same on a line, without wrap-around", 560,
       line_gather_seconds(4, 2.0 * 2048 * 8192, chip_named("v5e").link));
  // A v4p's links are as fast as a v5e's: 45 GB/s each way.
  line("v4p: bf16[1024, 4096], A[B_X, D_Y]: all_gather over X", 23,
       torus_gather_seconds(v5e, {4}, 2.0 * 1024 * 4096 / 4));
  line("the same over X and Y", 46, torus_gather_seconds(v5e, {4, 4}, 2.0 * 1024 * 4096));
}

// Seconds of what every rank of a machine does.
double seconds_on(const Cluster& cluster, int ranks, const RankBody& body) {
  return run_on(cluster, ranks,
                [&](Communicator& world) {
                  const DeviceScope meta(Device::meta);
                  body(world);
                })
      .seconds();
}

// A product on one chip of its peak, without its memory.
double product_seconds(const Chip& chip, double m, double k, double n) {
  return 2 * m * k * n / chip.bf16;
}

void thresholds(Lesson& lesson, const Sizes& s) {
  const Chip &v5e = chip_named("v5e"), &v5p = chip_named("v5p");
  lesson.section(fmt::format("Two v5e chips swap partial sums: compute-bound if D > {:.0f}",
                             least_width_of_two(v5e.bf16, v5e.link)));
  Cluster two = ideal(2, v5e.bf16, v5e.link);
  for (const int64_t D : {8192, 8755, 8756, 9216}) {
    const double swap = seconds_on(two, 2, [&](Communicator& world) {
      const Tensor mine = Tensor::empty({1024, 4096}, DType::bf16);
      Tensor theirs = Tensor::empty({1024, 4096}, DType::bf16);
      world.send_recv(mine, 1 - world.rank(), theirs, 1 - world.rank());
    });
    const double product = product_seconds(v5e, 1024, static_cast<double>(D) / 2, 4096);
    lesson.say("D {:>5}   multiply {:>7.2f} us   swap {:>7.2f} us   {}", D, us(product), us(swap),
               product > swap ? "compute-bound" : "network-bound");
  }
  const int n = static_cast<int>(s.gathered);
  const double W = links_of(v5p).both_ways;
  lesson.section(
      fmt::format("FSDP on {} v5p chips of one axis: tokens per chip > {:.0f} by the formula", n,
                  flops_per_sent_byte(v5p.bf16, W)));
  Cluster ring = torus(v5p, {n});
  ring.levels[0].alpha = 0;  // a large array: hops do not count
  const double gather = seconds_on(ring, n, [&](Communicator& world) {
    Tensor weights = Tensor::empty({8192 * 8192}, DType::bf16);
    TorusRings(world, TorusShape{{n}, 2})
        .all_gather(weights, Tensor::empty({8192 * 8192 / n}, DType::bf16));
  });
  for (const double tokens : {1800.0, 2200.0, 2300.0, 2550.0, 3000.0}) {
    const double product = product_seconds(v5p, tokens, 8192, 8192);
    lesson.say("{:>5.0f} tokens per chip   multiply {:>7.1f} us   all_gather {:>7.1f} us   {}",
               tokens, us(product), us(gather),
               product > gather ? "compute-bound" : "network-bound");
  }
  lesson.say("the run crosses at {:.0f}: (p-1)/p of the formula, which rounds the gather up to N/W",
             flops_per_sent_byte(v5p.bf16, W) * us(gather) /
                 us(torus_gather_seconds({W, 0}, {n}, 2.0 * 8192 * 8192)));
  lesson.section("Bounds of TPU v5p, F 32768");
  lesson.say("FSDP on one axis; on three:                tokens per chip > {:.0f}; {:.0f}",
             flops_per_sent_byte(v5p.bf16, W), flops_per_sent_byte(v5p.bf16, W, 3));
  lesson.say("tensor parallelism on one axis; on two:    chips < {:.1f}; {:.1f}",
             most_tensor_parallel(32768, v5p.bf16, W), most_tensor_parallel(32768, v5p.bf16, W, 2));
  lesson.say("FSDP on two and tensor parallelism on one: tokens per chip > {:.0f}",
             least_tokens_mixed(v5p.bf16, W, 32768, 2, 1));
}

void one_layer(Lesson& lesson, const Sizes& s) {
  const FeedForwardSizes sizes{s.tokens, 8192, 32768, DType::bf16, chip_named("v5p").bf16};
  lesson.section(fmt::format("One layer, B {}, D 8192, F 32768, bf16, on 16 TPU v5p", s.tokens));
  const std::pair<const char*, const char*> meshes[] = {
      {"X 16", "X 16"}, {"X 16", "X 16"}, {"Y 16", "Y 16"}, {"X 4, Y 4", "X 4, Y 4"}};
  for (size_t i = 0; i < 4; ++i) {
    const FeedForwardLayout& layout = feed_forward_layouts[i];
    const auto plans = feed_forward_plans(layout, sizes, parse_mesh(meshes[i].first), v5p_links());
    lesson.say("{} on {{{}}}: In{} W_in{} W_out{}", layout.name, meshes[i].first, layout.in,
               layout.w_in, layout.w_out);
    for (const PlannedProduct& product : plans)
      lesson.say("  {:<7} = {:<7} {:<7}  {}", product.result, product.left, product.right,
                 collectives_of(product));
    const StepCost all = cost_of(plans);
    lesson.say("  a rank sends {:.2f} GiB in {:.1f} ms", static_cast<double>(all.bytes) / (1 << 30),
               1e3 * all.seconds);
    lesson.number(fmt::format("bytes.{}", layout.name), static_cast<double>(all.bytes));
  }
}

void mistakes(Lesson& lesson) {
  lesson.section("A mistake: I_XY read as I_YX");
  const NamedMesh mesh = parse_mesh("X 2, Y 2");
  std::string right, wrong;
  for (int rank = 0; rank < 4; ++rank) {
    right += fmt::format(" {}", held_range(4, "XY", mesh, rank).begin);
    wrong += fmt::format(" {}", held_range(4, "YX", mesh, rank).begin);
  }
  lesson.say("the rows of ranks 0 to 3 as I_XY:{}", right);
  lesson.say("the rows of ranks 0 to 3 as I_YX:{}", wrong);
}

void draw(Lesson& lesson) {
  std::ofstream("spreads.svg") << spreads_svg();
  std::ofstream("product_cases.svg") << product_cases_svg();
  std::ofstream("feed_forward_spreads.svg") << feed_forward_spreads_svg();
  lesson.say("drawn in spreads.svg, product_cases.svg and feed_forward_spreads.svg");
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(
      argc, argv,
      {"11", "Sharded matrices", "a matrix over a mesh, and four cases of multiplying two"},
      [&](Lesson& lesson) {
        if (drawn != 0) draw(lesson);
        memory(lesson, sizes);
        who_holds_what(lesson);
        resharding(lesson);
        all_to_all(lesson);
        cases(lesson);
        proof(lesson);
        times(lesson);
        thresholds(lesson, sizes);
        one_layer(lesson, sizes);
        mistakes(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 11");
      },
      {{"x", "size of the first mesh's axis X", &sizes.x, 1, 16},
       {"y", "of its Y", &sizes.y, 1, 16},
       {"z", "of its Z", &sizes.z, 1, 4},
       {"tokens", "B, of the feed-forward layer", &sizes.tokens, 16, 1 << 24},
       {"gathered", "chips of the axis that FSDP is run on", &sizes.gathered, 3, 32},
       {"draw", "1: write the pictures into this folder", &drawn, 0, 1}});
}
