// Lesson 10: every all_reduce counted, the crossover between trees and rings, and four ways to
// fail.
#include <fstream>
#include <numeric>
#include <vector>

#include "course/lesson/lesson.hpp"
#include "course/pictures/collective_picture.hpp"
#include "course/pictures/two_nodes_picture.hpp"
#include "yotta/comm/chooser.hpp"
#include "yotta/comm/collective_choice.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"
#include "yotta/machine/pictures/timeline.hpp"

using namespace yotta;

namespace {

struct Counted {
  std::vector<Traffic> ranks;
  Traffic all;
};

// Runs one all_reduce of n f32 on p ranks and reads the ledgers.
Counted count_all_reduce(int p, int64_t n, Algorithm algorithm) {
  Counted counted;
  for (const RankReport& rank : run_ranks(p, [&](Communicator& world) {
         std::vector<float> x(static_cast<size_t>(n), 1.0f);
         world.all_reduce(x, ReduceOp::sum, {.algorithm = algorithm});
       })) {
    counted.ranks.push_back(rank.ledger().total_traffic());
    counted.all += counted.ranks.back();
  }
  return counted;
}

constexpr Algorithm algorithms[] = {Algorithm::naive, Algorithm::tree,
                                    Algorithm::recursive_doubling, Algorithm::rabenseifner,
                                    Algorithm::ring};

void naive_and_ring(Lesson& lesson, int p, int64_t n) {
  lesson.section(fmt::format("all_reduce of {} numbers of 4 bytes on {} ranks", n, p));
  const Counted naive = count_all_reduce(p, n, Algorithm::naive);
  const Counted ring = count_all_reduce(p, n, Algorithm::ring);
  const size_t other = p > 1 ? 1 : 0;
  lesson.say("naive: rank 0 sent {} bytes, rank {} sent {} bytes", naive.ranks[0].bytes_sent, other,
             naive.ranks[other].bytes_sent);
  lesson.say("ring:  rank 0 sent {} bytes, rank {} sent {} bytes", ring.ranks[0].bytes_sent, other,
             ring.ranks[other].bytes_sent);
  lesson.say("       the formula 2(p-1)/p N gives {:.0f}",
             2.0 * (p - 1) / p * 4.0 * static_cast<double>(n));
  for (const int ranks : {8, 1024})
    lesson.say("70e9 numbers of 2 bytes: each of {:>4} ranks sends {:.0f} GB", ranks,
               1e-9 * static_cast<double>(ring_bytes_sent(ranks, 0, 70'000'000'000, 2)));
  lesson.number("naive.rank0.bytes_sent", static_cast<double>(naive.ranks[0].bytes_sent));
  lesson.number("ring.rank0.bytes_sent", static_cast<double>(ring.ranks[0].bytes_sent));
}

void all_algorithms(Lesson& lesson, int p, int64_t n) {
  lesson.section("All of them, all ranks together");
  std::vector<Counted> counted;
  lesson.say("{:<18}  {:>19}  {:>16}", "algorithm", "messages, all ranks", "bytes, all ranks");
  for (const Algorithm algorithm : algorithms) {
    counted.push_back(count_all_reduce(p, n, algorithm));
    lesson.say("{:<18}  {:>19}  {:>16}", name(algorithm), counted.back().all.messages_sent,
               counted.back().all.bytes_sent);
    lesson.number(fmt::format("{}.bytes_sent", name(algorithm)),
                  static_cast<double>(counted.back().all.bytes_sent));
  }
  lesson.section("Who sends: bytes by rank");
  int64_t most = 1;
  for (const Counted& each : counted)
    for (const Traffic& rank : each.ranks) most = std::max(most, rank.bytes_sent);
  for (size_t a = 0; a < counted.size(); ++a)
    for (size_t r = 0; r < counted[a].ranks.size(); ++r) {
      const auto bytes = static_cast<double>(counted[a].ranks[r].bytes_sent);
      lesson.say("{:<18} rank {}  {} {}", r == 0 ? name(algorithms[a]) : "", r,
                 console::bar(bytes, static_cast<double>(most), 24),
                 counted[a].ranks[r].bytes_sent);
    }
  lesson.say("\nThe most that one rank sends, in whole arrays of {} bytes:", 4 * n);
  for (size_t a = 0; a < counted.size(); ++a) {
    int64_t bytes = 0;
    for (const Traffic& rank : counted[a].ranks) bytes = std::max(bytes, rank.bytes_sent);
    lesson.say("{:<18} {:>6.2f}", name(algorithms[a]),
               n > 0 ? static_cast<double>(bytes) / (4.0 * static_cast<double>(n)) : 0);
  }
}

// The alpha-beta model, from the cost functions that stand beside the algorithms.
void crossover(Lesson& lesson, int p) {
  const AlphaBeta link = {1e-6, 1 / 50e9, 0};
  lesson.section(
      fmt::format("Where the ring overtakes the tree (model: alpha 1 us, 50 GB/s, {} ranks)", p));
  lesson.say("{:>10}  {:>12}  {:>12}", "bytes", "tree, us", "ring, us");
  bool crossed = false;
  for (int64_t bytes = 64; bytes <= int64_t{1} << 26; bytes *= 8) {
    const auto n = static_cast<double>(bytes);
    const double tree = all_reduce_tree_seconds(p, n, link);
    const double ring = all_reduce_ring_seconds(p, n, link);
    lesson.say("{:>10}  {:>12.2f}  {:>12.2f}{}", bytes, 1e6 * tree, 1e6 * ring,
               ring < tree && !crossed ? "   <- from here on the ring" : "");
    crossed = crossed || ring < tree;
  }
}

// The algorithms themselves, run on a machine that is only described.
void on_a_machine(Lesson& lesson) {
  std::vector<Algorithm> all(std::begin(algorithms), std::end(algorithms));
  for (const Algorithm by_node :
       {Algorithm::multi_rail, Algorithm::hierarchical, Algorithm::pipelined})
    all.push_back(by_node);
  lesson.section("Run on 16 H100 in two nodes, on the virtual clock (us)");
  std::vector<std::vector<AllReduceTime>> by_size;
  for (const int64_t bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{1} << 30})
    by_size.push_back(all_reduce_times(cluster_named("h100x16"), 16, bytes));
  lesson.say("{:<20}{:>14}{:>14}{:>14}", "", "1 KiB", "1 MiB", "1 GiB");
  for (const Algorithm algorithm : all) {
    std::string line = fmt::format("{:<20}", name(algorithm));
    for (const std::vector<AllReduceTime>& times : by_size)
      for (const AllReduceTime& each : times)
        if (each.algorithm == algorithm)
          line += fmt::format("{:>13.1f}{}", 1e6 * each.seconds, &each == &times[0] ? "*" : " ");
    lesson.say("{}", line);
  }
  lesson.say("(*: the fastest)");
}

// The fastest on two machines, from 1 KiB to 1 GiB, and their curves.
void fastest(Lesson& lesson) {
  for (const auto& [machine, ranks] : {std::pair{"h100x8", 8}, {"h100x16", 16}}) {
    const Cluster c = cluster_named(machine);
    lesson.section(fmt::format("all_reduce on {}: the fastest three, in us", machine));
    lesson.say("{:>9}   {:<18} {:>7}   {:<18} {:>7}   {:<18} {:>7}", "array", "fastest", "us",
               "second", "us", "third", "us");
    for (int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes <<= 5) {
      const std::vector<AllReduceTime> times = all_reduce_times(c, ranks, bytes);
      std::string line = fmt::format("{:>5} {}B ", bytes < 1 << 20 ? bytes >> 10 : bytes >> 20,
                                     bytes < 1 << 20 ? "Ki" : "Mi");
      for (size_t i = 0; i < 3; ++i)
        line += fmt::format("   {:<18} {:>7.1f}", name(times[i].algorithm), 1e6 * times[i].seconds);
      lesson.say("{}", line);
    }
    const bool one_node = ranks == 8;
    const CommOptions few{Algorithm::recursive_doubling}, ring{Algorithm::ring};
    const CommOptions rails{Algorithm::multi_rail};
    const CommOptions large{one_node ? Algorithm::ring : Algorithm::hierarchical};
    const int64_t bytes = crossover(c, ranks, few, large);
    lesson.say("{} and {} cross at {} bytes:\n", name(few.algorithm), name(large.algorithm), bytes);
    lesson.show(times_picture(
        c, ranks, one_node ? std::vector{few, ring} : std::vector{few, large, rails, ring}));
    lesson.number(fmt::format("{}.crossover", machine), static_cast<double>(bytes));
  }
}

// What a collective takes if its options name no algorithm: by the rule that the planner asks too.
void by_itself(Lesson& lesson) {
  struct Row {
    const char* name;
    Operation operation;
    std::vector<int> chips;
  };
  std::vector<int> node(8), nodes(16);
  std::iota(node.begin(), node.end(), 0);
  std::iota(nodes.begin(), nodes.end(), 0);
  const std::vector<Row> rows = {{"all_reduce, 8 of one node", Operation::all_reduce, node},
                                 {"all_reduce, 8 of each of two", Operation::all_reduce, nodes},
                                 {"all_reduce, 2 of each", Operation::all_reduce, {0, 4, 8, 12}},
                                 {"all_reduce, 1 of each", Operation::all_reduce, {0, 8}},
                                 {"all_gather, 8 of each", Operation::all_gather, nodes},
                                 {"all_to_all, 8 of each", Operation::all_to_all, nodes}};
  lesson.section("What runs if no algorithm is named: H100 in two nodes, us");
  lesson.say("{:<30}{:>27}{:>23}{:>21}", "ranks", "1 KiB", "1 MiB", "1 GiB");
  for (const Row& row : rows) {
    const GroupNetwork network = group_network(cluster_named("h100x16"), row.chips);
    std::string line = fmt::format("{:<30}", row.name);
    for (const double bytes : {0x1p10, 0x1p20, 0x1p30}) {
      const CollectiveChoice way = choose_collective(row.operation, network, bytes);
      const double us = 1e6 * collective_seconds(row.operation, network, bytes);
      const int width = bytes < 0x1p20 ? 27 : bytes < 0x1p30 ? 23 : 21;
      line += fmt::format("{:>{}}", fmt::format("{} {:.1f}", name(way.algorithm), us), width);
    }
    lesson.say("{}", line);
  }
}

// Bytes that leave each rank's node by its network card.
std::vector<double> bytes_by_card(const Trace& trace, int node) {
  std::vector<double> bytes(trace.ranks.size());
  for (size_t rank = 0; rank < bytes.size(); ++rank)
    for (const TraceEvent& event : trace.ranks[rank])
      if (event.kind == EventKind::send && event.peer / node != static_cast<int>(rank) / node)
        bytes[rank] += static_cast<double>(event.bytes);
  return bytes;
}

// One ring over two nodes, and one ring per card.
void network_cards(Lesson& lesson) {
  const double bytes = 1 << 30;
  std::string summary;
  lesson.section("What the eight network cards of node 0 send: all_reduce of 1 GiB on 16 H100");
  lesson.say("algorithm   card    sent; a full bar is {:.0f} MB", 1e-6 * 2 * bytes);
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::multi_rail}) {
    const Timed run = run_on(cluster_named("h100x16"), 16, [&](Communicator& world) {
      const DeviceScope meta(Device::meta);
      Tensor data = Tensor::empty({1 << 30}, DType::u8);
      world.all_reduce(data, ReduceOp::sum, {algorithm});
    });
    const std::vector<double> sent = bytes_by_card(run.trace, 8);
    for (size_t card = 0; card < 8; ++card)
      lesson.say("{:<12}card {}  {} {:>5.0f} MB", card == 0 ? name(algorithm) : "", card,
                 console::bar(sent[card], 2 * bytes, 24), 1e-6 * sent[card]);
    summary += fmt::format("{:<12}{:>9.2f} ms{:>8.0f} GB/s of bus bandwidth\n", name(algorithm),
                           1e3 * run.seconds(), 1e-9 * 2 * 15 / 16 * bytes / run.seconds());
    lesson.number(fmt::format("{}.two_nodes_seconds", name(algorithm)), run.seconds());
  }
  const double node = all_reduce_seconds(cluster_named("h100x8"), 8, 1 << 30, {Algorithm::ring});
  lesson.show(summary);
  lesson.say("{:<12}{:>9.2f} ms{:>8.0f} GB/s of bus bandwidth", "in one node", 1e3 * node,
             1e-9 * 2 * 7 / 8 * bytes / node);
  lesson.number("ring.one_node_seconds", node);
}

// Three of them one after the other: who sends or receives when, and who waits.
void in_time(Lesson& lesson) {
  const auto body = [](Communicator& world) {
    const DeviceScope meta(Device::meta);
    Tensor data = Tensor::empty({4 << 20});
    world.all_reduce(data, ReduceOp::sum, {Algorithm::naive, "naive"});
    world.all_reduce(data, ReduceOp::sum, {Algorithm::tree, "tree"});
    world.all_reduce(data, ReduceOp::sum, {Algorithm::ring, "ring"});
  };
  lesson.section("16 MiB on 4 H100, in time: naive, tree, ring");
  Timeline timeline =
      make_timeline(run_on(cluster_named("h100x4"), 4, body).trace, 4, TimelineBy::name);
  std::erase_if(timeline.rows, [](const TimelineRow& row) { return row.lane == compute_lane; });
  lesson.show(timeline_text(timeline, 72, console::colored()));
}

// Runs ranks that make a mistake, and prints what a user would read.
void provoke(Lesson& lesson, const char* mistake, int p, const RunOptions& options, auto body) {
  lesson.section(mistake);
  try {
    run_ranks(p, body, options);
    lesson.say("(nothing was reported)");
  } catch (const std::exception& error) {
    lesson.say("{}", error.what());
  }
}

void failures(Lesson& lesson) {
  RunOptions unbuffered;
  unbuffered.buffered_sends = false;
  provoke(lesson, "Mistake: everybody sends first, and sends are unbuffered", 4, unbuffered,
          [](Communicator& world) {
            std::vector<float> x(8), y(8);
            world.send(x, (world.rank() + 1) % 4);
            world.recv(y, (world.rank() + 3) % 4);
          });
  provoke(lesson, "Mistake: one rank calls something else", 2, {}, [](Communicator& world) {
    std::vector<float> x(8);
    if (world.rank() == 0)
      world.all_reduce(x);
    else
      world.broadcast(x, 0);
  });
  provoke(lesson, "Mistake: one rank throws while the others wait for it", 3, {},
          [](Communicator& world) {
            std::vector<float> x(8);
            if (world.rank() == 2) throw std::runtime_error("the disk is full");
            world.all_reduce(x);
          });
  provoke(lesson, "Mistake: a result nobody waited for", 2, {}, [](Communicator& world) {
    std::vector<float> x(8);
    { const Work forgotten = world.all_reduce_async(x); }
    world.barrier();
  });
}

void draw_pictures(Lesson& lesson) {
  for (const auto& [file, svg] : {std::pair{"ring.svg", ring_svg()},
                                  {"tree.svg", tree_svg()},
                                  {"rabenseifner.svg", rabenseifner_svg()},
                                  {"two_nodes.svg", two_nodes_svg()}}) {
    std::ofstream(file) << svg;
    lesson.say("drawn in {}", file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t ranks = 4, count = 1000, machines = 1, draw = 0;
  return run_lesson_on_processes(
      argc, argv,
      {"10", "Collectives", "what each all_reduce sends, who sends it, and how to fail"},
      [&](Lesson& lesson) {
        if (draw != 0) draw_pictures(lesson);
        naive_and_ring(lesson, static_cast<int>(ranks), count);
        all_algorithms(lesson, static_cast<int>(ranks), count);
        crossover(lesson, static_cast<int>(ranks));
        if (machines != 0) {
          on_a_machine(lesson);
          network_cards(lesson);
          fastest(lesson);
          by_itself(lesson);
          in_time(lesson);
        }
        failures(lesson);
        lesson.say("\nNext: write the ring yourself, ./yotta check 10");
      },
      {{"ranks", "how many ranks", &ranks, 1, 32},
       {"count", "how many numbers each rank has", &count, 0, 10'000'000},
       {"machines", "0: without the described machines", &machines, 0, 1},
       {"draw", "1: write ring.svg, tree.svg, rabenseifner.svg and two_nodes.svg into this folder",
        &draw, 0, 1}});
}
