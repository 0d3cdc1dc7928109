#include "course/pictures/collective_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>

#include "course/pictures/svg.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/machine/pictures/timeline.hpp"

namespace yotta {

namespace {

// What one rank did in one call of the channel; -1: it sent to nobody, or received from nobody.
struct Call {
  int to = -1, from = -1;
  std::vector<double> sent = {};
};

// A channel that passes all on, and writes down what was called.
class RecordingChannel : public Channel {
 public:
  RecordingChannel(Channel& channel, std::vector<Call>& calls) : channel_(channel), calls_(calls) {}
  int rank() const override { return channel_.rank(); }
  int size() const override { return channel_.size(); }
  void send(ConstData data, int to, Where where) override {
    calls_.push_back({to, -1, numbers_in(data)});
    channel_.send(data, to, where);
  }
  void recv(Data data, int from, Where where) override {
    calls_.push_back({-1, from});
    channel_.recv(data, from, where);
  }
  void send_recv(ConstData outgoing, int to, Data incoming, int from, Where where) override {
    calls_.push_back({to, from, numbers_in(outgoing)});
    channel_.send_recv(outgoing, to, incoming, from, where);
  }

 private:
  static std::vector<double> numbers_in(ConstData data) {
    const auto* first = reinterpret_cast<const double*>(data.bytes);
    return {first, first + data.count};
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
      return std::tuple(a.round, a.from, a.chunk) < std::tuple(b.round, b.from, b.chunk);
    });
    return messages_;
  }

 private:
  struct OnItsWay {
    int left;  // the round after which it left
    std::vector<double> sums;
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
      for (const double sum : arriving.front().sums) add(round_[rank] + 1, call.from, me, sum);
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
      "stroke=\"{}\" stroke-width=\"{}\"/>\n",
      x, y, width, height, fill, stroke, line);
}
std::string paper(int height, const std::string& title, const std::string& caption) {
  return svg::head(900, height, title) +
         fmt::format(
             "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
             "markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" "
             "orient=\"auto\"><path d=\"M0 0L8 4L0 8Z\" fill=\"{}\"/></marker></defs>\n",
             lit_ink) +
         box(1, 1, 898, height - 2, "#fff", "#bbb") + text(20, 28, title, "start", 15, true) +
         text(20, 48, caption);
}

// ---- the ring, and Rabenseifner

constexpr int ring_ranks = 4;
constexpr double slot = 10, chunk_height = 19;
using Holdings =
    std::vector<std::vector<unsigned>>;  // by rank and chunk: whose numbers; 0: given away

Holdings at_the_start() {
  Holdings held(ring_ranks);
  for (size_t rank = 0; rank < ring_ranks; ++rank) held[rank].assign(ring_ranks, 1u << rank);
  return held;
}
unsigned& held_by(Holdings& held, int rank, int chunk) {
  return held[static_cast<size_t>(rank)][static_cast<size_t>(chunk)];
}

// How far apart ranks and panels are, where a panel's ranks begin below its title, and whether all
// messages come from the rank to the left.
struct PanelForm {
  double rank_pitch, panel_pitch, ranks_at;
  bool from_left;
};
constexpr PanelForm ring_form = {50, 214, 18, true}, halving_form = {62, 290, 40, false};

// One chunk on one rank: a slot for each rank whose number is in the sum.
std::string chunk_svg(double x, double y, unsigned whose, bool arrived, bool from_left = true) {
  std::string svg = box(x, y, ring_ranks * slot, chunk_height, whose == 0 ? "#e8e8e8" : "#fff");
  for (int rank = 0; rank < ring_ranks; ++rank)
    if ((whose >> rank & 1) != 0)
      svg += box(x + rank * slot, y, slot, chunk_height, timeline_color(rank)) +
             text(x + (rank + 0.5) * slot, y + 13.5, std::to_string(rank), "middle", 10);
  svg += box(x, y, ring_ranks * slot, chunk_height, "none", arrived ? lit_ink : "#777",
             arrived ? 2.5 : 0.8);
  if (arrived && from_left)
    svg += fmt::format(
        "<path d=\"M{:.1f} {:.1f}h8\" stroke=\"{}\" stroke-width=\"2\" "
        "marker-end=\"url(#tip)\"/>\n",
        x - 10, y + chunk_height / 2, lit_ink);
  return svg;
}

// All ranks after a round; round 0 is the start.
std::string panel(double x, double y, int round, const std::string& title, const Holdings& held,
                  const std::vector<CollectiveMessage>& arrived, const PanelForm& form) {
  std::string svg = text(x, y, title, "start", 12, true);
  for (int rank = 0; rank < ring_ranks; ++rank) {
    const double left = x + rank * form.rank_pitch, top = y + form.ranks_at;
    svg += text(left + 2 * slot, top, fmt::format("rank {}", rank), "middle", 11);
    for (int chunk = 0; chunk < ring_ranks; ++chunk) {
      const bool is_new =
          std::any_of(arrived.begin(), arrived.end(), [&](const CollectiveMessage& message) {
            return message.round == round && message.to == rank && message.chunk == chunk;
          });
      svg += chunk_svg(left, top + 8 + 24 * chunk,
                       held[static_cast<size_t>(rank)][static_cast<size_t>(chunk)], is_new,
                       form.from_left);
    }
  }
  return svg;
}

std::string ring_title(int round) {
  const int half = ring_ranks - 1;
  if (round == 0) return "start";
  return fmt::format("{} step {}", round <= half ? "reduce_scatter" : "all_gather",
                     round <= half ? round : round - half);
}

std::string chunk_names(double x, double y, const PanelForm& form) {
  std::string svg;
  for (int chunk = 0; chunk < ring_ranks; ++chunk)
    svg += text(x, y + form.ranks_at + 22 + 24 * chunk,
                std::string(1, static_cast<char>('a' + chunk)), "end", 12, true);
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

// Arcs above the ranks of a panel: who swaps with whom in a round.
std::string partners(double x, double y, int round, const std::vector<CollectiveMessage>& all) {
  std::string svg;
  for (int rank = 0; rank < ring_ranks; ++rank)
    for (const CollectiveMessage& message : all) {
      if (message.round != round || message.from != rank || message.to < rank) continue;
      const double middle = x + 2 * slot, pitch = halving_form.rank_pitch;
      for (const auto& [from, to] : {std::pair{rank, message.to}, {message.to, rank}})
        svg += fmt::format(
            "<path d=\"M{0:.1f} {1:.1f}C{0:.1f} {2:.1f} {3:.1f} {2:.1f} {3:.1f} {1:.1f}\" "
            "fill=\"none\" stroke=\"{4}\" stroke-width=\"2\" marker-end=\"url(#tip)\"/>\n",
            middle + from * pitch, y + 29, y + 29 - 13 * std::sqrt(message.to - rank),
            middle + to * pitch, lit_ink);
      break;
    }
  return svg;
}

std::string halving_title(int round, int rounds, const std::vector<CollectiveMessage>& all) {
  if (round == 0) return "start";
  const auto one = std::find_if(all.begin(), all.end(),
                                [&](const CollectiveMessage& each) { return each.round == round; });
  const int half = rounds / 2;
  return fmt::format("{} step {}: partners {} apart", round <= half ? "halving" : "doubling",
                     round <= half ? round : round - half, one->from ^ one->to);
}

// What the ranks have after a round. In the halving a rank adds what comes, and is done with what
// it sends.
void apply_round(int round, int rounds, const std::vector<CollectiveMessage>& all, Holdings& held) {
  for (const CollectiveMessage& message : all) {
    if (message.round != round) continue;
    held_by(held, message.to, message.chunk) |= message.whose;
    if (round <= rounds / 2) held_by(held, message.from, message.chunk) = 0;
  }
}

std::string halving_legend(double x, double y) {
  return text(x, y, "legend", "start", 12, true) + chunk_svg(x, y + 16, 5, false) +
         text(x + 50, y + 30, "sum of ranks 0 and 2") + chunk_svg(x, y + 40, 15, false) +
         text(x + 50, y + 54, "the whole sum") + chunk_svg(x, y + 64, 3, true, false) +
         text(x + 50, y + 78, "came in this step from a partner,") +
         text(x + 50, y + 93, "and was added or put in place") + chunk_svg(x, y + 100, 0, false) +
         text(x + 50, y + 114, "given away to a partner") +
         text(x, y + 137, "a, b, c, d: chunks. Arc: partners swap");
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
  Holdings held = at_the_start();
  std::string svg = paper(374, "The ring: all_reduce on 4 ranks",
                          "In each step a rank sends one chunk to the next, rank 3 to rank 0. The "
                          "digits in a chunk say whose numbers are in the sum.");
  const double pitch = ring_form.panel_pitch;
  for (int round = 0; round <= messages.back().round; ++round) {
    for (const CollectiveMessage& message : messages)
      if (message.round == round) held_by(held, message.to, message.chunk) |= message.whose;
    const double y = round < 4 ? 82 : 228;
    svg += panel(38 + pitch * (round % 4), y, round, ring_title(round), held, messages, ring_form);
    if (round % 4 == 0) svg += chunk_names(20, y, ring_form);
  }
  return svg + ring_legend(38 + pitch * 3, 228) + "</svg>\n";
}

std::string rabenseifner_svg() {
  const auto messages = collective_messages(ring_ranks, ring_ranks, all_reduce_rabenseifner);
  const int rounds = messages.back().round;
  Holdings held = at_the_start();
  std::string svg = paper(420, "Rabenseifner's algorithm: all_reduce on 4 ranks",
                          "Halving: partners swap halves of what they are left with, and add. "
                          "Doubling: the same way back, without adding.");
  const double pitch = halving_form.panel_pitch;
  for (int round = 0; round <= rounds; ++round) {
    apply_round(round, rounds, messages, held);
    const double x = 38 + pitch * (round % 3), y = round < 3 ? 82 : 256;
    svg +=
        panel(x, y, round, halving_title(round, rounds, messages), held, messages, halving_form) +
        partners(x, y, round, messages);
    if (round % 3 == 0) svg += chunk_names(20, y, halving_form);
  }
  return svg + halving_legend(38 + pitch * 2, 256) + "</svg>\n";
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
               "In each round up a sum holds twice as many ranks' numbers; in each round down "
               "twice as many ranks have the whole sum.") +
         tree_frame(messages.back().round) + arrows + nodes +
         text(20, 410,
              "A box: how many ranks' numbers the rank has now. An arrow: a message of the whole "
              "array, which takes one round.") +
         "</svg>\n";
}

}  // namespace yotta
