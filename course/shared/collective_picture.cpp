#include "course/shared/collective_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <map>

#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/machine/pictures/timeline.hpp"

namespace yotta {

namespace {

// What one rank did in one call of the channel; -1: it sent to nobody, or received from nobody.
struct Call {
  int to = -1, from = -1;
  double sent = 0;
};

// A channel that passes all on, and writes down what was called.
class RecordingChannel : public Channel {
 public:
  RecordingChannel(Channel& channel, std::vector<Call>& calls) : channel_(channel), calls_(calls) {}
  int rank() const override { return channel_.rank(); }
  int size() const override { return channel_.size(); }
  void send(ConstData data, int to, Where where) override {
    calls_.push_back({to, -1, number_in(data)});
    channel_.send(data, to, where);
  }
  void recv(Data data, int from, Where where) override {
    calls_.push_back({-1, from});
    channel_.recv(data, from, where);
  }
  void send_recv(ConstData outgoing, int to, Data incoming, int from, Where where) override {
    calls_.push_back({to, from, number_in(outgoing)});
    channel_.send_recv(outgoing, to, incoming, from, where);
  }

 private:
  static double number_in(ConstData data) {
    if (data.count != 1) fail(Where::current(), "a message has {} numbers, not 1", data.count);
    return *reinterpret_cast<const double*>(data.bytes);
  }

  Channel& channel_;
  std::vector<Call>& calls_;
};

using Calls = std::vector<std::vector<Call>>;  // by rank

Calls calls_of(int p, int chunks, const AllReduce& all_reduce) {
  Calls calls(static_cast<size_t>(p));
  run_ranks(p, [&](Communicator& world) {
    world.collective("all_reduce", [&](Channel& channel) {
      std::vector<double> data;
      for (int chunk = 0; chunk < chunks; ++chunk)
        data.push_back(std::ldexp(1, p * chunk + channel.rank()));
      RecordingChannel recording(channel, calls[static_cast<size_t>(channel.rank())]);
      all_reduce(recording, data, ReduceOp::sum);
    });
  });
  return calls;
}

// Puts the calls into rounds: a message leaves when its sender has done all before it, and takes
// one round.
class Rounds {
 public:
  explicit Rounds(const Calls& calls)
      : calls_(calls), next_(calls.size()), round_(calls.size()), posted_(calls.size()) {}

  std::vector<CollectiveMessage> messages() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < calls_.size(); ++rank)
        while (next_[rank] < calls_[rank].size() && step(rank)) moved = true;
    }
    std::sort(messages_.begin(), messages_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.round, a.from) < std::pair(b.round, b.from);
    });
    return messages_;
  }

 private:
  struct OnItsWay {
    int left;  // the round after which it left
    double sum;
  };

  // Does the next call of a rank, unless what it waits for has not been sent.
  bool step(size_t rank) {
    const Call& call = calls_[rank][next_[rank]];
    const int me = static_cast<int>(rank);
    if (call.to >= 0 && !posted_[rank]) wires_[{me, call.to}].push_back({round_[rank], call.sent});
    posted_[rank] = true;
    std::deque<OnItsWay>& arriving = wires_[{call.from, me}];
    if (call.from >= 0 && arriving.empty()) return false;
    if (call.from >= 0) {
      round_[rank] = std::max(round_[rank], arriving.front().left);
      add(round_[rank] + 1, call.from, me, arriving.front().sum);
      arriving.pop_front();
    }
    ++round_[rank];
    ++next_[rank];
    posted_[rank] = false;
    return true;
  }

  // A sum of powers of two: which chunk, and whose.
  void add(int round, int from, int to, double sum) {
    const auto bits = static_cast<uint64_t>(sum);
    const int p = static_cast<int>(calls_.size()), chunk = std::countr_zero(bits) / p;
    messages_.push_back({round, from, to, chunk, static_cast<unsigned>(bits >> (p * chunk))});
  }

  const Calls& calls_;
  std::vector<size_t> next_;
  std::vector<int> round_;
  std::vector<bool> posted_;
  std::map<std::pair<int, int>, std::deque<OnItsWay>> wires_;
  std::vector<CollectiveMessage> messages_;
};

// ---- drawing

constexpr const char *ink = "#222", *lit_ink = "#b2182b";

std::string text(double x, double y, const std::string& words, const char* anchor = "start",
                 int size = 12, bool bold = false, const char* color = ink) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\" "
      "font-size=\"{}\"{}>{}</text>\n",
      x, y, anchor, color, size, bold ? " font-weight=\"bold\"" : "", words);
}
std::string box(double x, double y, double width, double height, const char* fill,
                const char* stroke = "none", double line = 1) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
      "stroke=\"{}\" "
      "stroke-width=\"{}\"/>\n",
      x, y, width, height, fill, stroke, line);
}
std::string paper(int height, const std::string& title, const std::string& caption) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 {0}\" width=\"900\" "
             "height=\"{0}\" font-family=\"sans-serif\">\n<title>{1}</title>\n<defs><marker "
             "id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" "
             "markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 "
             "4L0 8Z\" fill=\"{2}\"/></marker></defs>\n",
             height, title, lit_ink) +
         box(1, 1, 898, height - 2, "#fff", "#bbb") + text(20, 28, title, "start", 15, true) +
         text(20, 48, caption);
}

// ---- the ring

constexpr int ring_ranks = 4;
constexpr double slot = 10, chunk_height = 19, rank_pitch = 50, panel_pitch = 214;
using Holdings = std::vector<std::vector<unsigned>>;  // by rank and chunk: whose numbers

// One chunk on one rank: a slot for each rank whose number is in the sum.
std::string chunk_svg(double x, double y, unsigned whose, bool arrived) {
  std::string svg = box(x, y, ring_ranks * slot, chunk_height, "#fff");
  for (int rank = 0; rank < ring_ranks; ++rank)
    if ((whose >> rank & 1) != 0)
      svg += box(x + rank * slot, y, slot, chunk_height, timeline_color(rank)) +
             text(x + (rank + 0.5) * slot, y + 13.5, std::to_string(rank), "middle", 10);
  svg += box(x, y, ring_ranks * slot, chunk_height, "none", arrived ? lit_ink : "#777",
             arrived ? 2.5 : 0.8);
  if (arrived)
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}h8\" stroke=\"{}\" stroke-width=\"2\" "
        "marker-end=\"url(#tip)\"/>\n",
        x - 10, y + chunk_height / 2, lit_ink);
  return svg;
}

// All ranks after a round; round 0 is the start.
std::string panel(double x, double y, int round, const Holdings& held,
                  const std::vector<CollectiveMessage>& arrived) {
  const int half = ring_ranks - 1;
  std::string title = "start";
  if (round > 0)
    title = fmt::format("{} step {}", round <= half ? "reduce_scatter" : "all_gather",
                        round <= half ? round : round - half);
  std::string svg = text(x, y, title, "start", 12, true);
  for (int rank = 0; rank < ring_ranks; ++rank) {
    svg +=
        text(x + rank * rank_pitch + 2 * slot, y + 18, fmt::format("rank {}", rank), "middle", 11);
    for (int chunk = 0; chunk < ring_ranks; ++chunk) {
      const bool is_new =
          std::any_of(arrived.begin(), arrived.end(), [&](const CollectiveMessage& message) {
            return message.round == round && message.to == rank && message.chunk == chunk;
          });
      svg += chunk_svg(x + rank * rank_pitch, y + 26 + 24 * chunk,
                       held[static_cast<size_t>(rank)][static_cast<size_t>(chunk)], is_new);
    }
  }
  return svg;
}

std::string chunk_names(double x, double y) {
  std::string svg;
  for (int chunk = 0; chunk < ring_ranks; ++chunk)
    svg += text(x, y + 40 + 24 * chunk, std::string(1, static_cast<char>('a' + chunk)), "end", 12,
                true);
  return svg;
}

std::string ring_legend(double x, double y) {
  std::string svg = text(x, y, "legend", "start", 12, true);
  svg += chunk_svg(x, y + 26, 5, false) + text(x + 50, y + 40, "sum of ranks 0 and 2");
  svg += chunk_svg(x, y + 50, 15, false) + text(x + 50, y + 64, "the whole sum");
  svg += chunk_svg(x, y + 74, 3, true) + text(x + 50, y + 88, "came in this step, from");
  return svg + text(x + 50, y + 103, "the rank to the left") +
         text(x, y + 126, "a, b, c, d: the array's chunks");
}

// ---- the tree

constexpr int tree_ranks = 8;
constexpr double tree_left = 92, round_pitch = 122, tree_top = 112, tree_row = 38;

double round_x(int round) { return tree_left + round_pitch * round; }
double row_y(int rank) { return tree_top + tree_row * rank; }

// How many ranks' numbers a rank has.
std::string node(int round, int rank, unsigned whose) {
  const char* shades[] = {"#fff", "#e3eef9", "#bcd7ee", "#77aadd"};  // 1, 2, 4 and all
  const int many = std::popcount(whose);
  return box(round_x(round) - 15, row_y(rank) - 11, 30, 22,
             shades[std::bit_width(static_cast<unsigned>(many)) - 1], "#333") +
         text(round_x(round), row_y(rank) + 5, std::to_string(many), "middle");
}

std::string tree_frame(int rounds) {
  std::string svg;
  for (int rank = 0; rank < tree_ranks; ++rank) {
    svg += text(20, row_y(rank) + 4, fmt::format("rank {}", rank));
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#ccc\"/>\n", round_x(0),
                       row_y(rank), round_x(rounds));
  }
  for (int round = 0; round <= rounds; ++round)
    svg += text(round_x(round), tree_top - 20,
                round == 0 ? "start" : fmt::format("round {}", round), "middle", 11);
  svg += text(round_x(2), tree_top - 38, "reduce: up the tree, to rank 0", "middle", 12, true);
  return svg + text(round_x(5), tree_top - 38, "broadcast: down the tree", "middle", 12, true);
}

}  // namespace

std::vector<CollectiveMessage> collective_messages(int p, int chunks, const AllReduce& all_reduce) {
  return Rounds(calls_of(p, chunks, all_reduce)).messages();
}

std::string ring_svg() {
  const auto messages = collective_messages(ring_ranks, ring_ranks, all_reduce_ring);
  Holdings held(ring_ranks);
  for (size_t rank = 0; rank < ring_ranks; ++rank) held[rank].assign(ring_ranks, 1u << rank);
  std::string svg = paper(374, "The ring: all_reduce on 4 ranks",
                          "Every rank sends one chunk to the next rank in each step, rank 3 to "
                          "rank 0. The digits in a chunk say whose numbers have been added up.");
  for (int round = 0; round <= messages.back().round; ++round) {
    for (const CollectiveMessage& message : messages)
      if (message.round == round)
        held[static_cast<size_t>(message.to)][static_cast<size_t>(message.chunk)] |= message.whose;
    const double y = round < 4 ? 82 : 228;
    svg += panel(38 + panel_pitch * (round % 4), y, round, held, messages);
    if (round % 4 == 0) svg += chunk_names(20, y);
  }
  return svg + ring_legend(38 + panel_pitch * 3, 228) + "</svg>\n";
}

std::string tree_svg() {
  const auto messages = collective_messages(tree_ranks, 1, all_reduce_tree);
  std::vector<unsigned> held;
  std::string arrows, nodes;
  for (int rank = 0; rank < tree_ranks; ++rank) {
    held.push_back(1u << rank);
    nodes += node(0, rank, held.back());
  }
  for (const CollectiveMessage& message : messages) {
    unsigned& whose = held[static_cast<size_t>(message.to)];
    whose |= message.whose;
    nodes += node(message.round - 1, message.from, held[static_cast<size_t>(message.from)]) +
             node(message.round, message.to, whose);
    const double down = message.to > message.from ? 1 : -1;
    arrows += fmt::format(
        "<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" stroke-width=\"1.6\" "
        "marker-end=\"url(#tip)\"/>\n",
        round_x(message.round - 1) + 16, row_y(message.from) + 4 * down,
        round_x(message.round) - 16, row_y(message.to) - 6 * down, lit_ink);
  }
  return paper(424, "The tree: all_reduce on 8 ranks",
               "A binomial tree: the number of ranks that a sum holds doubles in every round, and "
               "so does the number of ranks that have the whole sum.") +
         tree_frame(messages.back().round) + arrows + nodes +
         text(20, 410,
              "A box: how many ranks' numbers the rank has now. An arrow: a message of the whole "
              "array, which takes one round.") +
         "</svg>\n";
}

}  // namespace yotta
