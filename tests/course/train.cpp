// The options of `train`: what is refused, and in which words; and its help.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "runner/grade.hpp"
#include "support/from_ctest.hpp"
#include "support/longest_wait.hpp"
#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/project_file.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/comm/sockets/run_processes.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/checkpoint.hpp"
#include "yotta/model/files/split_regex.hpp"
#include "yotta/nn/transformer.hpp"

using namespace yotta_test;
using Words = std::vector<std::string>;

namespace {

// Without the course's folders in its way: a tiny model, one step.
runner::Ending train(Words more) {
  Words words = {from_ctest("YOTTA_TRAIN")};
  for (const Words& usual : {Words{"--steps", "1"}, Words{"--batch", "4"}})
    if (std::find(more.begin(), more.end(), usual[0]) == more.end())
      words.insert(words.end(), usual.begin(), usual.end());
  words.insert(words.end(), more.begin(), more.end());
  return runner::run_limited(words, longest_wait);
}
const Words tiny = {"--layers", "1", "--width", "16", "--heads", "2", "--context", "16"};

void check_refused(const Words& options, const std::string& words) {
  const runner::Ending ending = train(options);
  CAPTURE(options.front());
  CAPTURE(ending.output);
  CHECK_FALSE(ending.well());
  CHECK_FALSE(ending.too_late);
  CHECK(ending.signal == 0);
  CHECK(contains(ending.output, words));
  CHECK_FALSE(contains(ending.output, ".cpp:"));  // a place in our own sources
}

}  // namespace

// tests/course/options.cpp has what the options of all programs refuse.
TEST_CASE("numbers that no model has, and options that say nothing, are refused") {
  for (const char* option : {"--kv-heads", "--feed-forward"}) check_refused({option, "-1"}, "-1");
  check_refused({"--seed", "-1"}, "is not from 0 to 2^64 - 1");
  for (const char* option : {"--json", "--text", "--layout", "--save", "--load", "--resume",
                             "--save-batches", "--cluster", "--timeline"})
    check_refused({option, ""}, "it is empty; leave the option out");
  check_refused({"--layout", "tp="}, "tp=");
  check_refused({"--sample", "1099511627776"}, "1048576");
  Words words = tiny;
  words.insert(words.end(), {"--steps", "2e0", "--lr", "1e-3"});
  const runner::Ending ending = train(words);
  CAPTURE(ending.output);
  CHECK(ending.well());
  CHECK(contains(ending.output, " in 2 steps"));
}

TEST_CASE("a folder without config.json: it is called missing") {
  const TemporaryFolder folder;
  check_refused({"--load", folder.path().string()}, "config.json is missing");
  check_refused({"--load", "/no/such/folder"}, "there is no such folder either");
}

TEST_CASE("sizes that no machine has are refused at once, and not by the kernel") {
  check_refused({"--feed-forward", "1099511627776"}, "feed-forward is 1099511627776");
  check_refused({"--layers", "1099511627776"}, "a model of 1099511627776 layers");
  check_refused({"--width", "1048576"}, "this run needs");
  check_refused({"--batch", "1099511627776"}, "this run needs");
  check_refused({"--microbatches", "1099511627776"}, "Nearest: 4");
  check_refused({"--layout", "tp=999999,pp=999999,dp=999999,fsdp=999999"}, "makes more than");
}

TEST_CASE("what cannot work is refused before a process is started for each rank") {
  check_refused({"--comm", "processes", "--ranks", "100"}, "does not give each of 100");
  check_refused({"--comm", "processes", "--layout", "dp=999999"}, "does not give each of 999999");
  check_refused({"--comm", "processes", "--layout", "dp=999999", "--batch", "999999"},
                "this program has from 1 to 4096 ranks, not 999999");
}

TEST_CASE("beside --load and --resume the folder says what the model is") {
  const TemporaryFolder folder;
  const std::string model = (folder / "model").string();
  Words words = tiny;
  words.insert(words.end(), {"--save", model});
  const runner::Ending saved = train(words);
  CAPTURE(saved.output);
  REQUIRE(saved.well());
  for (const char* from : {"--load", "--resume"}) {
    check_refused({"--layers", "8", from, model},
                  "--layers 8, but the model in " + model + " has 1; leave --layers out");
    check_refused({"--width", "256", from, model}, "has 16; leave --width out");
    check_refused({"--dialect", "llama", from, model}, "has gpt2; leave --dialect out");
    check_refused({"--untied", from, model}, "leave --untied out");
    CHECK(train({"--tied", from, model}).well());
    words = tiny;
    words.insert(words.end(), {from, model});
    CHECK(train(words).well());  // the same sizes
    CHECK(train({from, model}).well());
  }
}

TEST_CASE("--tied: Llama's dialect with one table; not beside --untied") {
  const TemporaryFolder folder;
  const std::string model = (folder / "model").string();
  Words words = tiny;
  words.insert(words.end(), {"--dialect", "llama", "--tied", "--save", model});
  CHECK(train(words).well());
  CHECK(runner::read_text(model + "/config.json").find("\"tie_word_embeddings\": true") !=
        std::string::npos);
  check_refused({"--untied", "--load", model}, "leave --untied out");
  check_refused({"--tied", "--untied"}, "say the opposite of each other");
}

TEST_CASE("a loaded model is trained on shorter sequences; rope's on longer ones too") {
  const TemporaryFolder folder;
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const std::string dialect : {"gpt2", "llama"}) {
    CAPTURE(dialect);
    const std::string model = (folder / dialect).string(), saved = model + "_again";
    REQUIRE(train(with(tiny, {"--dialect", dialect, "--save", model})).well());
    const runner::Ending shorter =
        train({"--load", model, "--context", "6", "--sample", "8", "--save", saved});
    CAPTURE(shorter.output);
    CHECK(shorter.well());
    CHECK(runner::read_text(saved + "/config.json") == runner::read_text(model + "/config.json"));
    if (dialect == "llama") {
      CHECK(train({"--load", model, "--context", "40"}).well());
      continue;
    }
    CHECK(train({"--load", model, "--context", "6", "--layout", "cp=3"}).well());  // 16: no chunks
    check_refused({"--load", model, "--context", "17"},
                  "learned positions for 16 tokens; give --context from 1 to 16");
    CHECK(train({"--resume", saved}).well());  // goes on with its own length
    check_refused({"--resume", saved, "--context", "8"}, "has 6; leave --context out");
  }
}

TEST_CASE("--optimizer: adamw or sgd") {
  Words words = tiny;
  words.insert(words.end(), {"--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.1"});
  const runner::Ending ending = train(words);
  CAPTURE(ending.output);
  CHECK(ending.well());
  check_refused({"--momentum", "0.9"}, "it is for --optimizer sgd");
}

TEST_CASE("a plan for a GPU is checked as such before the GPU is opened") {
  check_refused({"--device", "cuda", "--graph", "--dropout", "0.1"}, "take --dropout 0");
}

TEST_CASE("--device cuda --graph has the losses of --device cuda") {
  const TemporaryFolder folder;
  const std::string json = (folder / "json").string();
  std::vector<nlohmann::json> losses;
  for (const Words& how : {Words{"--device", "cuda"}, Words{"--device", "cuda", "--graph"}}) {
    Words words = tiny;
    words.insert(words.end(), {"--steps", "5", "--json", json});
    words.insert(words.end(), how.begin(), how.end());
    const runner::Ending ending = train(words);
    for (const char* why_not : {"built without CUDA", "no NVIDIA GPU with a driver"})
      if (contains(ending.output, why_not)) YOTTA_NOT_RUN(std::string("train says: ") + why_not);
    CAPTURE(ending.output);
    REQUIRE(ending.well());
    losses.push_back(nlohmann::json::parse(runner::read_text(json))["loss"]);
  }
  CHECK(losses[0].size() == 5);
  CHECK(losses[0] == losses[1]);
}

TEST_CASE("processes that are started with other options, text or weights are told, not trained") {
  const TemporaryFolder folder;
  // Two ranks, which differ in their last options: how they end, and what is said.
  const auto run = [&](const std::string& zero, const std::string& one) {
    const std::string train =
        from_ctest("YOTTA_TRAIN") +
        " --comm processes --steps 1 --batch 4 --layers 1 --width 16 --heads 2 ";
    yotta::LaunchResult result;
    const std::string said = stderr_of([&] {
      result = yotta::run_processes(
          2, {"/bin/sh", "-c",
              fmt::format("test $RANK = 0 && exec {0} {1}; exec {0} {2}", train, zero, one)});
    });
    return std::pair(result.status == 0, said + result.text);
  };
  const auto check = [&](const std::string& zero, const std::string& one, const char* words) {
    const auto [well, said] = run(zero, one);
    CAPTURE(said);
    CHECK_FALSE(well);
    CHECK(contains(said, words));
  };
  const std::string shorter = "--context 16 ", lesson = std::string(YOTTA_SOURCE_DIR) + "/LICENSE";
  CHECK(run(shorter, shorter).first);
  check(shorter, shorter + "--lr 0.1 --seed 3", "--lr is 0.001 on rank 0, and 0.1 on rank 1");
  check(shorter, shorter + "--text " + lesson, "--text is ");
  check(shorter + "--optimizer sgd", shorter, "--optimizer is sgd on rank 0, and adamw on rank 1");
  check(shorter, shorter + "--weight-decay 0.2", "--weight-decay is 0.1 on rank 0");
  check(shorter, shorter + "--prompt x", "--prompt is ");
  for (const char* seed : {"1", "2"}) {
    Words words = tiny;
    words.insert(words.end(), {"--seed", seed, "--save", (folder / seed).string()});
    REQUIRE(train(words).well());
  }
  const std::string load = "--load " + (folder / "1").string();
  check(shorter, load, "--load is left out on rank 0, and given on rank 1");
  check(load, "--load " + (folder / "2").string(),
        "what the folder of --load or --resume holds is ");
  if (!yotta::has_split_regex())
    YOTTA_NOT_RUN("PCRE2 is not installed (apt-get install libpcre2-dev)");
  std::string json = text_of("tests/model/golden/tokenizers/llama3.json");
  for (const char* folder_name : {"3", "4"}) {
    const yotta::TransformerConfig config = yotta::gpt2_config(1, 16, 2, 16, 640);
    const yotta::Transformer made(config);
    yotta::save_checkpoint((folder / folder_name).string(), config,
                           yotta::named_values(yotta::parameters(made.stack())), nullptr,
                           {{"tokenizer.json", json}});
    json += "\n";
  }
  check("--load " + (folder / "3").string(), "--load " + (folder / "4").string(),
        "the model's tokenizer.json is ");
}

namespace {

// A program that runs beside the test, and its output in a file.
class Started {
 public:
  Started(Words words, const std::string& output, const Words& settings = {}) {
    std::vector<char*> arguments, environment;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    Words all = settings;
    for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
    for (std::string& each : all) environment.push_back(each.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    REQUIRE(posix_spawn(&process_, arguments[0], &actions, nullptr, arguments.data(),
                        environment.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  pid_t process() const { return process_; }
  // Its exit status; -1 if a signal has ended it.
  int wait() const {
    int status = 0;
    REQUIRE(waitpid(process_, &status, 0) == process_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool has_ended() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == process_;
  }

 private:
  pid_t process_ = 0;
};

// The processes that a process has started.
std::vector<pid_t> children(pid_t process) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", process));
  std::vector<pid_t> found;
  for (pid_t each = 0; file >> each;) found.push_back(each);
  return found;
}

// Until a run has made a file, or has ended.
void await_file(const Started& run, const std::string& file) {
  const auto here = [&] { return std::filesystem::exists(file) || run.has_ended(); };
  for (int tries = 0; tries < 200 * longest_wait && !here(); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}
// Until it has been saved there.
void await_saved(const Started& run, const std::string& folder) {
  await_file(run, folder + "/training_state.json");
}

double validation_loss(const std::string& json) {
  return nlohmann::json::parse(yotta::read_file(json))["validation_loss"].get<double>();
}

// A run that a signal stops after its first save, and the same command once more: the loss of a run
// that nobody stopped. `words`: of the ranks.
void check_requeued(const Words& words, int signal, bool to_ranks, const std::string& name) {
  const TemporaryFolder folder;
  const std::string kept = (folder / "kept").string(), out = (folder / "out").string();
  const std::string once = (folder / "once.json").string(),
                    twice = (folder / "twice.json").string();
  const std::string text = (folder / "text").string();
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += fmt::format("line {} of text\n", i * i);
  yotta::write_file(text, lines);
  Words command = {
      from_ctest("YOTTA_TRAIN"), "--steps", "500", "--batch", "4", "--warmup", "2", "--text", text};
  command.insert(command.end(), tiny.begin(), tiny.end());
  command.insert(command.end(), words.begin(), words.end());
  const auto with = [&](const Words& more) {
    Words all = command;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const Started first(with({"--requeue", kept, "--save-every", "1"}), out);
  await_saved(first, kept);
  for (const pid_t each : to_ranks ? children(first.process()) : std::vector{first.process()})
    kill(each, signal);
  CHECK(first.wait() == 0);
  CAPTURE(yotta::read_file(out));
  CHECK(contains(yotta::read_file(out), "stopped by " + name + " after step "));
  CHECK(yotta::load_training_state(kept).step < 500);
  for (const Words& more : {Words{"--requeue", kept, "--json", twice}, Words{"--json", once}}) {
    const runner::Ending ending = runner::run_limited(with(more), longest_wait);
    CAPTURE(ending.output);
    CHECK_FALSE(ending.too_late);
    CHECK(ending.well());
  }
  CHECK(validation_loss(twice) == validation_loss(once));
}

}  // namespace

TEST_CASE("a first step that takes long: what is computed is said before it ends") {
  Words words = tiny;
  words[7] = "60000";  // its --context
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  Words command = {from_ctest("YOTTA_TRAIN"), "--steps", "1", "--batch", "1"};
  command.insert(command.end(), words.begin(), words.end());
  const Started run(command, out);
  const std::string expected = "then computes a step of 1 sequence of 60000 tokens";
  for (int tries = 0; tries < 200 * longest_wait; ++tries) {
    if (contains(yotta::read_file(out), expected)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string said = yotta::read_file(out);
  kill(run.process(), SIGKILL);
  run.wait();
  CHECK(contains(said, expected));
  CHECK_FALSE(contains(said, "1/1"));
}

TEST_CASE("--requeue: a run that is stopped by a signal goes on, to the same loss") {
  check_requeued({"--load-ahead", "2", "--ema", "0.9", "--ranks", "2"}, SIGTERM, false, "SIGTERM");
}

TEST_CASE("--requeue: the launcher passes a signal on to the processes that it has started") {
  check_requeued({"--ranks", "2", "--comm", "processes"}, SIGTERM, false, "SIGTERM");
}

TEST_CASE("--requeue: a run of DiLoCo goes on from what each worker held") {
  check_requeued({"--diloco", "k=2,inner=7,bits=4", "--ema", "0.9"}, SIGUSR1, false, "SIGUSR1");
}

TEST_CASE("--requeue: workers of DiLoCo that are processes go on from what each held") {
  check_requeued({"--diloco", "k=2,inner=7", "--comm", "processes"}, SIGUSR1, true, "SIGUSR1");
}

TEST_CASE(
    "--requeue: a signal that comes before the first step counts; after the last it is over") {
  const TemporaryFolder folder;
  const std::string out = (folder / "out").string();
  const auto stopped_at_once = [&](const char* steps) {
    Words command = {from_ctest("YOTTA_TRAIN"), "--steps", steps, "--batch", "4", "--requeue",
                     (folder / steps).string()};
    command.insert(command.end(), tiny.begin(), tiny.end());
    sigset_t held, before;  // in the run too: the signal waits until it is taken
    sigemptyset(&held);
    sigaddset(&held, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    const Started run(command, out);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    kill(run.process(), SIGTERM);
    CHECK(run.wait() == 0);
    return yotta::read_file(out);
  };
  CHECK(contains(stopped_at_once("500"), "stopped by SIGTERM after step 1 of 500: the same"));
  const std::string over = stopped_at_once("1");
  CHECK(contains(over, "SIGTERM came in the last step: the run has ended, nothing is left to do"));
  CHECK_FALSE(contains(over, "goes on from"));
}

namespace {

// Does the process hold SIGTERM back?
bool holds_signals(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigBlk:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
  return false;
}

// `train` whose large program takes as long to load as the test wants.
class SlowToLoad {
 public:
  SlowToLoad() {
    const std::string usual = from_ctest("YOTTA_TRAIN"), pipe = (folder_ / "loads").string(),
                      large = (folder_ / "train_program").string();
    std::filesystem::copy_file(usual, train());
    yotta::write_file(
        large, fmt::format("#!/bin/sh\nread word <'{}'\nexec '{}_program' \"$@\"\n", pipe, usual));
    std::filesystem::permissions(large, std::filesystem::perms::owner_all);
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    pipe_ = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~SlowToLoad() { close(pipe_); }
  SlowToLoad(const SlowToLoad&) = delete;
  SlowToLoad& operator=(const SlowToLoad&) = delete;
  std::string train() const { return (folder_ / "train").string(); }
  // One run's is loaded now.
  void load() const { CHECK(write(pipe_, "now\n", 4) == 4); }

 private:
  TemporaryFolder folder_;
  int pipe_ = -1;
};

}  // namespace

TEST_CASE(
    "--requeue: a signal that comes while the program is being loaded waits; else it ends it") {
  const TemporaryFolder folder;
  const SlowToLoad slow;
  const std::string out = (folder / "out").string();
  Words command = {slow.train(), "--steps", "500", "--batch", "4"};
  command.insert(command.end(), tiny.begin(), tiny.end());
  const Started other(command, out);
  kill(other.process(), SIGTERM);
  CHECK(other.wait() == -1);
  for (const std::string how : {"--requeue=", "--requeue"}) {
    const std::string kept = (folder / how).string();
    Words with = command;
    if (how == "--requeue")
      with.insert(with.end(), {how, kept});
    else
      with.push_back(how + kept);
    const Started run(with, out);
    REQUIRE(comes([&] { return run.has_ended() || holds_signals(run.process()); }));
    kill(run.process(), SIGTERM);
    slow.load();
    CHECK(run.wait() == 0);
    CHECK(contains(yotta::read_file(out), "stopped by SIGTERM after step 1 of 500"));
    std::filesystem::remove(out);
  }
}

TEST_CASE("--live-page: a run that is stopped says so on its page, which reloads no more") {
  const TemporaryFolder folder;
  for (const char* comm : {"threads", "processes"})
    for (const auto& [signal, name] : {std::pair(SIGINT, "Ctrl-C"), {SIGTERM, "Terminated"}}) {
      CAPTURE(comm);
      CAPTURE(name);
      const std::string page = (folder / (std::string(comm) + name)).string();
      Words command = {from_ctest("YOTTA_TRAIN"),
                       "--steps",
                       "5000",
                       "--ranks",
                       "2",
                       "--comm",
                       comm,
                       "--tolerate",
                       "1",
                       "--live-page",
                       page};
      command.insert(command.end(), tiny.begin(), tiny.end());
      const Started run(command, (folder / "out").string());
      await_file(run, page);
      CHECK(contains(yotta::read_file(page), "http-equiv=\"refresh\""));
      kill(run.process(), signal);
      CHECK(run.wait() != 0);
      CHECK(contains(yotta::read_file(page), std::string("the run was stopped by ") + name));
      CHECK_FALSE(contains(yotta::read_file(page), "refresh"));
    }
}

TEST_CASE("--absent: a worker is away for a round, and what that has cost is said") {
  Words words = {"--diloco", "k=2,inner=5", "--absent", "worker=1,round=2",
                 "--steps",  "20",          "--batch",  "4"};
  words.insert(words.end(), tiny.begin(), tiny.end());
  const runner::Ending ending = train(words);
  CAPTURE(ending.output);
  CHECK(ending.well());
  CHECK(contains(ending.output, "worker 1 was away in round 2, steps 6 to 10: 10 of 80 sequences"));
  check_refused({"--absent", "worker=1,round=1"}, "add --diloco k=4");
  check_refused({"--diloco", "k=2", "--absent", "worker=1,worker=1"}, "has worker twice");
  check_refused({"--diloco", "k=2,inner=1", "--absent", "round=1"}, "Give --steps 2 or more");
}

TEST_CASE("--requeue: ranks that are processes are stopped by a signal to each, as srun sends it") {
  check_requeued({"--ranks", "2", "--comm", "processes"}, SIGUSR1, true, "SIGUSR1");
}

TEST_CASE("--requeue: under Slurm the job is put back into the queue, once, unless it has ended") {
  const TemporaryFolder folder;
  const std::string kept = (folder / "kept").string(), out = (folder / "out").string();
  const std::string asked = (folder / "asked").string();
  yotta::write_file((folder / "scontrol").string(), "#!/bin/sh\necho \"$@\" >> " + asked + "\n");
  std::filesystem::permissions(folder / "scontrol", std::filesystem::perms::owner_all);
  Words command = {from_ctest("YOTTA_TRAIN"),
                   "--steps",
                   "2000",
                   "--batch",
                   "4",
                   "--requeue",
                   kept,
                   "--save-every",
                   "1"};
  command.insert(command.end(), tiny.begin(), tiny.end());
  const Started first(command, out,
                      {"SLURM_JOB_ID=17", fmt::format("PATH={}", (folder / "").string())});
  await_saved(first, kept);
  kill(first.process(), SIGUSR1);
  CHECK(first.wait() == 0);
  CHECK(contains(yotta::read_file(out), "Slurm was asked to start job 17 again"));
  CHECK(yotta::read_file(asked) == "requeue 17\n");
}

TEST_CASE("--requeue saves and resumes by itself; --ema and --link say what they need") {
  check_refused({"--requeue", "a", "--save", "b"}, "saves and resumes by itself; leave out --save");
  check_refused({"--ema", "1"}, "from 1 on the average never moves");
  check_refused({"--ema", "nan"}, "--ema is nan");
  check_refused({"--link", "20Mbit/s"}, "--link slows down --comm processes alone");
  check_refused({"--link", "fast", "--comm", "processes", "--ranks", "2"}, "'fast' is not a link");
}

TEST_CASE("a prompt is printed as printable text; --zero's help says what it cuts") {
  Words words = tiny;
  words.insert(words.end(), {"--prompt", "a\033[31m", "--sample", "1"});
  const runner::Ending ending = train(words);
  CAPTURE(ending.output);
  CHECK(ending.well());
  CHECK(contains(ending.output, "before: a\xC2\xB7[31m"));
  CHECK_FALSE(contains(train({"--help"}).output, "ranks of dp and cp"));
}

TEST_CASE("a run that diverges keeps the last good weights and its figures") {
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string(), json = (folder / "json").string();
  for (const char* layout : {"dp=1", "tp=2,fsdp=2"}) {
    const runner::Ending ending =
        train({"--layers", "1",       "--width",  "16",      "--heads", "2",           "--context",
               "16",       "--batch", "4",        "--steps", "20",      "--optimizer", "sgd",
               "--lr",     "1e30",    "--warmup", "0",       "--clip",  "0",           "--layout",
               layout,     "--save",  saved,      "--json",  json});
    CAPTURE(ending.output);
    CHECK_FALSE(ending.well());
    CHECK(contains(ending.output, "a number is not finite"));
    const auto figures = nlohmann::json::parse(runner::read_text(json));
    const auto good = figures["loss"].size();
    CHECK(contains(figures["diverged"].get<std::string>(), fmt::format("step {}: ", good)));
    CHECK(contains(ending.output, fmt::format("the weights of step {}, the last good ones", good)));
    CHECK(yotta::load_training_state(saved).step == static_cast<int64_t>(good));
  }
  check_refused({"--resume", saved, "--optimizer", "adamw"},
                "was trained with --optimizer sgd, not adamw; resume with the same");
}

TEST_CASE("--load with a tokenizer.json: trained, sampled, saved and loaded again in its tokens") {
  if (!yotta::has_split_regex())
    YOTTA_NOT_RUN("PCRE2 is not installed (apt-get install libpcre2-dev)");
  const TemporaryFolder folder;
  const std::string model = (folder / "model").string(), saved = (folder / "saved").string();
  const std::string text = (folder / "text.txt").string();
  const std::string json = text_of("tests/model/golden/tokenizers/llama3.json");
  const yotta::TransformerConfig config = yotta::gpt2_config(1, 16, 2, 16, 640);
  const yotta::Transformer made(config);
  const auto weights = yotta::named_values(yotta::parameters(made.stack()));
  yotta::save_checkpoint(model, config, weights);
  check_refused({"--load", model}, "there is no tokenizer.json in its folder");
  yotta::save_checkpoint(model, config, weights, nullptr, {{"tokenizer.json", json}});
  yotta::write_file(text, text_of("CONTRIBUTING.md"));

  const auto run = [&](const std::string& from, const std::string& to) {
    return train({"--load", from, "--text", text, "--steps", "2", "--sample", "20", "--prompt",
                  "It's 12345 ", "--save", to});
  };
  const runner::Ending first = run(model, saved);
  CAPTURE(first.output);
  CHECK(first.well());
  CHECK(contains(first.output, " tokens by " + model + "/tokenizer.json, "));
  CHECK(contains(first.output, "bytes per token; <|begin_of_text|> stands before text and prompt"));
  CHECK(contains(first.output, "after:  It's 12345 "));
  CHECK(runner::read_text(saved + "/tokenizer.json") == json);
  const runner::Ending again = run(saved, saved);
  CAPTURE(again.output);
  CHECK(again.well());
  CHECK(contains(again.output, " tokens by " + saved + "/tokenizer.json, "));
  CHECK(runner::read_text(saved + "/tokenizer.json") == json);
}

TEST_CASE("packed documents: serial, ring and Ulysses have the same losses; exact resume") {
  const TemporaryFolder folder;
  const std::string texts = (folder / "texts").string(), json = (folder / "run.json").string();
  std::filesystem::create_directory(texts);
  for (int file = 0; file < 12; ++file) {
    std::string text;
    for (int i = 0; i < 20 + file * file * 2; ++i)
      text += static_cast<char>('a' + i * (file + 3) % 26);
    yotta::write_file(texts + "/" + std::to_string(10 + file), text);
  }
  const Words packed = {"--layers", "1",           "--width",   "16",     "--heads",
                        "4",        "--context",   "96",        "--text", texts,
                        "--pack",   "--attention", "flex",      "--mask", "document,window=40",
                        "--steps",  "3",           "--dropout", "0.1",    "--json",
                        json};
  const auto run = [&](const Words& more) {
    Words words = packed;
    words.insert(words.end(), more.begin(), more.end());
    const runner::Ending ending = train(words);
    CAPTURE(ending.output);
    REQUIRE(ending.well());
    return nlohmann::json::parse(yotta::read_file(json));
  };
  const auto losses = [](const nlohmann::json& of) {
    return of["loss"].get<std::vector<double>>();
  };
  const nlohmann::json serial = run({});
  CHECK(serial["attention"] == "flex");
  CHECK(serial["mask"] == "document,window=40");
  CHECK(serial["pack"] == "files");
  // A window of 40 leaves 3060 of the 4656 scores of 96 tokens, and documents leave fewer.
  const double share = serial["scores_share"].get<double>();
  CHECK(share > 0.05);
  CHECK(share < 3060.0 / 4656);
  for (const Words& layout : {Words{"--layout", "cp=2"}, Words{"--layout", "cp=4"},
                              Words{"--layout", "cp=2,tp=2", "--context-parallel", "ulysses"},
                              Words{"--layout", "cp=2,dp=2", "--recompute", "all"}}) {
    const nlohmann::json parallel = run(layout);
    CAPTURE(layout[1]);
    for (size_t step = 0; step < 3; ++step)
      CHECK(std::abs(losses(parallel)[step] - losses(serial)[step]) <= 2e-5);
    CHECK(std::abs(parallel["validation_loss"].get<double>() -
                   serial["validation_loss"].get<double>()) <= 2e-5);
    const auto flops = parallel["flex_flops_per_rank"].get<std::vector<double>>();
    const auto most = *std::max_element(flops.begin(), flops.end());
    CHECK(most * static_cast<double>(flops.size()) <=
          1.2 * std::accumulate(flops.begin(), flops.end(), 0.0));
  }
  const std::string saved = (folder / "saved").string();
  run({"--stop-after", "2", "--save", saved});
  const nlohmann::json rest = run({"--resume", saved, "--load-ahead", "2"});
  CHECK(losses(rest) == std::vector<double>{losses(serial)[2]});
  // The run's own mask and documents, without being told.
  const runner::Ending alone = train(
      {"--resume", saved, "--steps", "3", "--dropout", "0.1", "--text", texts, "--json", json});
  CAPTURE(alone.output);
  REQUIRE(alone.well());
  CHECK(losses(nlohmann::json::parse(yotta::read_file(json))) == losses(rest));
  check_refused({"--resume", saved, "--steps", "3", "--dropout", "0.1", "--text", texts,
                 "--attention", "flex", "--mask", "window=40"},
                "mask");
}

TEST_CASE("one file with separators trains as its documents do in a folder") {
  const TemporaryFolder folder;
  const std::string texts = (folder / "texts").string(), one = (folder / "one").string(),
                    json = (folder / "run.json").string();
  std::filesystem::create_directory(texts);
  std::string all;
  for (int file = 0; file < 6; ++file) {
    const std::string text(static_cast<size_t>(100 + 40 * file), static_cast<char>('a' + file));
    yotta::write_file(texts + "/" + std::to_string(file), text);
    all += text + "\n--\n";
  }
  yotta::write_file(one, all);
  const auto losses = [&](const Words& more) {
    Words words = {"--layers", "1",         "--width", "16",          "--heads", "2",
                   "--steps",  "2",         "--pack",  "--attention", "flex",    "--mask",
                   "document", "--context", "48",      "--json",      json};
    words.insert(words.end(), more.begin(), more.end());
    const runner::Ending ending = train(words);
    CAPTURE(ending.output);
    REQUIRE(ending.well());
    return nlohmann::json::parse(yotta::read_file(json))["loss"].get<std::vector<double>>();
  };
  CHECK(losses({"--text", one, "--separator", "\\n--\\n"}) == losses({"--text", texts}));
}

TEST_CASE("a saved model has its mask: loaded, it is used without being said") {
  const TemporaryFolder folder;
  const std::string saved = (folder / "saved").string(), json = (folder / "run.json").string();
  const auto run = [&](const Words& more) {
    Words words = {"--layers", "1",         "--width", "16",     "--heads",
                   "2",        "--context", "48",      "--json", json};
    words.insert(words.end(), more.begin(), more.end());
    const runner::Ending ending = train(words);
    CAPTURE(ending.output);
    REQUIRE(ending.well());
    return nlohmann::json::parse(yotta::read_file(json));
  };
  run({"--steps", "1", "--attention", "flex", "--mask", "window=4,prefix=2", "--save", saved});
  const nlohmann::json own = run({"--load", saved, "--steps", "1"}),
                       said = run({"--load", saved, "--steps", "1", "--attention", "flex", "--mask",
                                   "window=4,prefix=2"}),
                       none = run({"--load", saved, "--steps", "1", "--mask", "causal"});
  CHECK(own["mask"] == "window=4,prefix=2");
  CHECK(own["loss"] == said["loss"]);
  CHECK(none["mask"] == "causal");
  CHECK(none["loss"] != own["loss"]);
  check_refused({"--load", saved, "--attention", "plain"}, "add --mask causal");
}

TEST_CASE("masks: what does not go together is refused, and a prefix has no targets") {
  const auto refused = [](Words options, const std::string& words) {
    options.insert(options.begin(), {"--attention", "flex"});
    check_refused(options, words);
  };
  check_refused({"--mask", "window=4"}, "add --attention flex");
  check_refused({"--mask", "window=4", "--attention", "plain"}, "this is plain");
  refused({"--mask", "window=0"}, "--mask window=0: it takes a number of tokens, 1 or more");
  refused({"--mask", "window=x"}, "--mask window=x");
  refused({"--mask", "windows"}, "--mask has 'windows'; it takes causal, document, window=N");
  refused({"--mask", "alibi,alibi", "--dialect", "llama"}, "alibi twice");
  refused({"--mask", "alibi"}, "take the dialect llama");
  refused({"--mask", "prefix=200"}, "a prefix of 200 tokens in a context of 128");
  refused({"--mask", "document"}, "add --pack");
  refused({"--pack"}, "--mask document");
  refused({"--recompute", "attention"}, "which flex attention never keeps");
  const TemporaryFolder folder;
  const std::string one = (folder / "one").string();
  yotta::write_file(one, std::string(5000, 'x'));
  refused({"--mask", "document", "--pack", "--text", one}, "is one document");
  refused({"--mask", "document", "--pack", "--text", one, "--separator", "-"},
          "'-' stands nowhere in the text");
  refused({"--separator", "-"}, "add --pack");
  Words words = tiny;
  words.insert(words.end(), {"--attention", "flex", "--mask", "prefix=5,window=3"});
  const runner::Ending ending = train(words);
  CAPTURE(ending.output);
  CHECK(ending.well());
}

TEST_CASE(
    "latent attention and a mixture's first blocks: trained, over ranks, and what is refused") {
  Words words = tiny;
  words.insert(words.end(), {"--steps", "2", "--dialect", "llama", "--latent", "6,4,3,2,4",
                             "--experts", "4", "--expert-groups", "2", "--dense-layers", "1",
                             "--dense-width", "24", "--layers", "2", "--layout", "tp=2,ep=2"});
  words.erase(words.begin(), words.begin() + 2);  // --layers 1
  const runner::Ending ending = train(words);
  CAPTURE(ending.output);
  CHECK(ending.well());
  CHECK(contains(ending.output, " in 2 steps"));
  for (const char* wrong : {"6,4,3,2", "6,4,3,2,x", "6,4,3,2,0"})
    check_refused({"--dialect", "llama", "--latent", wrong}, "give five whole numbers from 1 to");
  check_refused({"--latent", "6,4,3,2,4"}, "latent attention is for the dialect llama");
  check_refused({"--dense-layers", "1", "--dense-width", "8"}, "in front of a mixture");
}
