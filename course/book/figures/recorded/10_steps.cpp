// An all_reduce, round by round: whose numbers each rank has, from the messages that are sent.
#include <algorithm>

#include "course/book/figures/recorded/record.hpp"
#include "course/pictures/collective_picture.hpp"
#include "yotta/comm/collectives_naive.hpp"
#include "yotta/comm/collectives_recursive.hpp"
#include "yotta/comm/collectives_ring.hpp"
#include "yotta/comm/collectives_tree.hpp"

namespace book {
namespace {

struct Way {
  const char *name, *function;
  void (*all_reduce)(yotta::Channel&, yotta::Data, yotta::ReduceOp);
};
using yotta::Channel;
using yotta::ReduceOp;
const Way ways[] = {
    {"naive", "naive", [](Channel& c, yotta::Data d, ReduceOp op) { all_reduce_naive(c, d, op); }},
    {"tree", "tree", [](Channel& c, yotta::Data d, ReduceOp op) { all_reduce_tree(c, d, op); }},
    {"recursive doubling", "recursive_doubling",
     [](Channel& c, yotta::Data d, ReduceOp op) { all_reduce_recursive_doubling(c, d, op); }},
    {"Rabenseifner", "rabenseifner",
     [](Channel& c, yotta::Data d, ReduceOp op) { all_reduce_rabenseifner(c, d, op); }},
    {"ring", "ring", [](Channel& c, yotta::Data d, ReduceOp op) { all_reduce_ring(c, d, op); }}};

Data data(const std::vector<double>& at) {
  const Way& way = ways[static_cast<size_t>(at[0])];
  const int p = static_cast<int>(at[1]), ranks = p;
  const std::vector<yotta::CollectiveMessage> all =
      yotta::collective_messages(p, p, way.all_reduce);
  int rounds = 0;
  for (const yotta::CollectiveMessage& each : all) rounds = std::max(rounds, each.round);
  const int now = std::min(static_cast<int>(at[2]), rounds);
  std::vector<unsigned> held;  // by rank and chunk: bit r is rank r's numbers
  for (int rank = 0; rank < ranks; ++rank) held.insert(held.end(), size_t(p), 1u << rank);
  std::vector<double> sent(static_cast<size_t>(p), 0);
  Row came{"came"};
  for (const yotta::CollectiveMessage& each : all) {
    sent[static_cast<size_t>(each.from)] += 1.0 / p;
    if (each.round > now) continue;
    held[static_cast<size_t>(each.to * p + each.chunk)] |= each.whose;
    if (each.round == now)
      came.values.insert(came.values.end(),
                         {double(each.from), double(each.to), double(each.chunk)});
  }
  Data made;
  made.numbers = {{"rounds", "", double(rounds), 6},
                  {"this is round", "", double(now), 6},
                  {"the busiest rank sends", "arrays", *std::max_element(sent.begin(), sent.end())},
                  {"chunks in this round", "", double(came.values.size() / 3), 6}};
  made.rows = {{"sizes", {double(p), double(now), double(rounds)}, {}},
               came,
               {"held", {held.begin(), held.end()}, {}}};
  made.code = fmt::format(
      "std::vector<double> x({}, 1.0 + world.rank());\n"
      "world.all_reduce(x, yotta::ReduceOp::sum, {{yotta::Algorithm::{}}});\n"
      "fmt::print(\"rank {{}}: {{}}\\n\", world.rank(), x[0]);",
      p, way.function);
  return made;
}

}  // namespace

Figure steps_figure() {
  std::vector<std::string> names;
  for (const Way& each : ways) names.emplace_back(each.name);
  return {"10_steps",
          "Each rank has an array in chunks, and all want the sum. Step by step: who sends what, "
          "who waits, and when is a chunk's sum whole? Run when this page was made.",
          {choice("all_reduce", names, 4),
           {"p, ranks", "", {2, 3, 4, 6}, 2},
           {"round", "", counted(0, 10), 2}},
          data};
}

}  // namespace book
