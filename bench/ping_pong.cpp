// A message to another rank and back, by size: alpha and beta of the link between two ranks,
// fitted, and beside each measured time what the model alpha + bytes x beta says.
//
//     ./yotta bench ping_pong                              two threads
//     ./yotta bench ping_pong -- --comm mpi                two processes of this machine
//     mpirun --hostfile hosts -n 2 --map-by node .../bench_ping_pong      two hosts
//
// A sample is half of the time there and back; a row is the median. alpha, the latency, is the
// least time of the smallest messages; beta, seconds a byte, is the slope of a line through the
// large ones (least squares of the relative error, so that a message of 16 MiB counts as much as
// one of 256 KiB).
#include <fmt/core.h>
#include <unistd.h>

#include "bench.hpp"
#include "course/options/comm_choice.hpp"
#include "course/options/console.hpp"
#include "course/options/options.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/cpu/measure.hpp"

namespace {

using namespace yotta;
using bench::Json;

struct Row {
  int64_t bytes;
  double seconds;  // one way
};

struct Link {
  double alpha = 0, beta = 0;  // seconds; seconds a byte
};

Link fit(const std::vector<Row>& rows) {
  Link link;
  link.alpha = rows.front().seconds;
  for (const Row& row : rows) link.alpha = std::min(link.alpha, row.seconds);
  // t = alpha + beta n, divided by t: with r = n/t the least squares of 1 = alpha/t + beta r give
  // beta.
  double above = 0, below = 0;
  for (const Row& row : rows) {
    if (row.bytes < 65536 && &row != &rows.back()) continue;
    const double rate = static_cast<double>(row.bytes) / row.seconds;
    above += rate * (1 - link.alpha / row.seconds);
    below += rate * rate;
  }
  link.beta = above / below;
  return link;
}

// The median one-way time of messages of each size between ranks 0 and 1, on rank 0.
std::vector<Row> ping_pong(Communicator& world, int64_t most, int samples) {
  std::vector<Row> rows;
  std::vector<float> data(static_cast<size_t>(most / 4));
  for (int64_t bytes = 4; bytes <= most; bytes *= 4) {
    const Data message = Data(data).part(0, bytes / 4);
    std::vector<double> seconds;
    for (int sample = -2; sample < samples; ++sample) {  // two to warm up
      const double start = seconds_now();
      if (world.rank() == 0) world.send(message, 1);
      world.recv(message, 1 - world.rank());
      if (world.rank() == 1) world.send(message, 0);
      if (sample >= 0) seconds.push_back((seconds_now() - start) / 2);
    }
    rows.push_back({bytes, bench::median(seconds)});
  }
  return rows;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// The names of both ranks' hosts, on rank 0.
std::vector<std::string> hosts(Communicator& world) {
  std::vector<uint8_t> mine(256), all(512);
  const std::string name = host_name();
  std::copy_n(name.begin(), std::min<size_t>(name.size(), 255), mine.begin());
  world.gather(all, mine, 0);
  const char* const text = reinterpret_cast<const char*>(all.data());
  return {text, text + 256};
}

}  // namespace

int main(int argc, char** argv) {
  Options options("yotta bench ping_pong",
                  "Times messages between two ranks, and fits alpha and beta");
  std::string json;
  int64_t most = 16 << 20;
  int samples = 21;
  options.add("--json", json, "also write the rows to this file");
  options.add("--bytes", most, "the largest message", in_range(4, 1 << 30));
  options.add("--samples", samples, "messages of each size", in_range(1, 1000));
  CommChoice comm;
  comm.add_option(options);
  if (const auto status = options.parse(argc, argv)) return *status;
  try {
    comm.start(argc, argv, {2, nullptr, 2, 1 << 20});
    std::vector<Row> rows;
    std::vector<std::string> names;
    run_ranks(2, [&](Communicator& world) {
      const std::vector<Row> measured = ping_pong(world, most, samples);
      const std::vector<std::string> both = hosts(world);
      if (world.rank() == 0) rows = measured, names = both;
    });
    if (!comm.is_first()) return comm.finish("");
    const Link link = fit(rows);
    fmt::print("between {} and {}: alpha {:.2f} us, beta {:.4f} ns a byte ({:.2f} GB/s)\n",
               names[0], names[1], 1e6 * link.alpha, 1e9 * link.beta, 1e-9 / link.beta);
    console::Table table({"bytes", "us, measured", "alpha + bytes x beta", "GB/s"});
    Json report = {
        {"benchmark", "ping_pong"}, {"hosts", names}, {"alpha", link.alpha}, {"beta", link.beta}};
    for (const Row& row : rows) {
      const auto bytes = static_cast<double>(row.bytes);
      const double model = link.alpha + link.beta * bytes;
      table.row({std::to_string(row.bytes), fmt::format("{:.2f}", 1e6 * row.seconds),
                 fmt::format("{:.2f}", 1e6 * model),
                 fmt::format("{:.3f}", 1e-9 * bytes / row.seconds)});
      report["rows"].push_back({{"bytes", row.bytes}, {"seconds", row.seconds}, {"model", model}});
    }
    fmt::print("{}", table.text());
    if (!json.empty() && bench::write_json(json, report) != 0)
      return comm.finish("cannot write " + json);
    return comm.finish("");
  } catch (const std::exception& error) {
    return comm.finish(error.what());
  }
}
