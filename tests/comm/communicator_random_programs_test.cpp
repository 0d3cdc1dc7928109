// Programs of random calls in which one rank deviates: it leaves a call out, makes another, throws,
// or returns. Whatever comes of it, each run ends: with the right values, or with an error that
// says something.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/not_run.hpp"
#include "support/ranks_here.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using yotta_test::enough_ranks;
using yotta_test::has_native;
using yotta_test::long_form;
using yotta_test::on_threads;
using yotta_test::ranks_here;

namespace {
constexpr int calls = 8;

enum class Deviation {
  none,
  leaves_out,
  other_count,
  other_call,
  other_rank,
  other_tag,
  throws,
  returns,
  kinds
};

struct Program {
  Program(uint64_t seed, int ranks, bool deviates) : p(ranks), random(seed, "program") {
    deviation = deviates
                    ? static_cast<Deviation>(1 + draw(1000, static_cast<int>(Deviation::kinds) - 1))
                    : deviation;
    rank = draw(1001, p);
    at = draw(1002, calls);
  }
  // A number from 0 to n - 1, the same on all ranks.
  int draw(int i, int n) const {
    return static_cast<int>(random.uniform(static_cast<uint64_t>(i)) * n);
  }

  int p;
  Random random;
  Deviation deviation = Deviation::none;
  int rank = 0, at = 0;  // who deviates, and in which call
};

// Does call `i` of the program; true if its values are right.
bool call(const Program& program, int i, Communicator& world, Deviation now) {
  const int p = program.p, me = world.rank();
  const int kind = (program.draw(10 * i, 6) + (now == Deviation::other_call ? 1 : 0)) % 6;
  const int count = 1 + program.draw(10 * i + 1, 2000) + (now == Deviation::other_count ? 1 : 0);
  const int root = (program.draw(10 * i + 2, p) + (now == Deviation::other_rank ? 1 : 0)) % p;
  const int tag = program.draw(10 * i + 3, 3) + (now == Deviation::other_tag ? 1 : 0);
  std::vector<int64_t> x(static_cast<size_t>(count), me), y(x.size(), -1);
  switch (kind) {
    case 0: world.all_reduce(x); return x.back() == p * (p - 1) / 2;
    case 1: world.broadcast(x, root); return x.back() == root;
    case 2: world.barrier(); return true;
    case 3: {
      Work work = world.all_reduce_async(x, ReduceOp::max);
      work.wait();
      return x.back() == p - 1;
    }
    case 4: {  // a shift around the ring
      const int by = 1 + root % (p - 1);
      world.send_recv(x, (me + by) % p, y, (me + p - by) % p, tag);
      return y.back() == (me + p - by) % p;
    }
    default:  // from one rank to another
      if (me == root) world.send(x, (root + 1) % p, tag);
      if (me == (root + 1) % p) world.recv(y, root, tag);
      return me != (root + 1) % p || y.back() == root;
  }
}

void run(const Program& program, Communicator& world, bool& is_right) {
  for (int i = 0; i < calls; ++i) {
    const bool deviates = world.rank() == program.rank && i == program.at;
    const Deviation now = deviates ? program.deviation : Deviation::none;
    if (now == Deviation::throws) throw std::runtime_error("this rank has had enough");
    if (now == Deviation::returns) return;
    if (now != Deviation::leaves_out && !call(program, i, world, now)) is_right = false;
  }
}

// What the run said; empty if it ended well.
std::string outcome(const Program& program) {
  try {
    run_ranks(program.p, [&](Communicator& world) {
      bool is_right = true;
      run(program, world, is_right);
      if (!is_right && program.deviation == Deviation::none) throw std::logic_error("wrong values");
    });
  } catch (const std::exception& error) {
    return *error.what() == 0 ? "an error without words" : error.what();
  }
  return "";
}
}  // namespace

TEST_CASE(
    "random programs: right values, or with a rank that deviates an error, and always an end") {
  if (!enough_ranks(2)) return;
  // MPI's processes start more slowly than others.
  const int on_processes = !long_form() ? 8 : has_native() ? 300 : 2000;
  const int on_threads_long = YOTTA_TSAN ? 2000 : 8000;
  const int programs = !on_threads() ? on_processes : long_form() ? on_threads_long : 100;
  int refused = 0, deviating = 0;
  for (int seed = 0; seed < programs; ++seed) {
    const std::vector<int> sizes = ranks_here({2 + seed % 4});
    const int p = sizes.empty() ? 2 : sizes[0];
    const bool deviates = seed % 4 != 0 && !yotta_test::waits_on_device();
    const Program program(static_cast<uint64_t>(seed), p, deviates);
    const std::string said = outcome(program);
    CAPTURE(seed);
    CAPTURE(said);
    if (program.deviation == Deviation::none) CHECK(said.empty());
    CHECK(said != "an error without words");
    deviating += deviates ? 1 : 0;
    refused += said.empty() ? 0 : 1;
  }
  // Some deviations are harmless: a call of a rank that has no part in it, a tag that nothing
  // reads.
  if (deviating > 0) CHECK(refused >= deviating / 2);
}
