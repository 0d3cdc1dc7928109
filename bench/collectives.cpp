// The collectives of thread ranks, of Open MPI over shared memory, and our algorithms over MPI's
// messages, on the same cores in one run; and NCCL's where each rank has a GPU.
//
// In each round, for each number of ranks, this program runs ours on threads and starts itself
// under mpirun, once to call Open MPI's own collectives and once to run our algorithms over its
// messages; in every second round the other way round, so that a busy machine slows all. All bind
// rank r to core r where there are enough cores, and bind nothing otherwise; all warm up equally
// often and meet in a barrier before each sample. A sample is the time of the slowest rank; a row
// is the median over rounds of the median over a round's samples.
//
// Both sides work on f32 zeros. Most of MPI's operations can be called in place (MPI_IN_PLACE) or
// with a buffer to send and another to receive, which is the usual call and the default of the OSU
// benchmarks and nccl-tests. Open MPI is measured both ways; ours have one way each, in place where
// that is possible. The ratios are Open MPI's time over ours in the same round, the median over
// rounds:
//
//     ratio_in_place   against Open MPI in place
//     ratio_separate   against Open MPI with separate buffers
//
// As in nccl-tests: bytes = the whole array; algbw = bytes / seconds; busbw = algbw x factor, the
// share of the links' rate that an ideal ring would need: 2(p-1)/p for all_reduce, (p-1)/p for
// reduce_scatter, all_gather and all_to_all, 1 for broadcast and reduce. NCCL's time ends when the
// GPU has done it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../course/options/console.hpp"
#include "bench.hpp"
#include "course/options/usage.hpp"
#include "yotta/comm/nccl/nccl.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/cpu/measure.hpp"
#include "yotta/parallel/cuda/use_cuda.hpp"

#ifdef __linux__
#include <pthread.h>
#endif

#ifdef YOTTA_HAVE_MPI
#include <mpi.h>

#include "yotta/comm/mpi/mpi_ranks.hpp"
#endif

namespace {

using namespace yotta;
using bench::Json;

struct Options {
  std::string json;
  std::vector<std::string> operations = {"all_reduce", "reduce_scatter", "all_gather",
                                         "all_to_all", "broadcast",      "reduce"};
  std::vector<int> ranks = {2, 4};
  std::vector<int64_t> kibibytes = {4, 64, 1 << 10, 4 << 10, 16 << 10, 64 << 10};
  int rounds = 5, warm_ups = 5, samples = 11;
  bool native_only = false;
  std::string child;  // "theirs", "ours" or "nccl": this is one of mpirun's processes
};

struct Key {
  std::string operation, algorithm, transport, buffers;  // "in_place" or "separate"
  int ranks;
  int64_t bytes;
  auto operator<=>(const Key&) const = default;
};
using Samples = std::map<Key, std::vector<double>>;  // one median per round

double bus_factor(const std::string& operation, int p) {
  if (operation == "all_reduce") return 2.0 * (p - 1) / p;
  return operation == "broadcast" || operation == "reduce" ? 1.0 : (p - 1.0) / p;
}

std::vector<Algorithm> algorithms_of(const std::string& operation, bool native_only) {
  if (native_only) return {Algorithm::native};
  if (operation == "all_reduce")
    return {Algorithm::native,       Algorithm::ring,
            Algorithm::rabenseifner, Algorithm::recursive_doubling,
            Algorithm::tree,         Algorithm::naive};
  if (operation == "reduce_scatter")
    return {Algorithm::native, Algorithm::ring, Algorithm::recursive_halving};
  if (operation == "all_gather")
    return {Algorithm::native, Algorithm::ring, Algorithm::recursive_doubling, Algorithm::bruck};
  if (operation == "all_to_all") return {Algorithm::native, Algorithm::pairwise, Algorithm::bruck};
  if (operation == "broadcast")
    return {Algorithm::native, Algorithm::tree, Algorithm::chain, Algorithm::scatter_all_gather};
  return {Algorithm::native, Algorithm::tree};
}

constexpr const char* in_place = "in_place";
constexpr const char* separate = "separate";

// How ours uses its buffers, and how Open MPI's is called.
const char* buffers_of(const std::string& operation) {
  return operation == "reduce_scatter" || operation == "all_to_all" ? separate : in_place;
}
std::vector<std::string> their_buffers_of(const std::string& operation) {
  if (operation == "broadcast") return {in_place};
  if (buffers_of(operation) == separate) return {separate};
  return {in_place, separate};
}

// n numbers and n more, for the largest size; touched by the rank that owns them.
struct Arrays {
  explicit Arrays(int64_t n) : a(Tensor::zeros({n})), b(Tensor::zeros({n})) {}
  Tensor a, b;
};

// --- ours ---

void run_ours(Communicator& world, const std::string& operation, Algorithm algorithm,
              Arrays& arrays, int64_t n) {
  const Data a = Data(arrays.a).part(0, n), b = Data(arrays.b).part(0, n);
  const Data chunk = b.chunk(world.rank(), world.size());
  const CommOptions options{.algorithm = algorithm, .label = nullptr};
  if (operation == "all_reduce") world.all_reduce(a, ReduceOp::sum, options);
  if (operation == "reduce_scatter") world.reduce_scatter(chunk, a, ReduceOp::sum, options);
  if (operation == "all_gather") world.all_gather(b, chunk, options);
  if (operation == "all_to_all") world.all_to_all(b, a, options);
  if (operation == "broadcast") world.broadcast(a, 0, options);
  if (operation == "reduce") world.reduce(a, 0, ReduceOp::sum, options);
}

// Calls `body` until it is warm and then for the samples; the median of what slowest(seconds) makes
// of them.
template <class Body, class Slowest, class Meet>
double sample(const Options& options, Body body, Meet meet, Slowest slowest) {
  std::vector<double> seconds;
  for (int i = 0; i < options.warm_ups + options.samples; ++i) {
    meet();
    const double start = seconds_now();
    body();
    const double slow = slowest(seconds_now() - start);
    if (i >= options.warm_ups) seconds.push_back(slow);
  }
  return bench::median(seconds);
}

int64_t largest_count(const Options& options) {
  return *std::max_element(options.kibibytes.begin(), options.kibibytes.end()) << 8;
}

// One core for each rank, thread or process, where there are enough.
void bind_to_core([[maybe_unused]] int rank, [[maybe_unused]] int ranks) {
#ifdef __linux__
  if (ranks > static_cast<int>(std::thread::hardware_concurrency())) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(rank), &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);  // if it may not: unbound
#endif
}

// Which algorithms a transport is measured with: MPI's own are called without us, NCCL has none but
// its own.
bool is_measured(const std::string& transport, Algorithm algorithm) {
  if (transport == "nccl") return algorithm == Algorithm::native;
  return transport == "threads" || algorithm != Algorithm::native;
}

// On threads, or on the processes that MPI has started; with NCCL the arrays are on their GPUs.
void measure_ours(const Options& options, int ranks, const std::string& transport, Samples& all) {
  const Device device = transport == "nccl" ? Device::cuda : Device::cpu;
  run_ranks(ranks, [&](Communicator& world) {
    if (device == Device::cpu) bind_to_core(world.rank(), ranks);
    std::optional<DeviceScope> scope(device);
    Arrays arrays(largest_count(options));
    scope.reset();
    const auto slowest = [&](double seconds) {
      world.all_reduce(std::span<double>(&seconds, 1), ReduceOp::max);
      return seconds;
    };
    for (const std::string& operation : options.operations)
      for (const int64_t kibibytes : options.kibibytes)
        for (const Algorithm algorithm : algorithms_of(operation, options.native_only)) {
          if (!is_measured(transport, algorithm)) continue;
          const auto once = [&] {
            run_ours(world, operation, algorithm, arrays, kibibytes << 8);
            if (device == Device::cuda) accelerator()->wait();
          };
          const double seconds = sample(
              options, once, [&] { world.barrier(); }, slowest);
          if (world.rank() == 0)
            all[{operation, name(algorithm), transport, buffers_of(operation), ranks,
                 kibibytes << 10}]
                .push_back(seconds);
        }
  });
}

// --- on MPI: this program once more, as processes ---

#ifdef YOTTA_HAVE_MPI

// With separate buffers from a to b, in place in b.
void run_theirs(const std::string& operation, bool inside, Arrays& arrays, int n, int rank,
                int size) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int chunk = n / size;
  float* const b = arrays.b.data<float>();
  const void* const a = inside ? MPI_IN_PLACE : arrays.a.data<float>();
  if (operation == "all_reduce") MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, world);
  if (operation == "reduce_scatter")
    MPI_Reduce_scatter_block(a, b, chunk, MPI_FLOAT, MPI_SUM, world);
  if (operation == "all_gather") MPI_Allgather(a, chunk, MPI_FLOAT, b, chunk, MPI_FLOAT, world);
  if (operation == "all_to_all") MPI_Alltoall(a, chunk, MPI_FLOAT, b, chunk, MPI_FLOAT, world);
  if (operation == "broadcast") MPI_Bcast(b, n, MPI_FLOAT, 0, world);
  if (operation == "reduce")  // in place is the root's word only
    MPI_Reduce(rank == 0 || !inside ? a : b, b, n, MPI_FLOAT, MPI_SUM, 0, world);
}

void measure_theirs(const Options& options, int rank, int size, Samples& all) {
  bind_to_core(rank, size);
  Arrays arrays(largest_count(options));
  const auto slowest = [](double seconds) {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
  };
  for (const std::string& operation : options.operations)
    for (const int64_t kibibytes : options.kibibytes)
      for (const std::string& buffers : their_buffers_of(operation))
        all[{operation, "native", "mpi", buffers, size, kibibytes << 10}].push_back(sample(
            options,
            [&] {
              run_theirs(operation, buffers == in_place, arrays, static_cast<int>(kibibytes << 8),
                         rank, size);
            },
            [] { MPI_Barrier(MPI_COMM_WORLD); }, slowest));
}

// One of mpirun's processes. Rank 0 prints a line of fields for each row.
int run_child(const Options& options) {
  Samples all;
  int rank = 0, size = 0;
  if (options.child == "ours") {
    const MpiRanks job;
    rank = job.rank();
    measure_ours(options, job.size(), "mpi", all);
  } else if (options.child == "nccl") {
    MpiRanksOptions on_gpus;
    on_gpus.wrap = [](std::shared_ptr<Transport> mpi) { return make_nccl_transport(mpi); };
    on_gpus.begin = [](RankContext&, int rank_on_host) {
      const std::string why_not = use_cuda(rank_on_host);
      if (!why_not.empty()) fail(Where::current(), "{}", why_not);
    };
    const MpiRanks job(on_gpus);
    rank = job.rank();
    measure_ours(options, job.size(), "nccl", all);
  } else {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    measure_theirs(options, rank, size, all);
    MPI_Finalize();
  }
  for (const auto& [key, seconds] : all)
    if (rank == 0)
      fmt::print("row\t{}\t{}\t{}\t{}\t{:.9f}\n", key.operation, key.algorithm, key.buffers,
                 key.bytes, seconds[0]);
  return 0;
}

std::string mpi_name() { return mpi_library(); }

template <class Values>
std::string joined(const char* flag, const Values& values) {
  std::string text;
  for (const auto& value : values) text += fmt::format(" {} {}", flag, value);
  return text;
}

// Runs this program under mpirun; false, and why on stderr, if it did not do it.
bool measure_child(const std::string& program, const std::string& child, const Options& options,
                   int ranks, Samples& all) {
  const MpirunCall call = mpirun_call(mpi_kind(mpi_library()), "mpirun", ranks, {});
  for (const auto& [name, value] : call.setting)
    if (!name.ends_with("single_copy_mechanism") && !name.ends_with("yield_when_idle"))
      setenv(name.c_str(), value.c_str(), 0);  // these two would slow it down
  const std::string command =
      fmt::format("{} '{}' --child {} --warm-ups {} --samples {}{}{}{} 2>&1",
                  fmt::join(call.words, " "), program, child, options.warm_ups, options.samples,
                  options.native_only ? " --native-only" : "", joined("--op", options.operations),
                  joined("--kib", options.kibibytes));
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return false;
  std::string output;
  size_t rows = 0;
  for (char line[512]; std::fgets(line, sizeof line, pipe) != nullptr; output += line) {
    char operation[64], algorithm[64], buffers[64];
    long bytes = 0;
    double seconds = 0;
    if (std::sscanf(line, "row\t%63[^\t]\t%63[^\t]\t%63[^\t]\t%ld\t%lf", operation, algorithm,
                    buffers, &bytes, &seconds) != 5)
      continue;
    all[{operation, algorithm, child == "nccl" ? "nccl" : "mpi", buffers, ranks, bytes}].push_back(
        seconds);
    ++rows;
  }
  const bool good = pclose(pipe) == 0 && rows > 0;
  if (!good)
    fmt::print(stderr, "{} could not be measured: {}\n{}", child == "nccl" ? "NCCL" : "MPI",
               command, output);
  return good;
}
bool measure_mpi(const std::string& program, const Options& options, int ranks, Samples& all) {
  return measure_child(program, "theirs", options, ranks, all) &&
         (options.native_only || measure_child(program, "ours", options, ranks, all));
}

constexpr bool built_with_mpi = true;
#else
int run_child(const Options&) { return 1; }
std::string mpi_name() { return "not found"; }
bool measure_mpi(const std::string&, const Options&, int, Samples&) { return false; }
bool measure_child(const std::string&, const std::string&, const Options&, int, Samples&) {
  return false;
}
constexpr bool built_with_mpi = false;
#endif

// --- together ---

Samples measure(const std::string& program, const Options& options) {
  Samples all;
  bool mpi = built_with_mpi;
  if (!mpi)
    fmt::print(
        "MPI was not found when this was built: only yotta's threads are measured\n"
        "(Debian, Ubuntu: apt-get install libopenmpi-dev openmpi-bin)\n");
  const std::string why_not = why_no_nccl();
  bool nccl = mpi && why_not.empty();
  if (!nccl) fmt::print("NCCL is not measured: {}\n", mpi ? why_not : "its ranks are MPI's");
  console::Progress progress("collectives",
                             static_cast<int64_t>(options.rounds * std::ssize(options.ranks)));
  int64_t done = 0;
  for (int round = 0; round < options.rounds; ++round)
    for (const int ranks : options.ranks) {
      progress.update(done++, fmt::format("{} ranks", ranks));
      if (mpi && round % 2 == 1) mpi = measure_mpi(program, options, ranks, all);
      measure_ours(options, ranks, "threads", all);
      if (nccl) nccl = measure_child(program, "nccl", options, ranks, all);
      if (mpi && round % 2 == 0) mpi = measure_mpi(program, options, ranks, all);
    }
  progress.update(done);
  return all;
}

// Open MPI's seconds over ours, round by round; null where it was not measured that way.
Json ratio(const Samples& all, const Key& key, const std::vector<double>& ours,
           const char* buffers) {
  const auto theirs = all.find({key.operation, "native", "mpi", buffers, key.ranks, key.bytes});
  const bool is_theirs = key.transport != "threads" && key.algorithm == "native";
  if (is_theirs || theirs == all.end() || theirs->second.size() != ours.size()) return nullptr;
  std::vector<double> ratios;
  for (size_t round = 0; round < ours.size(); ++round)
    ratios.push_back(theirs->second[round] / ours[round]);
  return bench::median(ratios);
}

std::vector<Json> rows_of(const Samples& all) {
  std::vector<Json> rows;
  for (const auto& [key, rounds] : all) {
    const double seconds = bench::median(rounds);
    const double algbw = static_cast<double>(key.bytes) / seconds * 1e-9;
    rows.push_back({{"op", key.operation},
                    {"algorithm", key.algorithm},
                    {"transport", key.transport},
                    {"buffers", key.buffers},
                    {"ranks", key.ranks},
                    {"bytes", key.bytes},
                    {"seconds", seconds},
                    {"algbw", algbw},
                    {"busbw", algbw * bus_factor(key.operation, key.ranks)},
                    {"ratio_in_place", ratio(all, key, rounds, in_place)},
                    {"ratio_separate", ratio(all, key, rounds, separate)}});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return std::tuple(a["op"], a["ranks"], a["bytes"], a["seconds"]) <
           std::tuple(b["op"], b["ranks"], b["bytes"], b["seconds"]);
  });
  return rows;
}

void print_rows(const std::vector<Json>& rows) {
  fmt::print("Last two columns: Open MPI's time, in place and with separate buffers, over ours.\n");
  console::Table table({"operation", "ranks", "size", "algorithm", "on", "buffers", "ms",
                        "algbw GB/s", "busbw GB/s", "in place", "separate"});
  const auto times = [](const Json& value) {
    return value.is_null() ? "-" : fmt::format("{:.2f}x", value.get<double>());
  };
  for (const Json& row : rows)
    table.row({row["op"].get<std::string>(), row["ranks"].dump(),
               console::bytes(row["bytes"].get<double>()), row["algorithm"].get<std::string>(),
               row["transport"].get<std::string>(), row["buffers"].get<std::string>(),
               fmt::format("{:.3f}", row["seconds"].get<double>() * 1e3),
               fmt::format("{:.2f}", row["algbw"].get<double>()),
               fmt::format("{:.2f}", row["busbw"].get<double>()), times(row["ratio_in_place"]),
               times(row["ratio_separate"])});
  fmt::print("{}", table.text());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Collectives of threads, of Open MPI, our algorithms over its messages, and NCCL"};
  Options options;
  app.add_option("--json", options.json, "also write the rows to this file");
  app.add_option("--op", options.operations, "operations to measure")
      ->check(CLI::IsMember(Options{}.operations));
  app.add_option("--ranks", options.ranks, "numbers of ranks")->check(CLI::Range(1, 64));
  app.add_option("--kib", options.kibibytes, "sizes in KiB")->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", options.rounds, "rounds of ours and theirs")
      ->check(CLI::Range(1, 1000));
  app.add_option("--warm-ups", options.warm_ups, "calls before the samples, in a round")
      ->check(CLI::Range(0, 1000));
  app.add_option("--samples", options.samples, "samples in a round")->check(CLI::Range(1, 1000));
  app.add_flag("--native-only", options.native_only, "leave out the algorithms over messages");
  app.add_option("--child", options.child, "be one of mpirun's processes")->group("");
  if (const auto status = yotta::parse_or_end(app, argc, argv)) return *status;
  try {
    if (!options.child.empty()) return run_child(options);
    fmt::print("MPI: {}\n", mpi_name());
    const std::vector<Json> rows = rows_of(measure(bench::own_path(argv[0]), options));
    print_rows(rows);
    const Json report = {{"benchmark", "collectives"}, {"mpi", mpi_name()}, {"rows", rows}};
    return options.json.empty() ? 0 : bench::write_json(options.json, report);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
