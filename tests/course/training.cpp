// `train` on layouts of the mesh: the losses of one rank, and a run that is saved on one layout and
// continued on others.
#include "course/training/training.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cmath>
#include <cstring>

#include "course/tour/techniques.hpp"
#include "course/training/diloco_options.hpp"
#include "course/training/same_everywhere.hpp"
#include "course/training/training_text.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/project_file.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/layouts/mesh_text.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/comm/sockets/job_line.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/model/files/split_regex.hpp"
#include "yotta/model/files/tokenizer_json.hpp"
#include "yotta/model/text.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

TrainingPlan tiny(const std::string& layout, const std::string& text) {
  TrainingPlan plan;
  plan.model = llama_config(2, 16, 24, 4, 4, 8, 256);
  plan.layout = parse_mesh(layout);
  plan.ranks = static_cast<int>(plan.layout->ranks());
  plan.steps = 6;
  plan.microbatches = 2;
  plan.text = text;
  plan.measure_seconds = 0;
  return plan;
}

// A text of some thousand bytes in a folder; returns its name.
std::string written_text(const TemporaryFolder& folder) {
  const std::string name = (folder.path() / "text.txt").string();
  std::string words;
  for (int i = 0; i < 400; ++i) words += fmt::format("the {}th word of a text for a test, ", i * i);
  write_file(name, words);
  return name;
}

std::vector<double> losses(const TrainingPlan& plan) {
  return run_training(plan, [](const StepFigures&) {}).loss;
}

void check_near(const std::vector<double>& some, const std::vector<double>& all, size_t first,
                double most = 2e-5) {  // in f32
  REQUIRE(first + some.size() <= all.size());
  for (size_t i = 0; i < some.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(some[i] - all[first + i]) <= most);
  }
}

}  // namespace

TEST_CASE("a process that is replaced reads the course's text as it was when its job began") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& words) {
    std::filesystem::create_directories(root / "include");
    for (const char* const part : {"README.md", "include/a.hpp"})
      write_file((root / part).string(), words);
  };
  std::filesystem::create_directories(root / "lessons");
  auto [starters_zero, its_zero] = joined_sockets(SOCK_SEQPACKET);
  auto [starters_three, its_three] = joined_sockets(SOCK_SEQPACKET);
  WordLine to_zero(std::move(starters_zero)), to_three(std::move(starters_three));
  JobLine zero(std::move(its_zero)), three(std::move(its_three));
  const auto read = [&](JobLine& line) {
    const Text text = own_text(root.path().string(), line, &line == &zero);
    CHECK(text.files == 2);
    return text.bytes;
  };
  write("first\n");
  CHECK(read(three) == "first\nfirst\n");
  CHECK_FALSE(to_three.take().has_value());  // it leaves nothing
  CHECK(read(zero) == "first\nfirst\n");
  std::optional<LineWord> note = to_zero.take();
  REQUIRE(note);
  write("second\n");
  CHECK(read(zero) == "first\nfirst\n");
  CHECK(read(three) == "second\nsecond\n");  // as long as it has not been told
  to_three.put("note " + note->rest, std::move(note->descriptor));
  CHECK(read(three) == "first\nfirst\n");
  CHECK(own_text(root.path().string()).bytes == "second\nsecond\n");  // in no job
}

TEST_CASE("a run is saved on one layout, continued on a second and a third: one rank's losses") {
  const TemporaryFolder folder;
  const std::string text = written_text(folder);
  const std::vector<double> all = losses(tiny("", text));
  REQUIRE(all.size() == 6);
  CHECK(all[5] < all[0]);

  TrainingPlan plan = tiny("pp=2,tp=2", text);
  plan.stop_after = 2;
  plan.save = (folder.path() / "first").string();
  check_near(losses(plan), all, 0);

  plan = tiny("fsdp=2,cp=2", text);
  plan.stop_after = 4;
  plan.resume = (folder.path() / "first").string();
  plan.save = (folder.path() / "second").string();
  check_near(losses(plan), all, 2);

  plan = tiny("tp=2", text);
  plan.recompute = "all";
  plan.resume = (folder.path() / "second").string();
  check_near(losses(plan), all, 4);
}

TEST_CASE(
    "--zero: one rank's losses, and the bytes of ZeRO's table; saved and continued elsewhere") {
  const TemporaryFolder folder;
  const std::string text = written_text(folder);
  TrainingPlan plan = tiny("", text);
  plan.model.tied = true, plan.model.dtype = DType::bf16;
  const std::vector<double> all = losses(plan);
  const int64_t N = 4, P = (parameters(plan.model) + N - 1) / N * N;  // with padding
  const int64_t layer =  // what is not added yet, in f32: of the tied table, and of a matrix
      4 * (plan.model.vocabulary + plan.model.feed_forward) * plan.model.width;
  plan.layout = MeshShape{.dp_replicate = N}, plan.ranks = N;
  plan.bf16_gradients = true;
  for (plan.zero = 1; plan.zero <= 2; ++plan.zero) {
    CAPTURE(plan.zero);
    plan.save = (folder.path() / std::to_string(plan.zero)).string(), plan.stop_after = 2;
    const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
    check_near(figures.loss, all, 0, 1e-3);
    const std::vector<int64_t>& held = figures.ranks[0].peak_by_kind;
    const int64_t gradients = 2 * P / (plan.zero == 2 ? N : 1);
    CHECK(held[static_cast<size_t>(MemoryKind::parameters)] == 2 * P);
    CHECK(held[static_cast<size_t>(MemoryKind::optimizer)] == 12 * P / N);
    CHECK(held[static_cast<size_t>(MemoryKind::gradients)] >= gradients);
    CHECK(held[static_cast<size_t>(MemoryKind::gradients)] <= gradients + layer);
  }
  plan.bf16_gradients = false, plan.save.clear(), plan.stop_after = 0;
  const auto continued = [&](int stage, const MeshShape& layout, int zero) {
    plan.resume = (folder.path() / std::to_string(stage)).string();
    plan.layout = layout, plan.ranks = static_cast<int>(layout.ranks()), plan.zero = zero;
    check_near(losses(plan), all, 2, 1e-3);
  };
  continued(1, {.pp = 2, .dp_shard = 2}, 0);
  continued(1, {.pp = 2, .dp_replicate = 3}, 2);
  continued(2, {.tp = 2, .cp = 2, .dp_replicate = 2}, 1);
  continued(2, {.dp_replicate = 2}, 3);
}

TEST_CASE("--zero 3 is the axis fsdp, and what --zero cannot be beside is refused") {
  TrainingPlan plan = tiny("dp=4,tp=2", "/no/such/text");
  plan.zero = 3, plan.batch = 16;  // for each of 8 ranks its 2 microbatches
  CHECK(layout_of(plan) == MeshShape{.tp = 2, .dp_shard = 4});
  plan.layout = MeshShape{.dp_shard = 8};
  CHECK(layout_of(plan) == *plan.layout);
  plan.layout = MeshShape{.dp_shard = 2, .dp_replicate = 4};
  CHECK(contains(message_of([&] { losses(plan); }), "the same without --zero, or fsdp=8"));
  plan.zero = 1;
  CHECK(contains(message_of([&] { losses(plan); }), "has already cut all that ZeRO-1 would cut"));
  for (plan.zero = 1; plan.zero <= 3; ++plan.zero) {
    CAPTURE(plan.zero);
    plan.layout = MeshShape{.tp = 4, .pp = 2};
    CHECK(contains(message_of([&] { losses(plan); }), "nothing would be saved"));
    plan.layout = MeshShape{.cp = 2, .pp = 4};  // 1 and 2 cut over cp as well
    CHECK(contains(message_of([&] { losses(plan); }), "nothing would be saved") ==
          (plan.zero == 3));
  }
  plan.layout = MeshShape{.dp_replicate = 8};
  plan.zero = 0, plan.bf16_gradients = true;
  CHECK(contains(message_of([&] { losses(plan); }), "Nearest: --zero 1 or --zero 2, or f32"));
  plan.bf16_gradients = false, plan.bf16_gathered = true;
  plan.layout = MeshShape{.dp_replicate = 8};
  CHECK(contains(message_of([&] { losses(plan); }), "Nearest: fsdp=8 in place of dp"));
}

TEST_CASE("fsdp's units, resharding and gathered type: one rank's losses, and what they send") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.steps = 2, plan.microbatches = 1;
  const std::vector<double> all = losses(plan);
  plan.layout = MeshShape{.dp_shard = 4}, plan.ranks = 4;
  const auto sent = [&](double most) {
    const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
    check_near(figures.loss, all, 0, most);
    return figures.ranks[0];
  };
  const RankFigures usual = sent(2e-5);
  plan.layers_per_unit = 2;
  CHECK(sent(2e-5).messages_sent < usual.messages_sent);
  plan.layers_per_unit = 1, plan.bf16_gathered = true;
  CHECK(sent(2e-3).bytes_sent < usual.bytes_sent);  // 2 of the 3 N travel in half
  plan.bf16_gathered = false, plan.no_reshard = true;
  CHECK(3 * sent(2e-5).bytes_sent < 2.1 * static_cast<double>(usual.bytes_sent));  // 2 N, not 3
}

TEST_CASE("every schedule of a pipeline and every way to recompute: one rank's losses") {
  const TemporaryFolder folder;
  const std::string text = written_text(folder);
  TrainingPlan plan = tiny("", text);
  plan.model.layers = 4, plan.model.attention = AttentionKind::plain;
  plan.steps = 2;
  const std::vector<double> all = losses(plan);
  plan.layout = MeshShape{.pp = 2}, plan.ranks = 2;
  plan.microbatches = 4;
  std::vector<int64_t> live;  // activations on rank 0
  for (const char* schedule : {"naive", "1f1b", "gpipe", "zb-h1", "zb-h2"}) {
    CAPTURE(std::string(schedule));
    plan.schedule = schedule;
    const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
    check_near(figures.loss, all, 0);
    live.push_back(figures.ranks[0].peak_by_kind[static_cast<size_t>(MemoryKind::activations)]);
  }
  CHECK((live[0] < live[1] && live[1] < live[2]));  // 1, p and m microbatches in flight
  CHECK((live[3] < live[4]));
  for (const char* schedule : {"zb-v", "dualpipe", "dualpipev", "auto"}) {
    CAPTURE(std::string(schedule));
    plan.schedule = schedule;
    check_near(losses(plan), all, 0);
  }
  for (const int64_t hold : {1, 4}) {
    plan.hold = hold;
    const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
    check_near(figures.loss, all, 0);
    live.push_back(figures.ranks[0].peak_by_kind[static_cast<size_t>(MemoryKind::activations)]);
  }
  CHECK((live[0] <= live[5] && live[5] < live[1] && live[1] < live[6]));
  plan.hold = 0, plan.schedule = "zb-h1", plan.chunks = 2;
  check_near(losses(plan), all, 0);
  plan.schedule = "1f1b", plan.chunks = 2;
  check_near(losses(plan), all, 0);
  plan.schedule = "gpipe";
  CHECK(contains(message_of([&] { losses(plan); }), "GPipe has one stage per rank, not 2"));
  plan.layout = MeshShape{.dp_shard = 2};
  plan.schedule = "1f1b", plan.chunks = 1;
  int64_t plain = 0;
  for (const char* recompute : {"none", "attention", "pointwise", "all", "sqrt", "revolve"}) {
    CAPTURE(std::string(recompute));
    plan.recompute = recompute;
    const TrainingFigures figures = run_training(plan, [](const StepFigures&) {});
    check_near(figures.loss, all, 0);
    const int64_t held =
        figures.ranks[0].peak_by_kind[static_cast<size_t>(MemoryKind::activations)];
    if (plain == 0) plain = held;
    CHECK((held < plain) == (plan.recompute != "none"));
  }
}

TEST_CASE("--loss-tokens: one rank's losses; where it cannot be, it is refused") {
  const TemporaryFolder folder;
  const std::string text = written_text(folder);
  const std::vector<double> whole = losses(tiny("dp=1", text));
  for (const char* const layout : {"dp=1", "tp=2", "pp=2", "dp=2,cp=2"})
    for (const int64_t tokens : {3, 1000}) {
      CAPTURE(std::string(layout));
      TrainingPlan plan = tiny(layout, text);
      plan.loss_tokens = tokens;
      check_near(losses(plan), whole, 0);
    }
  TrainingPlan sharded = tiny("fsdp=2", text), recorded = tiny("dp=1", text);
  sharded.loss_tokens = recorded.loss_tokens = 8;
  CHECK(contains(message_of([&] { check_plan(sharded); }), "when fsdp 2 has dropped it"));
  recorded.graph = true, recorded.device = Device::cuda;
  CHECK(contains(message_of([&] { check_plan(recorded); }), "--loss-tokens takes a chunk's loss"));
}

TEST_CASE("a run is saved by DualPipe, continued by ZB-V and by one rank: one rank's losses") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.model.layers = 4, plan.steps = 3;
  const std::vector<double> all = losses(plan);
  plan.layout = MeshShape{.pp = 2, .dp_shard = 2}, plan.ranks = 4;
  plan.microbatches = 4, plan.schedule = "dualpipe", plan.stop_after = 1;
  plan.save = (folder.path() / "first").string();
  check_near(losses(plan), all, 0);
  plan.resume = plan.save, plan.save = (folder.path() / "second").string();
  plan.layout = MeshShape{.pp = 2}, plan.ranks = 2, plan.schedule = "zb-v", plan.stop_after = 2;
  check_near(losses(plan), all, 1);
  plan.resume = plan.save, plan.save.clear();
  plan.layout.reset(), plan.ranks = 1, plan.schedule = "1f1b", plan.stop_after = 0;
  check_near(losses(plan), all, 2);
}

TEST_CASE("--diloco: with H = 1 and plain averaging DDP's losses; a worker may be any mesh") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.batch = 7, plan.clip = 0, plan.optimizer = "sgd", plan.learning_rate = 0.1;
  const TrainingFigures all = run_training(plan, [](const StepFigures&) {});
  plan.workers = plan.ranks = 3;
  plan.diloco = {.inner = 1, .learning_rate = 1, .momentum = 0};
  const TrainingFigures split = run_training(plan, [](const StepFigures&) {});
  check_near(split.loss, all.loss, 0);
  CHECK(std::abs(split.validation_loss - all.validation_loss) <= 2e-5);
  plan.batch = 8, plan.optimizer = "adamw", plan.clip = 1, plan.learning_rate = 0.01;
  plan.workers = plan.ranks = 2, plan.diloco = {.inner = 2};
  const std::vector<double> expected = losses(plan);
  plan.ranks = 4;
  for (const char* layout : {"tp=2", "fsdp=2", "pp=2", "dp=2", "cp=2"}) {
    CAPTURE(std::string(layout));
    plan.layout = parse_mesh(layout);
    check_near(losses(plan), expected, 0);
  }
  {
    TrainingPlan mixed = plan;  // the ranks of a worker share out its experts
    mixed.model.mixture.experts = 4, mixed.layout.reset(), mixed.ranks = 2;
    const std::vector<double> whole = losses(mixed);
    mixed.ranks = 4, mixed.layout = parse_mesh("ep=2");
    check_near(losses(mixed), whole, 0);
  }
  plan.layout = MeshShape{.dp_replicate = 2}, plan.zero = 2;
  check_near(losses(plan), expected, 0);
}

TEST_CASE("--diloco: what a rank sends falls by about H, and by a few times more with 4 bits") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.ranks = 2, plan.layout.reset();
  const auto sent = [&](int workers, const DilocoOptions& options) {
    plan.workers = workers, plan.diloco = options;
    return static_cast<double>(run_training(plan, [](const StepFigures&) {}).ranks[0].bytes_sent);
  };
  const double ddp = sent(0, {}), diloco = sent(2, {.inner = 3});
  CHECK(std::abs(ddp / diloco - 3) < 0.03);
  CHECK(diloco / sent(2, {.inner = 3, .bits = 8}) > 3.5);
  CHECK(diloco / sent(2, {.inner = 3, .bits = 4}) > 6.5);
}

TEST_CASE("--diloco: what cannot be is refused, with what would work") {
  const auto said = [](const std::string& text) { return message_of([&] { parse_diloco(text); }); };
  CHECK(parse_diloco("k=4,inner=10,bits=4").second.bits == 4);
  CHECK(contains(said("inner=5"), "--diloco needs workers"));
  CHECK(contains(said("k=4,speed=3"), "--diloco has 'speed=3'; it takes k (workers)"));
  CHECK(contains(said("k=4.5"), "'4.5' is no whole number"));
  CHECK(contains(said("k=4,keep=0.5"), "is for a mean that comes late"));
  CHECK(contains(said("k=4,inner=5,overlap=5"), "give 0 to 4"));
  CHECK(contains(said("k=4,momentum=nan"), "a momentum of nan"));
  TrainingPlan plan = tiny("", "/no/such/text");
  const auto refused = [&] { return message_of([&] { check_plan(plan); }); };
  plan.workers = 16, plan.ranks = 16, plan.layout.reset();
  CHECK(contains(refused(), "Nearest: --batch 16"));
  plan.workers = 4, plan.ranks = 6;
  CHECK(contains(refused(), "4 workers of DiLoCo do not divide 6 ranks"));
  plan.layout = MeshShape{.tp = 2}, plan.ranks = 4;
  CHECK(contains(refused(), "4 workers of tp 2 are 8 ranks, not 4"));
  plan.ranks = 8;
  CHECK(contains(refused(), "inner=50 in a run of 6 steps"));
  plan.diloco.inner = 6, plan.microbatches = 3;
  CHECK(contains(refused(), "(of one of 4 workers: 2 of 8 sequences, 2 of 8 ranks)"));
  plan.microbatches = 1, plan.device = Device::cuda;
  CHECK(contains(refused(), "run on the CPU only"));
  CHECK(contains(said("k=4,k=4"), "has k twice"));
  CHECK(contains(said("k=4,"), "--diloco has ''"));
  CHECK(contains(said("k=4,inner=99999999999999999999"), "is too large"));
  CHECK(contains(said("k=4,inner=9223372036854775807"), "steps at most"));
}

TEST_CASE("--diloco: a run that is cut anywhere and resumed is the run that was not, to the bit") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.workers = plan.ranks = 2, plan.steps = 12, plan.microbatches = 1, plan.ema = 0.5;
  const std::string kept = (folder.path() / "kept").string();
  const auto check_cut = [&](int64_t step) {
    CAPTURE(step);
    TrainingPlan part = plan;
    const TrainingFigures all = run_training(part, [](const StepFigures&) {});
    part.stop_after = step, part.save = kept;
    run_training(part, [](const StepFigures&) {});
    part.stop_after = 0, part.save.clear(), part.resume = kept;
    const TrainingFigures rest = run_training(part, [](const StepFigures&) {});
    CHECK(rest.loss == std::vector<double>(all.loss.begin() + step, all.loss.end()));
    CHECK(rest.validation_loss == all.validation_loss);
    CHECK(rest.ema_validation_loss == all.ema_validation_loss);
  };
  plan.diloco = {.inner = 5, .bits = 4};
  for (const int64_t step : {1, 5, 8}) check_cut(step);
  plan.diloco = {.inner = 5, .fragments = 2, .overlap = 3, .keep = 0.5};
  for (const int64_t step : {3, 6, 7}) check_cut(step);  // with means on their way
  plan.model.dtype = DType::bf16;
  check_cut(7);
  plan.ranks = 4, plan.layout = MeshShape{.dp_replicate = 2}, plan.zero = 2;
  check_cut(6);
  plan.resume = kept, plan.layout = MeshShape{.dp_shard = 2}, plan.zero = 0;
  CHECK(contains(message_of([&] { run_training(plan, [](const StepFigures&) {}); }),
                 "this run was started with layout"));
}

TEST_CASE("--diloco: counts in a saved state that no run has are refused, and named") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.workers = plan.ranks = 2, plan.steps = 12, plan.microbatches = 1;
  plan.diloco = {.inner = 5, .overlap = 3};
  const std::string kept = (folder.path() / "kept").string();
  plan.stop_after = 6, plan.save = kept;  // with a mean on its way
  run_training(plan, [](const StepFigures&) {});
  plan.stop_after = 0, plan.save.clear(), plan.resume = kept;
  const TrainingState saved = load_training_state(kept);
  Transformer whole(plan.model);
  const std::vector<NamedTensor> weights = named_values(parameters(whole.stack()));
  const auto refused = [&](size_t place, double value) {
    TrainingState forged = saved;
    for (NamedTensor& each : forged.tensors) {
      if (each.name != "diloco.rank1") continue;
      each.value = each.value.clone();
      std::memcpy(each.value.data<uint8_t>() + 8 * place, &value, sizeof value);
    }
    save_checkpoint(kept, plan.model, weights, &forged);
    return message_of([&] { run_training(plan, [](const StepFigures&) {}); });
  };
  CHECK(contains(refused(0, std::nan("")), "diloco.rank1: steps is nan, and should be a whole"));
  CHECK(contains(refused(1, 1e300), kept + ": diloco.rank1: means is 1e+300"));
  CHECK(contains(refused(2, -1), "steps of the inner optimizer is -1"));
  CHECK(contains(refused(3, INFINITY), "weight is inf"));
  CHECK(contains(refused(4, 0.5), "steps of a fragment is 0.5"));
  CHECK(contains(refused(5, 4), "steps until a mean is there is 4, and should be the overlap at"));
  CHECK(contains(refused(5, 0), "should be 0, for no mean is awaited"));
  CHECK(contains(refused(6, 0), "length of what is on its way is 0, and should be that of its"));
}

TEST_CASE("--diloco --ema: the outer weights are averaged, not those of a worker") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.workers = plan.ranks = 2, plan.steps = 12, plan.microbatches = 1, plan.diloco.inner = 5;
  plan.ema = 1e-9;  // nothing but the last weights stays
  plan.stop_after = 5;
  const double agreed = run_training(plan, [](const StepFigures&) {}).validation_loss;
  plan.stop_after = 8;  // the workers are three steps further, each for itself
  const TrainingFigures later = run_training(plan, [](const StepFigures&) {});
  CHECK(later.ema_validation_loss == doctest::Approx(agreed).epsilon(1e-6).scale(0));
  CHECK(std::abs(later.validation_loss - agreed) > 1e-3);
  // A mean that comes after step 7: with keep 0 it is all that the worker goes on with.
  plan.stop_after = 7, plan.diloco.overlap = 2;
  const double come = run_training(plan, [](const StepFigures&) {}).validation_loss;
  plan.diloco.keep = 0.5;
  const TrainingFigures mixed = run_training(plan, [](const StepFigures&) {});
  CHECK(mixed.ema_validation_loss == doctest::Approx(come).epsilon(1e-6).scale(0));
  CHECK(std::abs(mixed.validation_loss - come) > 1e-3);
}

TEST_CASE("--absent: who cannot be away then is refused") {
  TrainingPlan plan = tiny("", "/no/such/text");
  plan.workers = plan.ranks = 2, plan.diloco.inner = 3;
  const auto refused = [&](const char* absent) {
    plan.absent = parse_absence(absent);
    return message_of([&] { check_plan(plan); });
  };
  CHECK(contains(refused("worker=0"), "give 1 to 1. Worker 0 stays: it prints and saves"));
  CHECK(contains(refused("worker=2"), "--absent worker=2 of 2 workers"));
  CHECK(contains(refused("round=0"), "in rounds 1 to 1"));
  CHECK(contains(refused("round=2"), "in rounds 1 to 1"));
  plan.diloco.overlap = 1;
  CHECK(contains(refused("round=1"), "leave overlap out"));
  plan.diloco.overlap = 0, plan.stops_on_signals = true;
  CHECK(contains(refused("round=1"), "in one piece: leave out --requeue"));
  plan.stops_on_signals = false, plan.stop_after = 4;
  CHECK(contains(refused("round=1"), "leave out --stop-after"));
  CHECK(contains(message_of([] { parse_absence("worker=1,when=2"); }), "--absent has 'when=2'"));
}

TEST_CASE("--absent: the losses are those of the workers that are there") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.batch = 2, plan.learning_rate = 0, plan.microbatches = 1;
  plan.workers = plan.ranks = 2, plan.diloco.inner = 2;
  const std::vector<double> both = losses(plan);
  plan.absent = Absence{.worker = 1, .round = 2};
  const std::vector<double> some = losses(plan);
  plan.absent.reset(), plan.workers = 0, plan.ranks = 1, plan.batch = 1;
  const std::vector<double> first = losses(plan);  // of worker 0's sequences alone
  for (const size_t step : {0u, 1u, 4u, 5u}) CHECK(some[step] == both[step]);
  for (const size_t step : {2u, 3u})
    CHECK(some[step] == doctest::Approx(first[step]).epsilon(1e-6).scale(0));
}

TEST_CASE("--context-parallel: one rank's losses; Ulysses sends less than the ring") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.steps = 2;
  const std::vector<double> all = losses(plan);
  plan.layout = MeshShape{.cp = 4}, plan.ranks = 4;
  const TrainingFigures ring = run_training(plan, [](const StepFigures&) {});
  plan.context_parallel = "ulysses";
  const TrainingFigures ulysses = run_training(plan, [](const StepFigures&) {});
  check_near(ring.loss, all, 0);
  check_near(ulysses.loss, all, 0);
  CHECK(ulysses.ranks[0].bytes_sent < ring.ranks[0].bytes_sent);
}

TEST_CASE("--experts: one rank's losses on ep, saved in Mixtral's form and continued elsewhere") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.model.mixture = {.experts = 4, .top_k = 2, .z_loss = 0.01};
  const std::vector<double> all = losses(plan);
  plan.layout = MeshShape{.ep = 2, .dp_replicate = 2}, plan.ranks = 4;
  plan.save = (folder.path() / "mixture").string(), plan.stop_after = 2;
  check_near(losses(plan), all, 0);
  CHECK(load_config(plan.save).mixture.experts == 4);
  plan.resume = plan.save, plan.save.clear(), plan.stop_after = 0;
  plan.layout = MeshShape{.tp = 2, .ep = 2};
  check_near(losses(plan), all, 2);
  plan.model.mixture.z_loss = 0.1;
  CHECK(contains(message_of([&] { losses(plan); }), "started with z_loss 0.01"));
}

TEST_CASE("mixtures that cannot be trained, or not be saved, are refused before anything starts") {
  TrainingPlan plan = tiny("", "/no/such/text");
  const auto said = [&] { return message_of([&] { check_plan(plan); }); };
  plan.model.mixture.balance_loss = 0.1;
  CHECK(contains(said(), "--balance-loss changes nothing here: it is for a mixture"));
  plan.model.mixture.experts = 4;
  CHECK(said() == "nothing was thrown");
  plan.save = "out", plan.model.mixture.shared = 1;
  CHECK(contains(said(), "a mixture with a shared expert cannot be kept in files"));
  plan.save.clear(), plan.device = Device::cuda;
  CHECK(contains(said(), "a mixture of experts runs on the CPU only"));
  plan.device = Device::cpu, plan.model.mixture.capacity = std::nan("");
  CHECK(contains(said(), "--capacity is nan"));
  plan.model.mixture.capacity = 0, plan.model.mixture.experts = int64_t{1} << 30;
  CHECK(contains(said(), "at most together"));
  plan.model.mixture = {};
  plan.layout = MeshShape{.ep = 4}, plan.ranks = 4;
  CHECK(contains(said(), "but the model has none"));
}

TEST_CASE(
    "--sequence-parallel and --async-tp: one rank's losses, fewer activations; --keep-gathered: "
    "fewer "
    "bytes") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.steps = 2;
  const std::vector<double> all = losses(plan);
  plan.layout = MeshShape{.tp = 2, .dp_replicate = 2}, plan.ranks = 4;
  const auto figures = [&](bool shares, bool keeps) {
    plan.sequence_parallel = shares, plan.keep_gathered = keeps;
    const TrainingFigures made = run_training(plan, [](const StepFigures&) {});
    check_near(made.loss, all, 0);
    return made.ranks[0];
  };
  const auto held = [](const RankFigures& rank) {
    return rank.peak_by_kind[static_cast<size_t>(MemoryKind::activations)];
  };
  const RankFigures alone = figures(false, false), kept = figures(true, true);
  const RankFigures dropped = figures(true, false);
  CHECK(held(alone) > held(kept));
  CHECK(held(kept) > held(dropped));
  CHECK(dropped.bytes_sent > kept.bytes_sent);
  plan.async_tp = true;
  for (const bool both : {false, true}) {
    plan.both_ways = both;
    const RankFigures pieces = figures(false, false);  // --async-tp shares the tokens by itself
    CHECK(pieces.bytes_sent == dropped.bytes_sent);
    CHECK(held(pieces) < held(alone));
  }
}

TEST_CASE("what is reported as sent and held is training's: saving after each step adds nothing") {
  const TemporaryFolder folder;
  const std::string text = written_text(folder);
  for (const char* layout : {"fsdp=2", "pp=2"}) {
    CAPTURE(std::string(layout));
    TrainingPlan plan = tiny(layout, text);
    plan.steps = 2;
    const TrainingFigures apart = run_training(plan, [](const StepFigures&) {});
    plan.save = (folder.path() / layout).string();
    plan.save_every = 1;
    const TrainingFigures saved = run_training(plan, [](const StepFigures&) {});
    for (size_t r = 0; r < 2; ++r) {
      CHECK(apart.ranks[r].bytes_sent > 0);
      CHECK(saved.ranks[r].bytes_sent == apart.ranks[r].bytes_sent);
      CHECK(saved.ranks[r].messages_sent == apart.ranks[r].messages_sent);
      CHECK(saved.ranks[r].peak_bytes == apart.ranks[r].peak_bytes);
      CHECK(saved.ranks[r].peak_by_kind == apart.ranks[r].peak_by_kind);
      CHECK(apart.ranks[r].peak_bytes > apart.ranks[r].peak_by_kind[0]);
    }
  }
}

TEST_CASE("the tour's chart: each technique has one rank's loss, and says what it buys and costs") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.model.layers = 4;
  const std::vector<TechniqueFigures> all =
      compare_techniques(plan, cluster_named("h100x8"), [](int, const std::string&) {});
  const auto of = [&](const std::string& name) {
    for (const TechniqueFigures& each : all)
      if (each.name == name) return each;
    FAIL(name);
    return all[0];
  };
  const TechniqueFigures one = of("one rank"), ddp = of("DDP"), fsdp = of("FSDP (ZeRO-3)");
  TrainingPlan experts = plan;
  experts.model.mixture.experts = 8;
  experts.steps = 5, experts.batch = 8, experts.warmup = 1, experts.microbatches = 1;
  const double mixture = losses(experts).back();
  for (const TechniqueFigures& each : all) {
    CAPTURE(each.name);
    const bool has_experts = each.name == "8 experts";                        // another model
    CHECK(std::abs(each.loss - (has_experts ? mixture : one.loss)) <= 2e-5);  // in f32
    CHECK(each.step_seconds > 0);
    CHECK((each.bytes_per_step > 0) == (each.name != "one rank"));
    CHECK(contains(techniques_text(all), each.name));
    CHECK(contains(techniques_html(all, ""), each.layout));
    CHECK_FALSE(contains(techniques_html(all, ""), "<a "));
    const std::string lesson = YOTTA_SOURCE_DIR "/lessons/" + each.lesson + "/README.md";
    CHECK(std::filesystem::exists(lesson));
    CHECK(contains(techniques_html(all, "book"), "href=\"book/lessons/" + each.lesson + ".html\""));
  }
  CHECK(std::abs(fsdp.bytes_per_step / ddp.bytes_per_step - 1.5) <= 0.05);  // 3 N against 2 N
  CHECK(fsdp.peak_bytes < 0.75 * ddp.peak_bytes);
  const TechniqueFigures hsdp = of("HSDP");  // 3/2 N in the group, and N/2 between: 2 N against 3/2
  CHECK(std::abs(hsdp.bytes_per_step / ddp.bytes_per_step - 4.0 / 3) <= 0.05);
  CHECK((fsdp.peak_bytes < hsdp.peak_bytes && hsdp.peak_bytes < ddp.peak_bytes));
  const TechniqueFigures zero_1 = of("ZeRO-1"), zero_2 = of("ZeRO-2");
  CHECK(zero_1.bytes_per_step <= 1.01 * ddp.bytes_per_step);  // the same, with padding
  CHECK(zero_2.bytes_per_step == zero_1.bytes_per_step);
  CHECK((zero_1.peak_bytes < ddp.peak_bytes && zero_2.peak_bytes < ddp.peak_bytes));
  CHECK(of("DDP, recomputing").peak_bytes < ddp.peak_bytes);
  CHECK(of("pipeline, 1F1B").bytes_per_step < ddp.bytes_per_step);
  CHECK(of("zero bubble").step_seconds < of("pipeline, 1F1B").step_seconds);
  CHECK(of("Ulysses").bytes_per_step < of("ring attention").bytes_per_step);
  CHECK(of("tensor parallel").peak_bytes < one.peak_bytes);
  const TechniqueFigures whole = of("sequence parallel"), pieces = of("Async-TP");
  CHECK(pieces.bytes_per_step == whole.bytes_per_step);
  CHECK(pieces.step_seconds > whole.step_seconds);  // a toy's pieces are mostly launches
}

TEST_CASE("numbers that no training survives are refused before anything is read") {
  const auto said = [](double TrainingPlan::*number, double value) {
    TrainingPlan plan = tiny("dp=1", "/no/such/text");
    plan.*number = value;
    return message_of([&] { losses(plan); });
  };
  CHECK(contains(said(&TrainingPlan::learning_rate, -1), "--lr is -1; it must be a number"));
  CHECK(contains(said(&TrainingPlan::learning_rate, NAN), "--lr is nan"));
  CHECK(contains(said(&TrainingPlan::clip, INFINITY), "--clip is inf"));
  CHECK(contains(said(&TrainingPlan::clip, 0), "/no/such/text"));  // 0: no clipping
}

TEST_CASE("sizes beyond this machine are refused before anything is read or built") {
  const auto said = [](auto change) {
    TrainingPlan plan = tiny("dp=1", "/no/such/text");
    change(plan);
    return message_of([&] { losses(plan); });
  };
  constexpr int64_t large = int64_t{1} << 40;
  CHECK(contains(said([](TrainingPlan& p) { p.model.layers = 1000000000; }),
                 "a model of 1000000000 layers; there are 65536 at most"));
  CHECK(contains(said([](TrainingPlan& p) { p.model.feed_forward = large; }),
                 "feed-forward is 1099511627776; it can be 1073741824 at most"));
  CHECK(contains(said([](TrainingPlan& p) { p.model.width = 1 << 20; }), "TiB of memory at least"));
  CHECK(contains(said([](TrainingPlan& p) { p.batch = large; }), "and this machine has"));
  CHECK(contains(said([](TrainingPlan& p) { p.microbatches = large; }), "Nearest: 8"));
  CHECK(contains(said([](TrainingPlan& p) { p.steps = large, p.save_batches = "b"; }),
                 "or fewer steps for --save-batches"));
  CHECK(contains(said([](TrainingPlan& p) { p.steps = large; }), "/no/such/text"));
}

TEST_CASE("an option that changes nothing on this layout is refused") {
  const auto said = [](auto change) {
    TrainingPlan plan = tiny("dp=2", "/no/such/text");
    change(plan);
    return message_of([&] { losses(plan); });
  };
  const auto useless = [&](auto change, const std::string& option, const std::string& needs) {
    CHECK(contains(said(change), option + " changes nothing here: it is for " + needs));
  };
  useless([](TrainingPlan& p) { p.no_reshard = true; }, "--no-reshard", "fsdp");
  useless([](TrainingPlan& p) { p.layers_per_unit = 2; }, "--layers-per-unit", "fsdp");
  useless([](TrainingPlan& p) { p.schedule = "zb-h1"; }, "--schedule", "a pipeline");
  useless([](TrainingPlan& p) { p.hold = 2; }, "--hold", "--schedule auto");
  useless([](TrainingPlan& p) { p.context_parallel = "ulysses"; }, "--context-parallel",
          "the axis cp");
  useless([](TrainingPlan& p) { p.snapshots = 3; }, "--snapshots", "--recompute revolve");
  useless([](TrainingPlan& p) { p.sequence_parallel = true; }, "--sequence-parallel",
          "the axis tp");
  useless([](TrainingPlan& p) { p.keep_gathered = true; }, "--keep-gathered",
          "--sequence-parallel");
  useless([](TrainingPlan& p) { p.async_tp = true; }, "--async-tp", "the axis tp");
  useless([](TrainingPlan& p) { p.both_ways = true; }, "--both-ways", "--async-tp");
  CHECK(contains(said([](TrainingPlan& p) { p.snapshots = 3, p.recompute = "revolve"; }),
                 "/no/such/text"));
}

TEST_CASE("a run is not continued on other text, and both are named") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("dp=1", written_text(folder));
  plan.stop_after = 1, plan.save = (folder.path() / "run").string();
  losses(plan);
  plan.resume = plan.save, plan.stop_after = 0;
  const std::string other = (folder.path() / "other.txt").string();
  write_file(other, read_file(plan.text) + "and more");
  plan.text = other;
  CHECK(contains(message_of([&] { losses(plan); }),
                 plan.resume + " was trained on other text than " + other));
  const std::string state = plan.resume + "/training_state.json";
  std::filesystem::remove(state);
  std::filesystem::create_symlink("training_state.json", state);
  CHECK(contains(message_of([&] { losses(plan); }), state + ": its links lead in a circle"));
}

TEST_CASE("layouts that cannot work are refused before anything is read") {
  const auto said = [](const std::string& layout, int ranks) {
    TrainingPlan plan = tiny(layout, "/no/such/text");
    plan.ranks = ranks;
    return message_of([&] { losses(plan); });
  };
  CHECK(contains(said("dp=3,tp=2", 8), "The nearest that does: tp 2 x dp 4"));
  CHECK(contains(said("pp=2", 3), "The nearest that does: dp 3"));  // pp 3 has too few blocks
  CHECK(contains(said("tp=3", 3), "4 heads are not divisible by 3"));
  CHECK(contains(said("pp=4", 4), "the model has 2 blocks"));
  TrainingPlan plan = tiny("dp=1", "/no/such/text");
  plan.recompute = "attention";
  CHECK(
      contains(message_of([&] { losses(plan); }), "Nearest: plain attention, or recomputing all"));
}

TEST_CASE("what is suggested works, and a layout is blamed for its own faults only") {
  const auto said = [](const std::string& layout, int ranks, auto change) {
    TrainingPlan plan = tiny(layout, "/no/such/text");
    if (ranks > 0) plan.ranks = ranks;
    change(plan);
    return message_of([&] { losses(plan); });
  };
  const auto bf16 = [](TrainingPlan& p) { p.bf16_gradients = true; };
  const std::string both = said("pp=3,fsdp=4", 4, bf16);
  CHECK(contains(both, "gradients are kept and summed in bf16 by ZeRO-1 and ZeRO-2"));
  CHECK_FALSE(contains(both, "No layout"));
  CHECK(contains(said("tp=2", 0, bf16), "in f32. Nearest: f32"));  // nothing for ZeRO to cut
  CHECK(contains(said("dp=2", 0, bf16), "Nearest: --zero 1 or --zero 2, or f32"));
  const auto few = [](TrainingPlan& p) { p.zero = 3, p.batch = 4, p.microbatches = 1; };
  const std::string eight = said("dp=4,fsdp=2", 0, few);
  CHECK(contains(eight, "ZeRO-3 makes the axis dp the axis fsdp"));
  CHECK_FALSE(contains(eight, "Nearest"));  // 8 ranks have no 4 sequences
  const auto zero = [](TrainingPlan& p) { p.zero = 1, p.batch = 1, p.microbatches = 1; };
  const std::string alone = said("tp=2", 0, zero);  // one sequence is none for a second rank
  CHECK(contains(alone, "Nearest: the same without --zero"));
  CHECK_FALSE(contains(alone, "dp=2"));
  const auto gathered = [](TrainingPlan& p) { p.bf16_gathered = true, p.microbatches = 8; };
  const std::string without = said("dp=4", 0, gathered);  // 2 sequences per rank
  CHECK(contains(without, "Nearest: --dtype bf16 for all weights"));
  CHECK_FALSE(contains(without, "fsdp=4"));
  const auto attention = [](TrainingPlan& p) { p.recompute = "attention"; };
  const std::string cp = said("cp=2", 0, attention);  // which plain attention cannot do
  CHECK(contains(cp, "Nearest: recomputing all"));
  CHECK_FALSE(contains(cp, "plain attention"));
  CHECK(contains(said("pp=3", 4, attention), "recomputing attention"));
  // What keeps the number of ranks is named too.
  CHECK(contains(said("tp=3", 3, [](TrainingPlan&) {}), "On 3 ranks this works: dp 3"));
}

TEST_CASE("a run is continued as it was saved, or not at all") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("fsdp=2", written_text(folder));
  plan.stop_after = 2, plan.save = (folder.path() / "run").string();
  losses(plan);
  plan.resume = plan.save, plan.save.clear(), plan.stop_after = 3;
  const auto said = [&] { return message_of([&] { losses(plan); }); };
  plan.model.dtype = DType::bf16;
  CHECK(contains(said(), "started with dtype f32, and is continued with bf16"));
  plan.model.dtype = DType::f32;

  const std::string json = plan.resume + "/training_state.json", kept = read_file(json);
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string text = kept;
    text.replace(text.find(part), part.size(), other);
    write_file(json, text);
    return said();
  };
  CHECK(
      contains(with("\"dtype\"", "\"type\""), "started with type f32, and is continued with none"));
  CHECK(contains(with("\"dtype\": \"f32\",", ""), "the saved run does not say its dtype"));
  CHECK(contains(with("\"optimizer_steps\": 2", "\"optimizer_steps\": 0"),
                 "0 optimizer steps in step 2 of 6"));
  write_file(json, kept);

  const std::string tensors = plan.resume + "/training_state.safetensors";
  const std::vector<NamedTensor> good = load_safetensors(tensors);
  const Metadata metadata = SafetensorsFile(tensors).metadata();
  const std::string name = "exp_avg.layers.0.attention.q.weight";
  const auto changed = [&](auto change) {
    std::vector<NamedTensor> all = good;
    for (NamedTensor& each : all)
      if (each.name == name) change(each);
    save_safetensors(tensors, all, metadata);
    return said();
  };
  const std::string file = "training_state.safetensors", its = file + ": '" + name + "' is ";
  CHECK(contains(changed([](NamedTensor& t) { t.name = "exp_avg.bogus"; }),
                 file + " lacks 1 tensors of this model (" + name + ") and holds others"));
  CHECK(contains(changed([](NamedTensor& t) {
                   t.value = t.value.reshape({4, 64});
                 }),
                 its + "(4, 64) f32, expected (16, 16) f32"));
  CHECK(contains(changed([](NamedTensor& t) {
                   t.value = Tensor::zeros({16, 16}, DType::i32);
                 }),
                 its + "(16, 16) i32, expected (16, 16) f32"));
  CHECK(contains(changed([](NamedTensor& t) {
                   t.value = Tensor::full({16, 16}, NAN);
                 }),
                 its + "not finite"));
  CHECK(changed([](NamedTensor&) {}) == "nothing was thrown");
}

TEST_CASE("a text of bytes needs a vocabulary of 256 bytes: any other is refused at the start") {
  for (const int64_t vocabulary : {255, 257, 50257}) {
    TrainingPlan plan = tiny("", "/no/such/text");
    plan.model.vocabulary = vocabulary;
    plan.load = "/some/model";
    const std::string said = message_of([&] { losses(plan); });
    CHECK(contains(said, fmt::format("the model has a vocabulary of {} tokens", vocabulary)));
    CHECK(contains(said, "the text is read as bytes, 0 to 255"));
    CHECK(contains(said, "/some/model"));
    CHECK(contains(said, "there is no tokenizer.json in its folder"));
  }
}

TEST_CASE("master weights are the loaded file's numbers, not those rounded to bf16") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.steps = 1, plan.save = (folder.path() / "f32").string();
  losses(plan);
  plan.load = plan.save;
  plan.model.dtype = DType::bf16, plan.learning_rate = 0;
  plan.save = (folder.path() / "bf16").string();
  const std::vector<NamedTensor> file = load_safetensors(plan.load + "/model.safetensors");
  const auto value_of = [](const std::vector<NamedTensor>& all, const std::string& name) {
    for (const NamedTensor& each : all)
      if (each.name == name) return each.value;
    FAIL(name);
    return Tensor();
  };
  const auto check = [&](const char* layout, int zero) {
    CAPTURE(std::string(layout));
    CAPTURE(zero);
    plan.layout = parse_mesh(layout), plan.ranks = static_cast<int>(plan.layout->ranks());
    plan.zero = zero;
    losses(plan);
    const std::vector<NamedTensor> state =
        load_safetensors(plan.save + "/training_state.safetensors");
    CHECK(value_of(state, "master.embedding.token.weight").values() ==
          value_of(file, "model.embed_tokens.weight").values());
    CHECK(value_of(state, "master.head.weight").values() ==
          value_of(file, "lm_head.weight").values());
    CHECK(value_of(state, "master.layers.1.mlp.down.weight").values() ==
          value_of(file, "model.layers.1.mlp.down_proj.weight").values());
  };
  check("", 0);
  check("dp=2", 1);
  check("tp=2,pp=2,fsdp=2", 0);
}

TEST_CASE("--graph repeats one step on one GPU: what cannot be so is refused with its reason") {
  TrainingPlan plan = tiny("", "");
  const auto refused = [&] { return message_of([&] { check_plan(plan); }); };
  plan.graph = true;
  CHECK(contains(refused(), "--graph records the steps of a GPU; add --device cuda"));
  plan.device = Device::cuda;
  CHECK_FALSE(contains(refused(), "--graph"));
  plan.ranks = 2;
  CHECK(contains(refused(), "--graph is for one GPU that computes alone"));
  plan.ranks = 1, plan.workers = 2;
  CHECK(contains(refused(), "--graph is for one GPU that computes alone"));
  plan.workers = 0, plan.model.dropout = 0.1;
  CHECK(contains(refused(), "dropout draws other masks in each step"));
  plan.model.dropout = 0, plan.pack = true;
  CHECK(contains(refused(), "packed documents end elsewhere in each step"));
}

TEST_CASE("SGD, with and without momentum: one rank's losses, and what it holds and saves") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  const std::vector<double> adamw = losses(plan);
  plan.optimizer = "sgd", plan.learning_rate = 0.1, plan.warmup = 0;
  const int64_t held = 4 * parameters(plan.model);
  for (const double momentum : {0.0, 0.9}) {
    CAPTURE(momentum);
    plan.momentum = momentum, plan.resume.clear();
    plan.layout = MeshShape{}, plan.ranks = 1;
    const TrainingFigures alone = run_training(plan, [](const StepFigures&) {});
    CHECK(alone.ranks[0].peak_by_kind[static_cast<size_t>(MemoryKind::optimizer)] ==
          (momentum > 0 ? held : 0));
    CHECK(alone.loss[0] == doctest::Approx(adamw[0]).epsilon(1e-6));
    CHECK(alone.loss[5] != adamw[5]);
    plan.layout = MeshShape{.tp = 2, .dp_shard = 2}, plan.ranks = 4;
    plan.save = (folder.path() / fmt::format("{}", momentum)).string(), plan.stop_after = 3;
    check_near(losses(plan), alone.loss, 0);
    plan.resume = plan.save, plan.save.clear(), plan.stop_after = 0;
    plan.layout = MeshShape{.pp = 2}, plan.ranks = 2;
    check_near(losses(plan), alone.loss, 3);
    plan.momentum = 0.5;
    CHECK(contains(message_of([&] { losses(plan); }), "and is continued with 0.5"));
  }
  plan.optimizer = "adamw", plan.resume.clear();
  const auto said = [&] { return message_of([&] { losses(plan); }); };
  CHECK(contains(said(), "--momentum changes nothing here: it is for --optimizer sgd"));
  plan.optimizer = "sgd", plan.momentum = 1;
  CHECK(contains(said(), "--momentum is 1; from 1 on"));
  plan.optimizer = "lion";
  CHECK(contains(said(), "the optimizer is 'lion'; there are adamw and sgd"));
}

TEST_CASE("ranks that were not started alike are told in what") {
  const auto said = [](const std::function<Facts(int rank)>& facts) {
    return message_of([&] {
      run_ranks(3,
                [&](Communicator& world) { expect_same_everywhere(facts(world.rank()), world); });
    });
  };
  CHECK(said([](int) { return Facts{{"--lr", "1"}, {"--seed", ""}}; }) == "nothing was thrown");
  CHECK(contains(said([](int rank) {
                   return Facts{{"--lr", "1"}, {"--seed", rank == 2 ? "a longer one" : "7"}};
                 }),
                 "--seed is 7 on rank 0, and a longer one on rank 2. Start all with the same"));
  CHECK(contains(said([](int rank) {
                   Facts facts = {{"--lr", "1"}, {"--seed", "7"}};
                   if (rank == 1) facts.insert(facts.begin(), {"--new", "1"});
                   return facts;
                 }),
                 "--new is left out on rank 0, and 1 on rank 1"));
  const std::vector<NamedTensor> some = {{"a", Tensor::zeros({3})}};
  CHECK(digest(some) == digest(some));
  CHECK(digest(some) != digest({{"b", Tensor::zeros({3})}}));
  CHECK(digest(some) != digest({{"a", Tensor::full({3}, 1)}}));
  CHECK(digest("abcdefgh") != digest("abcdefghi"));
  CHECK(digest(std::string("a\0", 2)) != digest("a"));
  CHECK(program_digest() == program_digest());
}

TEST_CASE("256 bytes on tp=3: padded, one rank's losses, and files without padding") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.model = llama_config(2, 12, 24, 6, 3, 8, 256);
  plan.steps = 4;
  for (const bool tied : {false, true}) {
    CAPTURE(tied);
    plan.model.tied = tied, plan.layout = MeshShape{}, plan.ranks = 1, plan.resume.clear();
    plan.load.clear(), plan.zero = 0;
    const std::vector<double> all = losses(plan);
    for (const char* layout : {"tp=3", "tp=3,pp=2", "tp=3,fsdp=2", "tp=3,dp=2"}) {
      CAPTURE(std::string(layout));
      plan.layout = parse_mesh(layout), plan.ranks = static_cast<int>(plan.layout->ranks());
      plan.zero = plan.layout->dp_replicate > 1 ? 1 : 0;
      plan.save = (folder.path() / layout).string(), plan.stop_after = 2, plan.resume.clear();
      check_near(losses(plan), all, 0);
      for (const NamedTensor& each : load_safetensors(plan.save + "/model.safetensors"))
        if (each.name == "model.embed_tokens.weight") CHECK(each.value.shape() == Shape{256, 12});
      plan.resume = plan.save, plan.save.clear(), plan.stop_after = 0;
      check_near(losses(plan), all, 2);  // on the same layout
      plan.layout = MeshShape{}, plan.ranks = 1, plan.zero = 0;
      check_near(losses(plan), all, 2);  // and on one rank
    }
  }
}

TEST_CASE("two runs do not save to one folder") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("dp=2", written_text(folder));
  plan.steps = 1, plan.save = (folder.path() / "run").string();
  bool busy = false;
  run_training(plan, [&](const StepFigures&) { busy = FolderLock(plan.save).busy(); });
  CHECK(busy);
  const FolderLock other(plan.save);
  CHECK_FALSE(other.busy());
  CHECK(contains(message_of([&] { losses(plan); }),
                 fmt::format("{}: another run (process {}) is saving here; give another folder",
                             plan.save, other.holder())));
}

TEST_CASE("a run with nothing left to do is saved where it is to be saved") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("dp=2", written_text(folder));
  plan.steps = 2, plan.save = (folder.path() / "first").string();
  losses(plan);
  plan.resume = plan.save, plan.save = (folder.path() / "second").string();
  CHECK(losses(plan).empty());
  for (const char* name : {"/config.json", "/model.safetensors", "/training_state.json",
                           "/training_state.safetensors"})
    CHECK(read_file(plan.save + name) == read_file(plan.resume + name));
}

TEST_CASE("--save-batches takes a file, and says so of a folder") {
  const TemporaryFolder folder;
  TrainingPlan plan = tiny("", written_text(folder));
  plan.save_batches = folder.path().string();
  CHECK(
      contains(message_of([&] { losses(plan); }), "is a folder: give the path of a file to write"));
}

namespace {

// A folder with a model of 640 tokens and Llama 3's kind of tokenizer, and a plan that loads it.
TrainingPlan with_tokenizer(const TemporaryFolder& folder) {
  TrainingPlan plan = tiny("", written_text(folder));
  plan.model.vocabulary = 640;
  plan.load = (folder / "theirs").string();
  const Transformer model(plan.model);
  save_checkpoint(plan.load, plan.model, named_values(parameters(model.stack())), nullptr,
                  {{"tokenizer.json", text_of("tests/model/golden/tokenizers/llama3.json")}});
  return plan;
}

#define NEEDS_PCRE2 \
  if (!has_split_regex()) YOTTA_NOT_RUN("PCRE2 is not installed (apt-get install libpcre2-dev)")

}  // namespace

TEST_CASE(
    "a loaded model is trained and sampled in its own tokens, saved with them and continued") {
  NEEDS_PCRE2;
  const TemporaryFolder folder;
  TrainingPlan plan = with_tokenizer(folder);
  const std::string json = read_file(plan.load + "/tokenizer.json");
  plan.save_batches = (folder / "batches").string();
  plan.sample_tokens = 12;
  const TrainingFigures all = run_training(plan, [](const StepFigures&) {});
  const Tokenizer tokenizer = parse_tokenizer(json, "llama3", 640);
  const std::string text = read_file(plan.text);
  CHECK(all.text_bytes == std::ssize(text));
  CHECK(all.text_tokens < all.text_bytes / 2);
  CHECK(all.tokenizer == plan.load + "/tokenizer.json");
  CHECK(all.text_begins_with == "<|begin_of_text|>");
  CHECK(all.loss.front() > 5.5);  // about log 640
  CHECK_FALSE(all.sample_after.empty());

  std::vector<int32_t> tokens = tokenizer.first();
  const TextSplit split = split_text(text, plan.model.context);
  for (const int32_t each : tokenizer.encode(split.train)) tokens.push_back(each);
  const Batches batches(tokens, plan.model.context, plan.model.seed);
  const Tensor inputs = load_safetensors(plan.save_batches)[0].value;
  for (int64_t step = 0; step < plan.steps; ++step)
    CHECK(inputs.rows(step, step + 1).values() ==
          batches.draw(step, 0, plan.batch).inputs.values());

  plan.save_batches.clear();
  plan.stop_after = 2, plan.save = (folder / "ours").string();
  check_near(losses(plan), all.loss, 0);
  CHECK(read_file(plan.save + "/tokenizer.json") == json);
  plan.stop_after = 0, plan.resume = plan.save, plan.load.clear(), plan.save.clear();
  plan.layout = parse_mesh("tp=2"), plan.ranks = 2;
  const TrainingFigures rest = run_training(plan, [](const StepFigures&) {});
  check_near(rest.loss, all.loss, 2);
  CHECK(rest.text_tokens == all.text_tokens);

  std::string other = json;  // the same run needs the same tokens
  other.replace(other.find("<|x|>"), 5, "<|y|>");
  write_file(plan.resume + "/tokenizer.json", other);
  CHECK(contains(message_of([&] { losses(plan); }), "this run was started with tokenizer "));
}

TEST_CASE(
    "a tokenizer that does not fit the model, the text or the folder is refused at the start") {
  NEEDS_PCRE2;
  const TemporaryFolder folder;
  const TrainingPlan plan = with_tokenizer(folder);
  const auto said = [&](auto change) {
    TrainingPlan other = plan;
    change(other);
    return message_of([&] { losses(other); });
  };
  const std::string file = plan.load + "/tokenizer.json";
  CHECK(
      contains(said([](TrainingPlan& p) { p.model.vocabulary = 500; }), file + ": model.vocab['"));
  CHECK(contains(said([](TrainingPlan& p) { p.prompt = "a\xFF"; }),
                 "--prompt is not UTF-8 (byte 1 is 0xff)"));
  const std::string few = (folder / "few.txt").string();
  write_file(few, "the 1th word of a text for a test, and the rest of the text is not long");
  CHECK(contains(said([&](TrainingPlan& p) { p.text = few, p.model.context = 6; }), "tokens, "));
  CHECK(contains(said([](TrainingPlan& p) {  // tokens of one model beside the weights of another
                   p.save = p.load, p.load.clear(), p.model.vocabulary = 256;
                 }),
                 "holds a tokenizer.json, and the tokens of the model that is to be saved there"));
  write_file(file, "{}");
  CHECK(contains(said([](TrainingPlan&) {}), file + ": model is missing or null"));
}
