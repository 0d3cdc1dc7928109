// The graded cases of exercise 18. A schedule is a list, so all about it is found out without any
// rank: is it complete, can it run at all, how long does it take, how much must each stage hold?
// Messages are sent between ranks, which are threads here, and a send may wait for its receiver.
#include "course/cases/graded_pipeline.hpp"
#include "course/cases/graded_ranks.hpp"
#include "interface.hpp"
#include "yotta/core/random.hpp"
#include "yotta/parallel/pipeline.hpp"

using namespace yotta;
using exercise::beside;
using exercise::complaining;
using exercise::expect;
using exercise::solution;

namespace {

using Actions = exercise::Call<PipelineActions(int rank, int p, int64_t m)>;

PipelineSchedule schedule_of(Actions actions, int p, int64_t m) {
  PipelineSchedule made{"yours", p, p, m, {}};
  for (int rank = 0; rank < p; ++rank) made.by_rank.push_back(actions(rank, p, m));
  return made;
}

// What the library has in the place of this schedule.
PipelineSchedule right(const PipelineSchedule& yours, PipelineKind kind) {
  return make_schedule(kind, yours.ranks, yours.microbatches, yours.stages / yours.ranks);
}

// "p = 4, m = 8, your rank 1: 1F0 1F1 ..."
std::string rank_of(const PipelineSchedule& schedule, int rank) {
  return fmt::format("\n    p = {}, m = {}, your rank {}: {}", schedule.ranks,
                     schedule.microbatches, rank, str(schedule.by_rank[static_cast<size_t>(rank)]));
}

void expect_complete(const PipelineSchedule& schedule, PipelineKind kind) {
  complaining(schedule, right(schedule, kind), [&] { check_complete(schedule); });
  CHECK(true);
}
PipelineTimeline timeline_of(const PipelineSchedule& schedule, PipelineKind kind,
                             const PipelineCosts& costs = {}) {
  return complaining(schedule, right(schedule, kind), [&] { return simulate(schedule, costs); });
}

// Counts along the list, I and W included.
int64_t live(const PipelineActions& actions) { return yotta::most_in_flight(actions); }

// Some order in which twelve microbatches go forward and back, every third one in halves.
PipelineActions drawn_actions(int number) {
  const Random random(exercise::seed(18), fmt::format("actions {}", number));
  PipelineActions actions;
  int64_t forward = 0, back = 0;
  for (uint64_t i = 0; back < 12; ++i) {
    const bool may_go_on = forward < 12 && (forward == back || random.below(i, 2) == 0);
    if (may_go_on) {
      actions.push_back({0, PipelineOp::F, forward++});
    } else if (back % 3 == 2) {
      actions.push_back({0, PipelineOp::I, back});
      actions.push_back({0, PipelineOp::W, back++});
    } else {
      actions.push_back({0, PipelineOp::B, back++});
    }
  }
  return actions;
}

// Why a schedule has the larger bubble, if a rank has fewer microbatches in flight than it may;
// else empty.
std::string too_few_in_flight(const PipelineSchedule& yours, const PipelineSchedule& allowed) {
  for (size_t rank = 0; rank < yours.by_rank.size(); ++rank) {
    const int64_t held = live(yours.by_rank[rank]), needed = live(allowed.by_rank[rank]);
    if (held < needed)
      return fmt::format(
          ": rank {} never has more than {} of its microbatches in flight, and only {} keep it "
          "busy until the first B is back. Is the warm-up too short?",
          rank, held, needed);
  }
  return "";
}

void expect_busy(const PipelineSchedule& schedule, PipelineKind kind,
                 const PipelineCosts& costs = {}) {
  const PipelineSchedule allowed = right(schedule, kind);
  const double busy = simulate(allowed, costs).busy();
  const PipelineTimeline timeline = timeline_of(schedule, kind, costs);
  expect(timeline.busy() > busy - 1e-12,
         fmt::format("busy {:.1f}% of the time, expected {:.1f}%{}{}", 100 * timeline.busy(),
                     100 * busy, too_few_in_flight(schedule, allowed),
                     beside(schedule, allowed, costs)));
}

template <class Visit>
void each_size(Visit visit) {
  for (const int p : exercise::ranks({4, 1, 2, 3, 8}))
    for (const int64_t m : {8, 1, 3, 5, 16}) visit(p, m);
}

// The name of an action's result, as a number that is sent in its place.
double number_of(const PipelineAction& a) {
  return 1e6 * a.stage + 1e4 * static_cast<int>(a.op) + static_cast<double>(a.microbatch);
}
std::string name_of(double number) {
  const auto n = static_cast<int64_t>(number);
  return str(PipelineAction{static_cast<int>(n / 1000000), static_cast<PipelineOp>(n / 10000 % 100),
                            n % 10000});
}

// What a student is told, from inside of a rank.
class Misplayed : public Error {
 public:
  using Error::Error;
};

// Whose receive() and send() play a list: the student's, or the library's.
enum class Play { receive, send, both };

// Plays one rank's list. Tensors hold the name of the action that made them, `size` times.
void play(Communicator& pp, const PipelineSchedule& schedule, Play yours, int64_t size) {
  PipelineMessages library(pp, schedule);
  const auto student = solution.make_messages(pp, schedule);
  for (const PipelineAction& a : schedule.by_rank[static_cast<size_t>(pp.rank())]) {
    const Shape shape{size};
    const Tensor got =
        yours == Play::send ? library.receive(a, shape, DType::f64) : student->receive(a, shape);
    const int from = library.route(a).from;
    if (got.defined() != (from >= 0))
      fail_as<Misplayed>(Where::current(), "{} {}", str(a),
                         from < 0
                             ? "needs nothing from another stage, and receive() returns a tensor"
                             : "needs a tensor from another stage, and receive() returns none");
    if (from >= 0) {
      const double expected = number_of({from, a.op, a.microbatch}), found = got.values().back();
      if (found != expected)
        fail_as<Misplayed>(Where::current(), "{} needs what {} made, and got what {} made{}",
                           str(a), name_of(expected), found == 0 ? "nobody" : name_of(found),
                           yours == Play::receive
                               ? ""
                               : ". The tag is the receiver's, and the tensor must live on in "
                                 "sent_ until it has arrived");
    }
    Tensor made = Tensor::full(shape, number_of(a), DType::f64);
    if (yours == Play::receive)
      library.send(a, std::move(made));
    else
      student->send(a, std::move(made));
  }
  student->finish();
  library.finish();
}

// What the rank that failed has to say to a student; of other errors all.
std::string what_of(const RankFailed& failed) {
  try {
    std::rethrow_exception(failed.cause());
  } catch (const Misplayed& error) {
    return exercise::without_place(error);
  } catch (...) {
  }
  return failed.what();
}

// Plays a schedule on its ranks; a send waits for its receiver unless it is asynchronous. What went
// wrong, or nothing.
std::string complaint_of(const PipelineSchedule& schedule, Play yours) {
  RunOptions options;
  options.threads = 1;
  options.timeout = 3;
  options.buffered_sends = false;
  try {
    run_ranks(
        schedule.ranks, [&](Communicator& pp) { play(pp, schedule, yours, 4); }, options);
  } catch (const RankFailed& error) {
    exercise::rethrow_not_done(error.cause());
    return what_of(error);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_played(const PipelineSchedule& schedule, Play yours) {
  const std::string wrong = complaint_of(schedule, yours);
  expect(wrong.empty(),
         fmt::format("{}, p = {}, m = {}: in this run a send waits until its receiver takes the "
                     "message\n{}",
                     schedule.name, schedule.ranks, schedule.microbatches, wrong));
}

// Does send() of task 18.6 work, with the library's receive()?
bool sends(const PipelineSchedule& schedule) {
  try {
    return complaint_of(schedule, Play::send).empty();
  } catch (const NotDone&) {
    return false;
  }
}

// Does send() hand over to the next stage of its rank, and send no message?
bool hands_over(const PipelineSchedule& schedule) {
  try {
    const std::vector<RankReport> reports = exercise::run(1, [&](Communicator& pp) {
      const auto student = solution.make_messages(pp, schedule);
      student->send({0, PipelineOp::F, 0}, Tensor::zeros({4}, DType::f64));
      student->finish();
    });
    return reports[0].ledger().total_traffic().messages_sent == 0;
  } catch (const Error&) {
    return false;
  }
}

// 1F1B, GPipe, and backward in halves, with W at the end.
std::vector<PipelineSchedule> schedules() {
  std::vector<PipelineSchedule> all = {make_schedule(PipelineKind::one_f_one_b, 2, 4),
                                       make_schedule(PipelineKind::one_f_one_b, 4, 8),
                                       make_schedule(PipelineKind::gpipe, 3, 4)};
  PipelineSchedule halves = make_schedule(PipelineKind::one_f_one_b, 3, 4);
  halves.name = "1F1B in halves";
  for (PipelineActions& actions : halves.by_rank) {
    for (PipelineAction& a : actions)
      if (a.op == PipelineOp::B) a.op = PipelineOp::I;
    for (int64_t i = 0; i < 4; ++i) actions.push_back({actions[0].stage, PipelineOp::W, i});
  }
  all.push_back(halves);
  return all;
}
// Of ranks with several chunks, whose stages follow each other on different ranks.
std::vector<PipelineSchedule> interleaved() {
  return {make_schedule(PipelineKind::interleaved, 2, 4, 2),
          make_schedule(PipelineKind::interleaved, 3, 6, 3)};
}

}  // namespace

TEST_CASE("18.1: every microbatch goes forward, and then every one backward, on every stage") {
  each_size([](int p, int64_t m) {
    const PipelineSchedule schedule = schedule_of(solution.gpipe, p, m);
    expect_complete(schedule, PipelineKind::gpipe);
    for (int rank = 0; rank < p; ++rank) {
      const PipelineActions& actions = schedule.by_rank[static_cast<size_t>(rank)];
      for (int64_t i = 0; i < 2 * m; ++i) {
        const bool forward = actions[static_cast<size_t>(i)].op == PipelineOp::F;
        expect(forward == (i < m), "GPipe runs all F before the first B" +
                                       beside(schedule, right(schedule, PipelineKind::gpipe)));
      }
    }
    expect_busy(schedule, PipelineKind::gpipe);
  });
}

TEST_CASE("18.2: every microbatch goes forward and backward once on every stage") {
  each_size([](int p, int64_t m) {
    if (m >= p) expect_complete(schedule_of(solution.one_f_one_b, p, m), PipelineKind::one_f_one_b);
  });
}

TEST_CASE("18.2: nobody waits forever") {
  each_size([](int p, int64_t m) {
    if (m >= p) timeline_of(schedule_of(solution.one_f_one_b, p, m), PipelineKind::one_f_one_b);
  });
  CHECK(true);
}

TEST_CASE("18.2: no stage holds more than it must") {
  each_size([](int p, int64_t m) {
    if (m < p) return;
    const PipelineSchedule schedule = schedule_of(solution.one_f_one_b, p, m);
    const bool same_bubble =
        timeline_of(schedule, PipelineKind::one_f_one_b).busy() > 1 - bubble_of_total(p, m) - 1e-12;
    for (int rank = 0; rank < p; ++rank) {
      const PipelineActions& actions = schedule.by_rank[static_cast<size_t>(rank)];
      const int64_t held = live(actions), allowed = std::min<int64_t>(p - rank, m);
      if (held <= allowed) continue;  // too few make a larger bubble: the next case
      std::string wrong =
          fmt::format("stage {} holds {} microbatches at once, {} allowed", rank, held, allowed);
      if (rank == 0 && held == p + 1)
        wrong =
            "stage 0 holds p+1 microbatches at once, and p are enough: the first B is back after p "
            "- 1 more "
            "stages, so the warm-up is one F too long";
      if (held == m && m > p - rank + 1)
        wrong = fmt::format(
            "right, and the {}bubble, {} live, {} allowed: all F before the first B is GPipe. Run "
            "each "
            "microbatch backward as soon as it can be",
            same_bubble ? "same " : "", held, allowed);
      FAIL((wrong + rank_of(schedule, rank) +
            beside(schedule, right(schedule, PipelineKind::one_f_one_b))));
    }
  });
  CHECK(true);
}

TEST_CASE("18.2: the bubble is GPipe's, (p-1)/(m+p-1)") {
  each_size([](int p, int64_t m) {
    if (m >= p) expect_busy(schedule_of(solution.one_f_one_b, p, m), PipelineKind::one_f_one_b);
  });
}

TEST_CASE("18.2: with fewer microbatches than ranks, only those that exist") {
  for (const auto& [p, m] : {std::pair{5, 3}, {8, 5}, {8, 1}, {3, 2}}) {
    const PipelineSchedule schedule = schedule_of(solution.one_f_one_b, p, m);
    expect_complete(schedule, PipelineKind::one_f_one_b);
    expect_busy(schedule, PipelineKind::one_f_one_b);
  }
}

TEST_CASE("18.3: the most microbatches that have gone forward and not yet backward") {
  each_size([](int p, int64_t m) {
    for (int rank = 0; rank < p; ++rank)
      for (const PipelineActions& actions :
           {gpipe_actions(rank, p, m), one_f_one_b_actions(rank, p, m)}) {
        const int64_t counted = solution.most_in_flight(actions);
        expect(counted == live(actions), fmt::format("you count {}, there are {}\n    {}", counted,
                                                     live(actions), str(actions)));
      }
  });
  expect(solution.most_in_flight({}) == 0, "an empty list holds nothing");
}

TEST_CASE("18.3: with dgrad and wgrad apart, a Saved lives until wgrad") {
  using Op = PipelineOp;
  const PipelineActions late = {{0, Op::F, 0}, {0, Op::I, 0}, {0, Op::F, 1},
                                {0, Op::I, 1}, {0, Op::W, 0}, {0, Op::W, 1}};
  const int64_t counted = solution.most_in_flight(late);
  expect(counted == 2, fmt::format("{}: you count {}, there are 2: after I (dgrad) wgrad still "
                                   "needs its Saved; only W, or the whole B, ends it",
                                   str(late), counted));
  const PipelineActions at_once = {{0, Op::F, 0}, {0, Op::I, 0}, {0, Op::W, 0},
                                   {0, Op::F, 1}, {0, Op::I, 1}, {0, Op::W, 1}};
  const int64_t each = solution.most_in_flight(at_once);
  expect(each == 1, fmt::format("{}: you count {}, there is 1: W ends its microbatch, so the "
                                "count goes down again before the next F",
                                str(at_once), each));
}

TEST_CASE("18.3: a rank with several chunks, each of which has its own microbatches") {
  for (const auto& [p, v] : {std::pair{2, 2}, {4, 2}, {3, 3}})
    for (const PipelineActions& actions :
         make_schedule(PipelineKind::interleaved, p, 2 * p, v).by_rank) {
      const int64_t counted = solution.most_in_flight(actions), there = live(actions);
      expect(counted == there,
             fmt::format("{}: you count {}, there are {}: a microbatch is in flight once for each "
                         "stage of this rank that it has gone through, and numbers begin anew on "
                         "each",
                         str(actions), counted, there));
    }
}

TEST_CASE("18.3: any list, also one that goes up and down several times") {
  using Op = PipelineOp;
  const PipelineActions twice = {{0, Op::F, 0}, {0, Op::B, 0}, {0, Op::F, 1},
                                 {0, Op::F, 2}, {0, Op::B, 1}, {0, Op::B, 2}};
  const PipelineActions early = {{0, Op::F, 0}, {0, Op::F, 1}, {0, Op::F, 2}, {0, Op::B, 0},
                                 {0, Op::B, 1}, {0, Op::F, 3}, {0, Op::B, 2}, {0, Op::B, 3}};
  for (const PipelineActions& actions : {twice, early}) {
    const int64_t counted = solution.most_in_flight(actions), there = live(actions);
    expect(counted == there,
           fmt::format("{}: you count {}, there are {}: walk along the whole list, the highest "
                       "count may come before or after a B",
                       str(actions), counted, there));
  }
  for (int i = 0; i < 16; ++i) {
    const PipelineActions actions = drawn_actions(i);
    const int64_t counted = solution.most_in_flight(actions), there = live(actions);
    expect(counted == there,
           fmt::format("{}: you count {}, there are {}", str(actions), counted, there));
  }
}

TEST_CASE("18.4: F goes down the stages, B and I go up, W stays where it is") {
  for (const auto& [p, v] : {std::pair{4, 1}, {1, 1}, {2, 1}, {2, 3}}) {
    const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, p, p, v);
    const auto messages = solution.make_messages({}, schedule);
    const PipelineMessages library({}, schedule);
    for (const PipelineOp op : {PipelineOp::F, PipelineOp::B, PipelineOp::I, PipelineOp::W})
      for (int stage = 0; stage < schedule.stages; ++stage) {
        const PipelineAction a{stage, op, 0};
        const auto [from, to] = messages->route(a);
        const PipelineMessages::Route right_one = library.route(a);
        std::string why;
        if (op == PipelineOp::W) why = ": a weight gradient is made and used on its own stage";
        if (from >= schedule.stages || to >= schedule.stages)
          why = ": there is no such stage; the last one begins its backward with the loss";
        if (from == right_one.to && to == right_one.from && from != to)
          why = ": that is the other direction";
        expect(from == right_one.from && to == right_one.to,
               fmt::format("{} of {} stages: you say it receives from stage {} and sends to {}, it "
                           "is {} and {} (-1: none){}",
                           str(a), schedule.stages, from, to, right_one.from, right_one.to, why));
      }
  }
}

TEST_CASE("18.5: every action receives what the same action of the next stage made") {
  for (const PipelineSchedule& schedule : schedules()) expect_played(schedule, Play::receive);
  for (const PipelineSchedule& schedule : interleaved()) expect_played(schedule, Play::receive);
}

// Only a send() that works shows what receive() lets go of: until then there is nothing to see
// here.
TEST_CASE("18.5: what was sent and has arrived is let go, and nothing that is on its way") {
  const int64_t size = 4096, m = 16;
  const PipelineSchedule schedule = make_schedule(PipelineKind::one_f_one_b, 2, m);
  expect_played(schedule, Play::receive);
  if (!sends(schedule)) return;
  for (const PipelineSchedule& each : interleaved()) {
    const std::string wrong = sends(each) ? complaint_of(each, Play::both) : "";
    expect(wrong.empty(),
           fmt::format("{}, p = {}, m = {}: your send() works with the library's receive(), and "
                       "not with yours: release() is told the action of the other rank whose "
                       "result has come, {{from, a.op, a.microbatch}}\n{}",
                       each.name, each.ranks, each.microbatches, wrong));
  }
  std::vector<int64_t> peak(2);
  exercise::run(2, [&](Communicator& pp) {
    play(pp, schedule, Play::both, size);
    peak[static_cast<size_t>(pp.rank())] =
        context().ledger.memory()->peak(MemoryKind::activations) / (size * 8);
  });
  for (int rank = 0; rank < 2; ++rank)
    expect(peak[static_cast<size_t>(rank)] <= 8,
           fmt::format("1F1B, p = 2, m = 16: rank {} holds {} tensors at once, where at most 8 are "
                       "needed. A tensor that was sent stays in sent_ until receive() calls "
                       "release(), or until the step ends",
                       rank, peak[static_cast<size_t>(rank)]));
}

// What is handed over stays in the student's own PipelineMessages: until send() does it there is
// nothing to see here.
TEST_CASE("18.5: between stages of one rank what was handed over, and no message") {
  const PipelineSchedule schedule = make_schedule(PipelineKind::interleaved, 1, 2, 3);
  expect_played(make_schedule(PipelineKind::gpipe, 2, 2), Play::receive);
  if (!hands_over(schedule)) return;
  const std::string wrong = complaint_of(schedule, Play::both);
  expect(wrong.empty(),
         fmt::format("one rank with 3 stages: what a stage of this rank made is there already, "
                     "handed_over(a)\n{}",
                     wrong));
}

TEST_CASE("18.6: every result is sent to who needs it, and nobody waits forever") {
  for (const PipelineSchedule& schedule : schedules()) expect_played(schedule, Play::send);
  for (const PipelineSchedule& schedule : interleaved()) expect_played(schedule, Play::send);
}

TEST_CASE("18.6: stages of one rank hand over, without any message") {
  for (const int v : {2, 3})
    expect_played(make_schedule(PipelineKind::interleaved, 1, 2, v), Play::both);
}

TEST_CASE(
    "18.7: interleaved: every microbatch goes through every chunk, and nobody waits forever") {
  for (const int p : exercise::ranks({2, 3, 4, 1}))
    for (const int v : {2, 3})
      for (const int64_t m : {int64_t{2} * p, int64_t{p} + 1}) {
        PipelineSchedule schedule{"yours", p, p * v, m, {}};
        for (int rank = 0; rank < p; ++rank)
          schedule.by_rank.push_back(solution.interleaved(rank, p, m, v));
        timeline_of(schedule, PipelineKind::interleaved);
      }
  CHECK(true);
}

TEST_CASE("18.7: interleaved: the bubble is (p-1)/(vm+p-1), and no rank holds more than it must") {
  for (const int p : exercise::ranks({2, 3, 4, 1}))
    for (const int v : {2, 3}) {
      const int64_t m = 2 * p;
      PipelineSchedule schedule{"yours", p, p * v, m, {}};
      for (int rank = 0; rank < p; ++rank)
        schedule.by_rank.push_back(solution.interleaved(rank, p, m, v));
      expect_busy(schedule, PipelineKind::interleaved);
      for (int rank = 0; rank < p; ++rank) {
        const int64_t held = live(schedule.by_rank[static_cast<size_t>(rank)]);
        const int64_t allowed = in_flight_interleaved(rank, p, m, v);
        expect(
            held <= allowed,
            fmt::format("rank {} holds {} chunks' microbatches at once, {} allowed{}", rank, held,
                        allowed, beside(schedule, right(schedule, PipelineKind::interleaved))));
      }
    }
}

// F, I and W of 1, and messages of a quarter: so 2 (p-1-rank) forwards more are needed, and not
// half of them.
TEST_CASE(
    "18.7: interleaved: a rank has enough to do until its first B is back, also if messages "
    "take time") {
  for (const int p : exercise::ranks({2, 3, 4}))
    for (const int v : {2, 3}) {
      PipelineSchedule schedule{"yours", p, p * v, 2 * p, {}};
      for (int rank = 0; rank < p; ++rank)
        schedule.by_rank.push_back(solution.interleaved(rank, p, 2 * p, v));
      expect_busy(schedule, PipelineKind::interleaved, {1, 1, 1, 0.25});
    }
}

TEST_CASE("18.7: with one chunk it is 1F1B") {
  for (const int p : {2, 4}) {
    const PipelineSchedule allowed = make_schedule(PipelineKind::one_f_one_b, p, 2 * p);
    PipelineSchedule schedule{"yours", p, p, 2 * p, {}};
    for (int rank = 0; rank < p; ++rank)
      schedule.by_rank.push_back(solution.interleaved(rank, p, 2 * p, 1));
    expect_complete(schedule, PipelineKind::one_f_one_b);
    for (int rank = 0; rank < p; ++rank) {
      const int64_t held = live(schedule.by_rank[static_cast<size_t>(rank)]);
      expect(held <= in_flight_1f1b(rank, p, 2 * p),
             fmt::format("v = 1: rank {} holds {} microbatches at once, {} allowed, as 1F1B{}",
                         rank, held, in_flight_1f1b(rank, p, 2 * p), beside(schedule, allowed)));
    }
    expect_busy(schedule, PipelineKind::one_f_one_b);
  }
}
