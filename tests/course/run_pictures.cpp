// Pictures drawn from runs and from described machines: the ring, the tree, Rabenseifner, a torus,
// a cluster's levels, a step of DDP, asynchronous SGD. What is drawn is what the code does, and the
// files are what is drawn.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <bit>
#include <csignal>
#include <filesystem>
#include <regex>
#include <set>

#include "course/pictures/cluster_picture.hpp"
#include "course/pictures/collective_picture.hpp"
#include "course/pictures/ddp_picture.hpp"
#include "course/pictures/diloco_picture.hpp"
#include "course/pictures/failures_picture.hpp"
#include "course/pictures/hsdp_picture.hpp"
#include "course/pictures/launch_picture.hpp"
#include "course/pictures/live_picture.hpp"
#include "course/pictures/mfu_picture.hpp"
#include "course/pictures/planner_picture.hpp"
#include "course/pictures/scaling_picture.hpp"
#include "course/pictures/scaling_results.hpp"
#include "course/pictures/staleness_picture.hpp"
#include "course/pictures/survival_picture.hpp"
#include "course/pictures/two_nodes_picture.hpp"
#include "course/training/surviving.hpp"
#include "course/training/training.hpp"
#include "runner/exercise.hpp"
#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/chooser.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/machine/cluster.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;
using yotta_test::TemporaryFolder;

namespace {

using Messages = std::vector<CollectiveMessage>;

Messages of_round(const Messages& all, int round) {
  Messages found;
  for (const CollectiveMessage& message : all)
    if (message.round == round) found.push_back(message);
  return found;
}

int64_t count(const std::string& text, const std::string& word) {
  int64_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

const Plan& searched_plan() {
  static const Plan plan = make_plan(planner_request());
  return plan;
}

// Letters are about 0.56 of their size wide; no words leave the paper.
void check_inside(const std::string& svg) {
  const std::regex words(
      "<text x=\"([0-9.]+)\"[^>]*text-anchor=\"(\\w+)\"[^>]*font-size=\"(\\d+)\"[^>]*>([^<]*)<");
  for (std::sregex_iterator at(svg.begin(), svg.end(), words), end; at != end; ++at) {
    const double length = 0.56 * std::stod((*at)[3]) * static_cast<double>((*at)[4].length());
    const double x = std::stod((*at)[1]);
    const double left = (*at)[2] == "start" ? x : (*at)[2] == "end" ? x - length : x - length / 2;
    CHECK_MESSAGE(left >= 0, (*at)[4].str());
    CHECK_MESSAGE(left + length <= 900, (*at)[4].str());
  }
}

}  // namespace

TEST_CASE(
    "the ring's messages: 2(p-1) rounds, all ranks in each, sums that grow and then travel whole") {
  for (const int p : {2, 3, 4}) {
    CAPTURE(p);
    const Messages all = collective_messages(p, p, all_reduce_ring);
    CHECK(std::ssize(all) == 2 * (p - 1) * p);
    for (int round = 1; round <= 2 * (p - 1); ++round)
      for (const CollectiveMessage& message : of_round(all, round)) {
        CHECK(message.to == (message.from + 1) % p);
        CHECK(std::popcount(message.whose) == std::min(round, p));
        if (round == 1) CHECK(message.chunk == (message.from + p - 1) % p);
      }
  }
}

TEST_CASE("the tree's messages: lg p rounds up, lg p down") {
  const Messages all = collective_messages(8, 1, all_reduce_tree);
  CHECK(all.size() == 14);
  CHECK(of_round(all, 1) ==
        Messages{{1, 1, 0, 0, 0x02}, {1, 3, 2, 0, 0x08}, {1, 5, 4, 0, 0x20}, {1, 7, 6, 0, 0x80}});
  CHECK(of_round(all, 2) == Messages{{2, 2, 0, 0, 0x0c}, {2, 6, 4, 0, 0xc0}});
  CHECK(of_round(all, 3) == Messages{{3, 4, 0, 0, 0xf0}});
  CHECK(of_round(all, 4) == Messages{{4, 0, 4, 0, 0xff}});
  CHECK(of_round(all, 5) == Messages{{5, 0, 2, 0, 0xff}, {5, 4, 6, 0, 0xff}});
  CHECK(of_round(all, 6).size() == 4);
  CHECK(of_round(all, 7).empty());
}

TEST_CASE("Rabenseifner's messages: halves, quarters, and the same way back") {
  const Messages all = collective_messages(4, 4, all_reduce_rabenseifner);
  CHECK(all.back().round == 4);
  const size_t chunks[] = {2, 1, 1, 2};  // that a rank sends in a round
  const int apart[] = {2, 1, 1, 2};
  for (int round = 1; round <= 4; ++round) {
    CHECK(of_round(all, round).size() == 4 * chunks[round - 1]);
    for (const CollectiveMessage& message : of_round(all, round)) {
      CHECK((message.from ^ message.to) == apart[round - 1]);
      CHECK(std::popcount(message.whose) == std::min(1 << (round - 1), 4));
    }
  }
  CHECK(of_round(all, 1)[0] == CollectiveMessage{1, 0, 2, 2, 0x1});
  CHECK(of_round(all, 2)[0] == CollectiveMessage{2, 0, 1, 1, 0x5});
  CHECK(count(rabenseifner_svg(), ">halving step 1: partners 2 apart<") == 1);
  CHECK(count(rabenseifner_svg(), ">doubling step 2: partners 2 apart<") == 1);
}

TEST_CASE("on two nodes: hierarchical keeps one link waiting, pipelined and multi-rail do not") {
  const std::vector<LinksInTime> all = two_nodes_in_time();
  REQUIRE(all.size() == 3);
  const LinksInTime &rails = all[0], &hierarchical = all[1], &pipelined = all[2];
  for (const LinksInTime& links : all) {
    const Cluster machine = cluster_named("h100x16");
    CHECK(links.seconds ==
          doctest::Approx(all_reduce_seconds(machine, 16, 1 << 30, {links.algorithm})));
    CHECK(std::max(sum_of(links.nvlink), sum_of(links.card)) <= links.seconds * (1 + 1e-9));
  }
  CHECK(both_busy(hierarchical) < 1e-6);
  CHECK(sum_of(hierarchical.nvlink) + sum_of(hierarchical.card) ==
        doctest::Approx(hierarchical.seconds));
  CHECK(hierarchical.nvlink.size() == 2);  // before the card and after it
  CHECK(hierarchical.card.size() == 1);
  CHECK(both_busy(pipelined) > 0.9 * sum_of(pipelined.card));
  CHECK(sum_of(rails.card) == doctest::Approx(rails.seconds));
  CHECK(both_busy(rails) == doctest::Approx(sum_of(rails.nvlink)));
}

TEST_CASE("on a torus no two parts ever take the same wire the same way, and all wires are used") {
  for (const int side : {3, 4})
    for (const int phase : {0, 1}) {
      const std::vector<TorusStep> steps = torus_steps(side, phase);
      std::set<std::pair<int, int>> wires;
      for (const TorusStep& step : steps) {
        CHECK(torus_hops({side, side}, step.from, step.to) == 1);
        const int apart = std::abs(step.from - step.to);
        CHECK(step.wraps == (apart == side - 1 || apart == side * (side - 1)));
        wires.insert({step.from, step.to});
      }
      CHECK(std::ssize(steps) == 4 * side * side);
      CHECK(wires.size() == steps.size());
    }
  CHECK(torus_steps(4, 0)[3] == TorusStep{0, 3, 0, true});
  CHECK(torus_steps(4, 1)[3] == TorusStep{0, 3, 7, false});  // part 0 has changed its axis
}

TEST_CASE("the step of GPT-2: the same kernels for every batch, and the host or the chip behind") {
  const std::vector<HostCall> one = gpt2_step(1), many = gpt2_step(64);
  REQUIRE(one.size() == many.size());
  for (size_t i = 0; i < one.size(); ++i) CHECK(one[i].name == many[i].name);
  CHECK(simulate(one).host == doctest::Approx(simulate(many).host));
  CHECK(simulate(one).busy_share() < 0.5);
  CHECK(simulate(many).busy_share() > 0.98);
  for (const char* word : {">forward<", ">loss<", ">backward<", ">AdamW<"})
    CHECK(count(launch_svg(), word) == 1);
}

TEST_CASE("the levels' numbers are those of llama3_24k") {
  const std::string svg = levels_svg();
  for (const Level& level : llama3_24k().levels) {
    const double gb = 1e-9 / level.beta;
    CHECK(count(svg, fmt::format(">{:.{}f} GB/s, {:.0f} us on the way<", gb, gb < 10 ? 1 : 0,
                                 1e6 * level.alpha)) == 1);
  }
  CHECK(count(svg, ">cluster: 8 pods, 24,576 GPUs<") == 1);
  CHECK(count(svg, ">pod: 192 racks, 3,072 GPUs<") == 1);
  CHECK(count(svg, ">3350 GB/s<") == 1);
}

TEST_CASE("asynchronous SGD: once all ranks have sent, a gradient is p - 1 steps old") {
  for (const int p : {1, 2, 4, 8}) {
    const std::vector<StaleGradient> all = stale_gradients(p, 5);
    REQUIRE(std::ssize(all) > 3 * p);
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i].applied_to == static_cast<int>(i));
      CHECK(all[i].steps_old() == std::min(static_cast<int>(i), p - 1));
    }
  }
  CHECK(stale_descent(0.5, 0, 2) == std::vector<double>{1, 0.5, 0.25});
  CHECK(stale_descent(0.5, 1, 3) == std::vector<double>{1, 0.5, 0, -0.25});
  CHECK(count(staleness_svg(), ": 3 steps old<") == 6);
}

TEST_CASE("the step of DDP: gradients travel behind backward, all but the last") {
  const Trace trace = ddp_picture_trace();
  REQUIRE(trace.ranks.size() == ddp_picture_ranks);
  for (const std::vector<TraceEvent>& events : trace.ranks) {
    double backward_ends = 0, gradients_begin = 1e300, gradients_end = 0, sent = 0;
    for (const TraceEvent& event : events) {
      if (event.name.starts_with("linear_backward")) backward_ends = event.end;
      if (event.name != "ddp.gradients" || event.kind != EventKind::recv) continue;
      gradients_begin = std::min(gradients_begin, event.begin);
      gradients_end = event.end;
      sent += 1;
    }
    CHECK(sent == ddp_picture_layers * 2 * (ddp_picture_ranks - 1));
    CHECK(gradients_begin < backward_ends);
    CHECK(gradients_end - backward_ends == doctest::Approx(1.5));
  }
  for (int sequence = 0; sequence < ddp_picture_sequences; ++sequence)
    CHECK(count(ddp_svg(), fmt::format(">seq {}<", sequence)) == 1);
  for (int layer = 0; layer < ddp_picture_layers; ++layer)
    CHECK(count(ddp_svg(), fmt::format(">all_reduce {}<", layer)) == ddp_picture_ranks);
}

TEST_CASE("the step of HSDP: shards cross behind backward, or set the pace") {
  for (const double between : {0.75, 3.0}) {
    double backward_ends = 0, first = 1e300, end = 0;
    int crossed = 0;
    const Trace trace = hsdp_picture_trace(between);
    for (const TraceEvent& event : trace.ranks[0]) {
      if (event.name.starts_with("linear_backward")) backward_ends = event.end;
      if (event.name != "hsdp.all_reduce" || event.kind != EventKind::recv) continue;
      first = std::min(first, event.begin);
      end = event.end;
      ++crossed;
    }
    CHECK(crossed == 2 * hsdp_picture_units);
    CHECK(first < backward_ends);
    const double after = between < 1 ? 0.75 + between : first + 4 * between - backward_ends;
    CHECK(end - backward_ends == doctest::Approx(after).epsilon(0.01));
  }
  for (int unit = 0; unit < hsdp_picture_units; ++unit) {
    CHECK(count(hsdp_svg(), fmt::format(">a{}<", unit)) == 2);
    CHECK(count(hsdp_svg(), fmt::format(">g{}<", unit)) == 4);
  }
  CHECK(count(hsdp_sweep_svg(), "#44bb99") == 2);  // the best bar, and the legend
}

TEST_CASE("a waterfall's bars follow each other from 100% down to the MFU") {
  Waterfall fall{1, 2, 10, 8};
  fall.add(Loss::launch, 2);
  fall.add(Loss::communication, 4, "tp");
  fall.add(Loss::recomputation, 6);
  const std::string svg = waterfall_svg(fall, "a title");
  const std::regex bar("<rect x=\"([0-9.]+)\"[^>]*width=\"([0-9.]+)\"[^>]*stroke=\"#333\"");
  std::vector<std::pair<double, double>> bars;  // from, to
  for (std::sregex_iterator at(svg.begin(), svg.end(), bar), end; at != end; ++at)
    bars.push_back({std::stod((*at)[1]), std::stod((*at)[1]) + std::stod((*at)[2])});
  REQUIRE(bars.size() == 5);
  for (size_t i = 1; i + 1 < bars.size(); ++i)
    CHECK(bars[i].second == doctest::Approx(i == 1 ? bars[0].second : bars[i - 1].first));
  CHECK(bars[4].first == bars[0].first);
  CHECK(bars[4].second == doctest::Approx(bars[3].first));
  CHECK(count(svg, ">40.0%<") == 1);
}

TEST_CASE("the recipe: the fewest techniques within 5% of the fastest that fits") {
  const std::vector<RecipeModel> models = recipe_models();
  const PlanRequest request = recipe_request(models[1], 128, 8192);
  EstimateCache cache;
  const std::optional<Recipe> found = recipe_for(request, cache);
  REQUIRE(found.has_value());
  CHECK(found->chosen.estimate.seconds <= 1.05 * found->fastest);
  CHECK(found->chosen.estimate.memory.bytes() <= request.cluster.chip.memory);
  for (const Layout& each : recipe_layouts(request)) {
    const StepEstimate step = estimate_step(request.cluster, described(request, each), cache);
    const bool fits = step.memory.bytes() <= request.cluster.chip.memory;
    if (fits) CHECK(step.seconds >= found->fastest);
    // Copies are simpler than HSDP: were they fast enough, they would have been taken.
    if (fits && techniques_of(each) == "dp") CHECK(step.seconds > 1.05 * found->fastest);
  }
  CHECK_FALSE(recipe_for(recipe_request(models[3], 8, 8192), cache).has_value());
  const auto usual = recipe_for(recipe_request(models[1], 128, 8192, &stack_named("usual")), cache);
  REQUIRE(usual.has_value());
  CHECK(usual->chosen.estimate.mfu < 0.8 * found->chosen.estimate.mfu);
  CHECK(techniques_of({.shape = {.tp = 8, .cp = 2, .dp_shard = 4}}) == "tp cp FSDP");
  CHECK(techniques_of({.shape = {.pp = 2, .dp_shard = 4, .dp_replicate = 2}}) == "pp HSDP");
}

TEST_CASE("the frontier's picture: one line, from the fastest to the smallest") {
  const Plan& plan = searched_plan();
  REQUIRE(plan.frontier.size() > 2);
  CHECK(count(frontier_svg(plan), "#ee6677") == 2);  // the fastest, and the legend
  for (size_t i = 1; i < plan.frontier.size(); ++i)
    CHECK(plan.frontier[i].estimate.seconds < plan.frontier[i - 1].estimate.seconds);
}

namespace {
Survival recorded_run() {
  const std::string file = YOTTA_SOURCE_DIR "/lessons/30_failures/run.json";
  return read_survival(runner::read_text(file), file);
}
}  // namespace

TEST_CASE("the live picture: who dies, is away, joins, and does steps again") {
  const Survival run = recorded_run();
  CHECK((run.places == 4 && run.columns.size() == 40));
  CHECK(run.columns[7].dies == 2);
  CHECK((run.columns[8].here == 13 && run.columns[13].here == 13));
  CHECK((run.columns[14].joined == 2 && run.columns[14].here == 15));
  CHECK((run.columns[23].dies == 1 && run.columns[24].joined == 8 && run.columns[33].joined == 1));
  const std::string text = survival_text(run, 16);
  CHECK(contains(text, " place 0 ████████████████\n place 1 ███████x······+█\n"));
  CHECK(count(text, "*") == 16);

  const std::string epochs =
      R"({"loss": [3, 2, 1], "first_step": 4, "epochs": [)"
      R"({"step": 4, "steps_redone": 0, "places": [0, 1], "joined": [0, 1]},)"
      R"({"step": 5, "steps_redone": 1, "places": [0, 1], "joined": [1]}]})";
  const Survival again = read_survival(epochs, "a.json");  // as after a restart
  REQUIRE(again.columns.size() == 4);
  CHECK((again.columns[1].dies == 2 && again.columns[2].again && !again.columns[3].again));
  CHECK((again.columns[2].step == 5 && again.columns[2].loss == 2));
  CHECK(contains(survival_html(again), "const columns = 4"));
  const Survival two = shortened(again, 2);
  REQUIRE(two.columns.size() == 2);
  CHECK((two.columns[0].loss == 2.5 && two.columns[0].dies == 2 && two.columns[1].joined == 2));
  CHECK((two.columns[1].again && !two.columns[0].again && shortened(run, 40).columns.size() == 40));
  for (const char* wrong : {"", "{}", R"({"loss": [1], "first_step": 0, "epochs": []})"})
    CHECK(contains(message_of([&] { read_survival(wrong, "a.json"); }),
                   "a.json is not a log of a run that outlives its ranks"));
}

namespace {
// A run in which place 1 dies in its third step.
struct RunSoFar {
  std::vector<EpochRecord> epochs = {{}};
  std::vector<double> losses = {3, 2};
  RunSoFar() { epochs[0].places = epochs[0].joined = 7; }
  void lose_place_1() {
    epochs.emplace_back(epochs[0]);
    epochs[1].epoch = 2, epochs[1].step = 2, epochs[1].places = 5, epochs[1].joined = 0;
  }
  StepFigures now(bool begins) const {
    const auto step = std::ssize(losses);
    return {step, losses.back(), 0, 0, &losses, &epochs, begins};
  }
};
}  // namespace

TEST_CASE("the live page: written while the run goes on, and for the last time when it has ended") {
  const TemporaryFolder folder;
  const std::string page = (folder / "live.html").string();
  RunSoFar run;
  LivePicture live(false, page, 60);
  const auto written = [&] { return runner::read_text(page); };
  live.show(run.now(false));
  CHECK(contains(written(), "http-equiv=\"refresh\" content=\"1\""));
  CHECK(contains(written(), "step 2 of 60, loss 2.000; epoch 1: places 0 1 2 take part<"));
  run.lose_place_1();
  live.show(run.now(true));  // at once: an epoch begins
  CHECK(contains(written(), "epoch 2: places 0 2 take part, 1 is away"));
  CHECK(count(written(), ">x</text>") == 1);
  CHECK(!std::filesystem::exists(partial_name(page)));

  live.end(std::string("a < b & c"));
  CHECK(contains(written(), "an error has ended the run: a &lt; b &amp; c"));
  CHECK(!contains(written(), "refresh"));
  TrainingFigures figures;
  run.losses.push_back(1.5);
  figures.epochs = run.epochs, figures.loss = run.losses, figures.dropped_sequences = 4;
  live.end(figures);
  CHECK(contains(written(), "3 of 60 steps are done; epochs: 2; lost: 0 steps done again, 4 seq"));
  CHECK(!contains(written(), "refresh"));
}

TEST_CASE("the live page: while all wait the picture stays; Ctrl-C stops the reloading, once") {
  const TemporaryFolder folder;
  const std::string page = (folder / "live.html").string();
  const auto written = [&] { return runner::read_text(page); };
  say_on_page(page, "all wait", true);
  CHECK(!std::filesystem::exists(page));
  RunSoFar run;
  run.lose_place_1();
  LivePicture(false, page, 60).show(run.now(true));
  say_on_page(page, "all wait: place 1 < 2", true);
  CHECK(contains(written(), "<pre>all wait: place 1 &lt; 2</pre>"));
  CHECK((contains(written(), "refresh") && count(written(), ">x</text>") == 1));
  say_on_page(page, stop_words(SIGINT), false);
  CHECK(contains(written(), "<pre>the run was stopped by Ctrl-C</pre>"));
  CHECK((!contains(written(), "refresh") && count(written(), ">x</text>") == 1));
  say_on_page(page, "another end", false);  // the first reason stays
  CHECK(!contains(written(), "another end"));
}

TEST_CASE("what all wait for is said in the words of --recover") {
  TrainingPlan plan;
  plan.tolerance.emplace();
  const auto words = [&](Recovery recovery, const char* layout, const std::vector<int>& missing) {
    plan.tolerance->recovery = recovery, plan.tolerance->missing = 1;
    plan.layout = parse_mesh(layout), plan.ranks = 4;
    return wait_words(plan, missing);
  };
  CHECK(words(Recovery::restart, "dp=4", {2}) ==
        "all wait: place 2 has no rank that is ready. To go on, all 4 places must have one");
  CHECK(words(Recovery::replay, "dp=4", {0, 2}) ==
        "all wait: places 0 2 have no rank that is ready. To go on, 3 of 4 places must have one");
  CHECK(contains(words(Recovery::drop, "dp=2,tp=2", {0, 2}),
                 "To go on, 1 of 2 replicas must be whole"));
  CHECK(contains(words(Recovery::reroute, "pp=2,dp=2", {1, 3}),
                 "To go on, 1 of 2 ranks of each stage must be there"));
}

TEST_CASE("the live page before the first step, and a process that has not drawn says no error") {
  const TemporaryFolder folder;
  const std::string page = (folder / "live.html").string();
  RunSoFar run;
  run.losses.clear();
  LivePicture live(false, page, 60);
  live.end(std::string("of another process"));
  CHECK(!std::filesystem::exists(page));
  live.show({0, 0, 0, 0, &run.losses, &run.epochs, true});
  CHECK(contains(runner::read_text(page), "step 0 of 60; epoch 1: places 0 1 2 take part<"));
  CHECK(!contains(runner::read_text(page), "<svg"));
}

TEST_CASE(
    "runs of DiLoCo: the stored curves are those of all ways, and short runs are what they say") {
  const std::vector<DilocoCurve> stored = stored_diloco_curves();
  const std::vector<DilocoMethod> methods = diloco_methods();
  const DilocoSizes sizes;
  REQUIRE(stored.size() == methods.size());
  for (size_t i = 0; i < stored.size(); ++i) {
    CHECK(stored[i].name == methods[i].name);
    CHECK(std::ssize(stored[i].points) == sizes.steps / sizes.every);
  }
  CHECK(stored[0].points.back().megabytes / stored[2].points.back().megabytes ==
        doctest::Approx(50).epsilon(0.01));
  for (const DilocoMethod& method : methods)
    CHECK(count(diloco_svg(stored), fmt::format(">{}<", method.name)) == 1);
  const std::string text = runner::read_text(YOTTA_SOURCE_DIR "/LICENSE");
  const DilocoSizes small{1, 8, 2, 8, 8, 4, 2, 1e-3};
  std::vector<double> sent;  // by method
  for (const DilocoMethod& method : methods) {
    DilocoMethod often = method;
    const bool streaming = method.options.fragments > 1;  // with a mean on its way at each point
    often.options.inner = streaming ? 4 : 2, often.options.fragments = streaming ? 2 : 1;
    often.options.overlap = streaming ? 1 : 0;
    const DilocoCurve one = run_diloco(often, small, text), two = run_diloco(often, small, text);
    REQUIRE(one.points.size() == 2);
    CHECK(one.points[1].loss == two.points[1].loss);
    CHECK(one.points[1].seconds == two.points[1].seconds);
    CHECK(one.points[0].megabytes == two.points[0].megabytes);
    CHECK((one.points[0].megabytes > 0) == !streaming);
    sent.push_back(one.points[1].megabytes);
    CHECK(one.points[1].step == small.steps);
  }
  CHECK(sent[0] / sent[1] == doctest::Approx(2).epsilon(0.01));  // DDP, and H = 2
  CHECK(sent[2] == sent[1]);
  const auto of = [&](const char* name) {
    const auto found = std::find_if(methods.begin(), methods.end(),
                                    [&](const DilocoMethod& each) { return each.name == name; });
    return static_cast<size_t>(found - methods.begin());
  };
  CHECK(sent[of("8 bits, H = 50")] < sent[2] / 2);
  CHECK(sent[of("4 bits, H = 50")] < sent[2] / 4);
  // An ocean costs seconds and nothing else; DDP pays for it in each step.
  for (const char* name : {"DDP", "DiLoCo, H = 50"}) {
    const DilocoPoint &land = stored[of(name)].points.back(),
                      &ocean = stored[of((std::string(name) + ", ocean").c_str())].points.back();
    CHECK(ocean.loss == land.loss);
    CHECK(ocean.megabytes == land.megabytes);
    CHECK(ocean.seconds > 1.2 * land.seconds);
  }
}

TEST_CASE("stored runs of DiLoCo name their text, the same in both files") {
  const auto text_of = [](const char* file) {
    const std::string all =
        runner::read_text(fmt::format(YOTTA_SOURCE_DIR "/bench/results/{}.json", file));
    const size_t begin = std::min(all.find("\"text\": {"), all.size());
    return all.substr(begin, all.find('}', begin) - begin);
  };
  CHECK(contains(text_of("diloco_curves"), "\"hash\": "));
  CHECK(text_of("diloco_curves") == text_of("diloco_grid"));
}

TEST_CASE("the grid has every k and H, after one rank's run") {
  const std::vector<DilocoCell> cells = stored_diloco_grid();
  REQUIRE(cells.size() == 17);
  CHECK(cells[0].workers == 0);
  for (size_t i = 1; i < cells.size(); ++i) {
    CHECK(cells[i].workers == 1 << ((i - 1) / 4));
    CHECK(cells[i].deviation > 0);
  }
}

TEST_CASE("the files are what is drawn, at most 900 wide, with letters of 10 or more") {
  struct Drawn {
    const char *file, *lesson;
    std::string svg;
  };
  std::string pages;
  for (const char* topic :
       {"06_launch_overhead", "09_cluster", "10_collectives", "13_ddp", "16_hsdp", "27_mfu",
        "28_planner", "29_scaling_laws", "30_failures", "31_diloco"})
    pages += runner::read_text(fmt::format("{}/lessons/{}/README.md", YOTTA_SOURCE_DIR, topic));
  for (const auto& [file, lesson, svg] :
       {Drawn{"ring.svg", "10", ring_svg()},
        {"tree.svg", "10", tree_svg()},
        {"rabenseifner.svg", "10", rabenseifner_svg()},
        {"two_nodes.svg", "10", two_nodes_svg()},
        {"launch_overhead.svg", "06", launch_svg()},
        {"two_buffers.svg", "06", buffers_svg()},
        {"torus.svg", "09", torus_svg()},
        {"levels.svg", "09", levels_svg()},
        {"staleness.svg", "13", staleness_svg()},
        {"ddp.svg", "13", ddp_svg()},
        {"hsdp.svg", "16", hsdp_svg()},
        {"hsdp_sweep.svg", "16", hsdp_sweep_svg()},
        {"mfu_waterfall.svg", "27", first_waterfall_svg()},
        {"mfu_faster.svg", "27", faster_svg()},
        {"mfu_hfu.svg", "27", hfu_svg()},
        {"planner_frontier.svg", "28", frontier_svg(searched_plan())},
        {"planner_cases.svg", "28", cases_svg()},
        {"planner_recipe.svg", "28", recipe_svg()},
        {"scaling_isoflop.svg", "29", scaling_isoflop_svg()},
        {"scaling_optimum.svg", "29", scaling_optimum_svg()},
        {"scaling_batch.svg", "29", scaling_batch_svg()},
        {"scaling_width.svg", "29", scaling_width_svg()},
        {"failure_intervals.svg", "30", intervals_svg()},
        {"failure_flips.svg", "30", flips_svg()},
        {"failure_reroute.svg", "30", reroute_svg()},
        {"failure_run.svg", "30", survival_svg(recorded_run())},
        {"diloco.svg", "31", diloco_svg(stored_diloco_curves())},
        {"diloco_grid.svg", "31", diloco_grid_svg(stored_diloco_grid())},
        {"latency_wall.svg", "31", latency_wall_svg()}}) {
    const bool same =
        runner::read_text(fmt::format("{}/course/pictures/{}", YOTTA_SOURCE_DIR, file)) == svg;
    CHECK_MESSAGE(same, fmt::format("course/pictures/{} is not what is drawn; ./yotta lesson {} -- "
                                    "--draw 1 writes it anew into this folder",
                                    file, lesson));
    CAPTURE(file);
    CHECK(count(pages, fmt::format("](../../course/pictures/{})", file)) == 1);
    CHECK(count(svg, "width=\"900\"") == 1);
    CHECK(count(svg, "nan") == 0);
    check_inside(svg);
    CHECK(count(svg, "font-size=\"") == count(svg, "font-size=\"1"));  // two digits
  }
  CHECK(count(ring_svg(), "all_gather step 3") == 1);
  CHECK(count(tree_svg(), ">8</text>") == 15);  // both ends of 7 messages, and rank 0's last sum
}

TEST_CASE(
    "what was trained for lesson 29: every budget's best size is between its sizes, and held out "
    "is held out") {
  const ScalingResults& results = scaling_results();
  CHECK(results.part("isoflop").size() == 28);
  CHECK(results.part("held_out").size() == 1);
  CHECK(results.part("batch").size() == 35);
  CHECK(results.part("width").size() == 56);
  CHECK(results.noise.size() >= 4);
  const auto budgets = by_budget(results.scaling_runs("isoflop"));
  REQUIRE(budgets.size() == 4);
  const std::vector<Optimum> best = isoflop_minima(results.scaling_runs("isoflop"));
  for (size_t i = 0; i < budgets.size(); ++i) {
    CHECK(best[i].parameters > budgets[i].front().parameters);
    CHECK(best[i].parameters < budgets[i].back().parameters);
  }
  CHECK(results.part("held_out")[0].flops > 3.5 * budgets[3].front().flops);
  // muP's best rate is one for all widths, within a step of the sweep; the other falls with them.
  CHECK(best_rate(results, 128, true).rate == doctest::Approx(best_rate(results, 32, true).rate));
  CHECK(best_rate(results, 128, false).rate < best_rate(results, 32, false).rate);
  const BatchSteps steps = batch_steps(results);
  CHECK(steps.batch.size() == 7);
  CHECK(std::is_sorted(steps.steps.rbegin(), steps.steps.rend()));
}

TEST_CASE("lesson 29's best learning rates lie inside of what was tried") {
  const ScalingResults& results = scaling_results();
  const BatchSteps steps = batch_steps(results);
  for (size_t i = 0; i < steps.batch.size(); ++i) {
    CAPTURE(steps.batch[i]);
    CHECK(steps.rate[i] > steps.tried[i].low);
    CHECK(steps.rate[i] < steps.tried[i].high);
  }
  for (const int width : {16, 32, 64, 128})
    for (const bool mup : {false, true}) {
      CAPTURE(width);
      double low = 1, high = 0;
      for (const MeasuredRun& run : results.part("width"))
        if (run.width == width && run.mup == mup)
          low = std::min(low, run.rate), high = std::max(high, run.rate);
      CHECK(best_rate(results, width, mup).rate > low);
      CHECK(best_rate(results, width, mup).rate < high);
    }
}

TEST_CASE("a best rate at an end of the sweep is seen") {
  ScalingResults results;
  for (const double rate : {0.001, 0.002, 0.004}) {
    MeasuredRun run{.part = "batch", .steps = 1000 * (1 + rate), .batch = 4, .rate = rate};
    run.target = run.loss = 2;
    results.runs.push_back(run);
  }
  CHECK(batch_steps(results).rate.at(0) == batch_steps(results).tried.at(0).low);
}

TEST_CASE("lesson 29's forecast was stored before its run began, and is that of the stored runs") {
  const ScalingResults& results = scaling_results();
  const ScalingReport &forecast = results.forecast_report, &run = results.held_out_report;
  const std::string folder = std::string(YOTTA_SOURCE_DIR) + "/bench/results/scaling/";
  CHECK(forecast.date < run.date);
  CHECK(forecast.fitted == hash_runs(results.scaling_runs("isoflop")));
  CHECK(run.forecast_file == hash_words(read_file(folder + "forecast.json", Where::current())));
  const ScalingRun held = results.scaling_runs("held_out").at(0);
  CHECK(forecast.forecast.weights == held.parameters);
  const Forecast now = forecast_of(results.scaling_runs("isoflop"), held);
  CHECK(now.loss == doctest::Approx(forecast.forecast.loss).epsilon(1e-3));
  CHECK(now.interval.low == doctest::Approx(forecast.forecast.interval.low).epsilon(1e-2));
  CHECK(now.best_by_line == doctest::Approx(forecast.forecast.best_by_line).epsilon(1e-3));
}
