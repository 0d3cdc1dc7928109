// The graded cases of exercise 27. Timelines are written by hand here, so that each second is
// known.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "course/cases/graded.hpp"
#include "interface.hpp"

using namespace yotta;
using exercise::Counted;
using exercise::expect;
using exercise::OpParts;
using exercise::Parts;
using exercise::solution;

namespace {

bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(1.0, std::abs(b)); }

// A small model of two layers: C 8, 4 heads of 2, F 16, V 10.
CountedModel small() { return {2, 8, 4, 4, 2, 16, 2, 10, true}; }

// 10 FLOP/s in f32, 20 in bf16; 5 bytes/s; 0.5 s for a launch.
Chip small_chip() {
  Chip chip = ideal_chip(10);
  chip.bf16 = 20, chip.bandwidth = 5, chip.launch_overhead = 0.5;
  return chip;
}
MfuMachine small_machine() { return mfu_machine(small_chip(), DType::bf16); }

TraceEvent event(EventKind kind, double begin, double end, const char* name, EventId cause = {}) {
  return {kind, kind == EventKind::send ? -1 : compute_lane, begin, end, name, cause};
}
// A matrix product in bf16 that takes so long, as described but for `late`.
TraceEvent product(double begin, double end, double late = 0) {
  TraceEvent op = event(EventKind::op, begin, end, "linear");
  op.dtype = DType::bf16;
  op.flops = 20 * (end - begin - late - 0.5);
  return op;
}
double of(const Waterfall& fall, Loss loss) {
  double sum = 0;
  for (const LostTime& each : fall.lost)
    if (each.loss == loss) sum += each.seconds;
  return sum;
}
double of_label(const Waterfall& fall, const std::string& name) {
  double sum = 0;
  for (const LostTime& each : fall.lost)
    if (each.loss == Loss::communication && each.name == name) sum += each.seconds;
  return sum;
}
double sum_of(const Waterfall& fall) {
  double sum = fall.model_flops / fall.peak;
  for (const LostTime& each : fall.lost) sum += each.seconds;
  return sum;
}

// Rank 0 waits from 2 to 9 for a message: rank 1 computed from 0 to 6 (`late` of it too long) and
// sent from 6 to 9.
Trace waiting(double late = 0) {
  Trace trace;
  trace.ranks.resize(2);
  trace.ranks[1] = {product(0, 6, late), event(EventKind::send, 6, 9, "pp", {1, 0})};
  trace.ranks[0] = {product(0, 2), event(EventKind::wait, 2, 9, "wait", {1, 1})};
  return trace;
}
Waterfall waited(const Trace& trace) {
  Waterfall fall{20, 2, 9, 0};
  solution.add_wait(fall, trace, trace.ranks[0][1].cause, 2, 9, small_machine(), 1);
  return fall;
}

}  // namespace

// ---- 27.1 ----

TEST_CASE("27.1: the output matrix is multiplied once") {
  const double found = solution.forward_flops(small(), 6, Counted::none).output;
  expect(
      found == 2 * 10 * 8,
      fmt::format("V 10, C 8: {} FLOPs per token of the output matrix, not {}. Each weight costs "
                  "a multiplication and an addition; the token table is looked up",
                  found, 2 * 10 * 8));
  CountedModel untied = small();
  untied.tied = false;
  const double with_table = solution.forward_flops(untied, 6, Counted::none).output;
  expect(
      with_table == 2 * 10 * 8,
      fmt::format("V 10, C 8, a token table of its own: {} FLOPs per token, not {}. A row of the "
                  "table is copied, which is no product",
                  with_table, 2 * 10 * 8));
}

TEST_CASE("27.1: grouped queries have fewer keys and values") {
  CountedModel m = small();
  const auto check = [&](double right, const std::string& why) {
    const double found = solution.forward_flops(m, 6, Counted::none).projections;
    expect(found == right, fmt::format("L 2, C 8, H {}, K {}, d {}: {} FLOPs of q, k, v and o, not "
                                       "{}. {}",
                                       m.heads, m.kv_heads, m.head_size, found, right, why));
  };
  check(2 * 2 * 4 * 8 * 8, "Four matrices a layer, of C times H d or K d");
  m.kv_heads = 1;
  check(2 * 2 * (2 * 8 * 8 + 2 * 8 * 2), "Keys and values have K heads, not H");
  m.head_size = 4;
  check(2 * 2 * (2 * 8 * 16 + 2 * 8 * 4), "H d need not be C");
}

TEST_CASE("27.1: scores cost FLOPs that no weight stands for") {
  const auto scores = [](Counted counted) {
    return solution.forward_flops(small(), 6, counted).scores;
  };
  const double all = 2 * 4 * 4 * 2 * 6;
  expect(scores(Counted::all) == all,
         fmt::format("L 2, H 4, d 2, T 6: {} FLOPs per token of all scores, not {}. A token has T "
                     "scores a head, of 2 d FLOPs each, and weighs T values with them. 6 N leaves "
                     "them out",
                     scores(Counted::all), all));
  expect(scores(Counted::causal) == all / 2,
         fmt::format("{} FLOPs of causal scores, not {}: a causal mask leaves half, on average",
                     scores(Counted::causal), all / 2));
  expect(scores(Counted::none) == 0, "Scores::none counts no scores");
  CountedModel grouped = small();
  grouped.kv_heads = 1, grouped.head_size = 4;
  const double found = solution.forward_flops(grouped, 6, Counted::all).scores;
  expect(found == 2 * 4 * 4 * 4 * 6,
         fmt::format("L 2, C 8, H 4, K 1, d 4, T 6: {} FLOPs of all scores, not {}. Each of the H "
                     "heads has scores of its own, of d numbers: heads that share a key share no "
                     "scores, and H d need not be C",
                     found, 2 * 4 * 4 * 4 * 6));
}

TEST_CASE("27.1: feed-forward: a gate, and the experts that a token meets") {
  CountedModel m = small();
  const auto check = [&](double right, const std::string& why) {
    const double found = solution.forward_flops(m, 6, Counted::none).feed_forward;
    expect(found == right,
           fmt::format("L 2, C 8, F 16, matrices {}, experts {}, active {}, shared {}: {} "
                       "FLOPs of the feed-forward, not {}. {}",
                       m.matrices, m.experts, m.active, m.shared, found, right, why));
  };
  check(2 * 2 * 2 * 8 * 16, "One expert has no router");
  m.matrices = 3;
  check(2 * 2 * 3 * 8 * 16, "With a gate there are three matrices");
  m.experts = 8, m.active = 2;
  check(2 * 2 * (2 * 3 * 8 * 16 + 8 * 8),
        "A token meets 2 of 8 experts, and the router, C times the experts");
  m.shared = 1;
  check(2 * 2 * (3 * 3 * 8 * 16 + 8 * 8),
        "A token meets 2 of 8 experts and the shared one; the router does not choose that");
}

TEST_CASE("27.1: models of other sizes") {
  exercise::Drawn drawn(27, "models");
  for (int i = 0; i < 4; ++i) {
    CountedModel m{.layers = drawn(1, 9), .width = drawn(5, 40), .kv_heads = drawn(1, 4)};
    m.heads = m.kv_heads * drawn(1, 3), m.head_size = drawn(1, 9), m.feed_forward = drawn(5, 90);
    m.matrices = drawn(2, 3), m.vocabulary = drawn(5, 60), m.experts = drawn(2, 8);
    m.active = drawn(1, 2), m.shared = drawn(0, 2);
    const int64_t T = drawn(2, 50), C = m.width, d = m.head_size;
    const Parts found = solution.forward_flops(m, static_cast<double>(T), Counted::all);
    const auto check = [&](const char* what, double part, int64_t right) {
      expect(part == static_cast<double>(right),
             fmt::format("L {}, C {}, H {}, K {}, d {}, F {}, V {}, matrices {}, experts {}, "
                         "active {}, shared {}, T {}: {} FLOPs per token of the {}, not {}",
                         m.layers, C, m.heads, m.kv_heads, d, m.feed_forward, m.vocabulary,
                         m.matrices, m.experts, m.active, m.shared, T, part, what, right));
    };
    check("projections", found.projections, m.layers * 4 * C * d * (m.heads + m.kv_heads));
    check("scores", found.scores, m.layers * 4 * m.heads * d * T);
    check("feed-forward", found.feed_forward,
          m.layers * 2 * C * ((m.active + m.shared) * m.matrices * m.feed_forward + m.experts));
    check("output matrix", found.output, 2 * C * m.vocabulary);
  }
}

// ---- 27.2 ----

namespace {
double tokens() { return exercise::size("T", 6, 7, 60); }
}  // namespace

TEST_CASE("27.2: nothing again is three forward passes") {
  for (const Counted counted : {Counted::all, Counted::causal}) {
    const Parts f = solution.forward_flops(small(), tokens(), counted);
    const double found = solution.hardware_flops(small(), tokens(), counted, Recomputed::none);
    const double right = 3 * (f.projections + f.scores + f.feed_forward + f.output);
    expect(same(found, right),
           fmt::format("{} scores: {} FLOPs, not {}: backward has two products for each one of "
                       "forward, and `scores` says which scores count",
                       counted == Counted::all ? "all" : "causal", found, right));
  }
}

TEST_CASE("27.2: what is computed again is a forward pass") {
  for (const Counted counted : {Counted::all, Counted::causal}) {
    const Parts f = solution.forward_flops(small(), tokens(), counted);
    const auto more = [&](Recomputed again) {
      return solution.hardware_flops(small(), tokens(), counted, again) -
             solution.hardware_flops(small(), tokens(), counted, Recomputed::none);
    };
    const char* which = counted == Counted::all ? "all" : "causal";
    const double scores = more(Recomputed::attention);
    expect(same(scores, f.scores),
           fmt::format("attention again, {} scores: {} FLOPs more, not {}. Its forward alone is "
                       "computed again, with the scores that are counted; its backward is computed "
                       "once either way",
                       which, scores, f.scores));
    const double blocks = more(Recomputed::all), right = f.projections + f.scores + f.feed_forward;
    expect(same(blocks, right),
           fmt::format("blocks again, {} scores: {} FLOPs more, not {}{}", which, blocks, right,
                       same(blocks, right + f.output) ? ": the output matrix is outside of the "
                                                        "blocks, and is not computed again"
                                                      : ": one more forward pass of all blocks"));
  }
}

// ---- 27.3 ----

TEST_CASE("27.3: the median of the steps after the warm-up") {
  const exercise::Log log{{30, 1, 2, 1, 11, 2, 2}, 1, 8, 1, 1, 64, false};
  const double found = solution.mfu_of_log(log, 4), right = 4 * 8 / 2.0 / 64;
  const char* why = same(found, 4 * 8 / (19.0 / 6) / 64)
                        ? "that is the mean: one slow step moves it"
                    : found < right ? "the warm-up counts, or slow steps move it"
                                    : "take the middle of the six steps after the first";
  expect(same(found, right),
         fmt::format("steps of 30, 1, 2, 1, 11, 2, 2 s, the first one warm-up: MFU {:.4f}, not "
                     "{:.4f}: {}",
                     found, right, why));
  // The warm-up is faster here, so it would move the median down.
  const exercise::Log cold{{1, 1, 1, 5, 5}, 3, 8, 1, 1, 64, false};
  expect(same(solution.mfu_of_log(cold, 4), 4 * 8 / 5.0 / 64),
         "steps of 1, 1, 1, 5, 5 s, three of them warm-up: the warm-up counts");
}

TEST_CASE("27.3: tokens of the whole step") {
  const exercise::Log log{{2, 2, 2}, 0, 8, 4, 16, 64, false};
  const double found = solution.mfu_of_log(log, 4), right = 4 * 8 * 4 / 2.0 / (16 * 64);
  const char* why =
      same(found, right / 4) ? "these are one rank's tokens; 4 ranks share the batch"
      : same(found, right * 4)
          ? "chips of tp, cp and pp work on the same tokens: only 4 of the 16 have their own"
          : "tokens per second of all ranks, over the peak of all chips";
  expect(same(found, right), fmt::format("8 tokens per rank, 4 ranks with a share of the batch, 16 "
                                         "chips: MFU {:.4f}, not {:.4f}: {}",
                                         found, right, why));
}

TEST_CASE("27.3: the dense peak") {
  const exercise::Log log{{2, 2, 2}, 0, 8, 4, 16, 128, true};
  const double found = solution.mfu_of_log(log, 4), right = 4 * 8 * 4 / 2.0 / (16 * 64);
  expect(same(found, right),
         fmt::format("a printed peak of 128 with an asterisk: MFU {:.4f}, not {:.4f}. The figure "
                     "for sparse matrices is twice the dense one",
                     found, right));
}

TEST_CASE("27.3: logs of other runs") {
  exercise::Drawn drawn(27, "logs");
  for (int i = 0; i < 4; ++i) {
    exercise::Log log{{}, drawn(0, 3), 1.0 * drawn(1, 99), drawn(1, 9), 0, 1e3, drawn(0, 1) == 1};
    log.chips = log.data_ranks * drawn(1, 9);
    for (int64_t step = log.warm_up + 1 + 2 * drawn(1, 4); step > 0; --step)
      log.step_seconds.push_back(drawn(1, 99));
    const double found = solution.mfu_of_log(log, 4);
    std::vector<double> counted(log.step_seconds.begin() + log.warm_up, log.step_seconds.end());
    std::sort(counted.begin(), counted.end());
    const double right = 4 * log.tokens_a_rank * static_cast<double>(log.data_ranks) /
                         counted[counted.size() / 2] /
                         (static_cast<double>(log.chips) * (log.sparse ? 500 : 1000));
    expect(same(found, right),
           fmt::format("steps of {} s, {} of them warm-up, {} tokens per rank, {} ranks with a "
                       "share of the batch, {} chips, a printed peak of 1000{}: MFU {:.6f}, not "
                       "{:.6f}",
                       fmt::join(log.step_seconds, ", "), log.warm_up, log.tokens_a_rank,
                       log.data_ranks, log.chips, log.sparse ? " with an asterisk" : "", found,
                       right));
  }
}

TEST_CASE("27.3: a log without steps after the warm-up is refused") {
  const std::string error = exercise::error_of([] {
    solution.mfu_of_log({{1, 1, 1}, 3, 8, 1, 1, 64, false}, 4);
  });
  expect(
      error.find("warm-up") != std::string::npos,
      "3 steps, all of them warm-up: fail(where, \"...\") must say so, and speak of the warm-up");
  const std::string longer = exercise::error_of([] {
    solution.mfu_of_log({{1, 1, 1}, 5, 8, 1, 1, 64, false}, 4);
  });
  expect(longer.find("warm-up") != std::string::npos,
         "3 steps and a warm-up of 5 of them: that must be refused too, as no step is left");
}

TEST_CASE("27.3: a step of no time is refused") {
  for (const double none : {0.0, -1.0})
    expect(
        !exercise::error_of([&] {
           solution.mfu_of_log({{1, none, 1}, 0, 8, 1, 1, 64, false}, 4);
         }).empty(),
        fmt::format("a log with a step of {} s has an MFU by your answer: it is an error", none));
}

// ---- 27.4 ----

TEST_CASE("27.4: the roofline takes the longer of the two") {
  TraceEvent op = event(EventKind::op, 0, 9, "linear");
  op.dtype = DType::bf16, op.flops = 40, op.bytes = 5;
  const OpParts fast = solution.op_time(op, small_machine());
  expect(same(fast.counted + fast.wider + fast.memory, 2),
         fmt::format("40 FLOPs at 20 FLOP/s and 5 bytes at 5 bytes/s: {} s, not 2. A chip computes "
                     "and moves, both at once",
                     fast.counted + fast.wider + fast.memory));
  op.bytes = 25;
  const OpParts slow = solution.op_time(op, small_machine());
  expect(same(slow.counted, 2) && same(slow.memory, 3),
         fmt::format("40 FLOPs and 25 bytes take 5 s: 2 s are counted and 3 s wait for memory, not "
                     "{} and {}",
                     slow.counted, slow.memory));
  op.name = "gelu", op.bytes = 50;
  const OpParts other = solution.op_time(op, small_machine());
  expect(same(other.counted, 0) && same(other.memory, 10) && same(other.wider, 0),
         fmt::format("gelu is no matrix product: all of its 10 s wait for memory, not {} s",
                     other.memory));
  op.bytes = 5;
  const double longest = solution.op_time(op, small_machine()).memory;
  expect(same(longest, 2),
         fmt::format("gelu with 40 FLOPs and 5 bytes takes 2 s by the roofline, as its FLOPs take "
                     "longer than its bytes. The line of memory has all that is no matrix product, "
                     "and found {} s",
                     longest));
}

TEST_CASE("27.4: the launch, and the type") {
  TraceEvent op = event(EventKind::op, 0, 9, "linear");
  op.dtype = DType::f32, op.flops = 40, op.bytes = 5;
  const OpParts found = solution.op_time(op, small_machine());
  expect(same(found.launch, 0.5),
         fmt::format("{} s of launch, not the chip's launch_overhead of 0.5 s", found.launch));
  expect(
      same(found.wider, 2) && same(found.counted, 2),
      fmt::format("f32 products at the peak of bf16? 40 FLOPs at 10 FLOP/s take 4 s: counted are "
                  "2 s, at the peak counted against, and 2 s are the wider type's, not {}",
                  found.wider));
  op.bytes = 25;
  const OpParts slow = solution.op_time(op, small_machine());
  expect(same(slow.counted, 2) && same(slow.wider, 2) && same(slow.memory, 1),
         fmt::format("40 FLOPs of f32 and 25 bytes take 5 s: 2 s are counted, 2 s are the wider "
                     "type's and 1 s waits for memory, not {}, {} and {}",
                     slow.counted, slow.wider, slow.memory));
}

TEST_CASE("27.4: products of other sizes") {
  exercise::Drawn drawn(27, "products");
  for (int i = 0; i < 4; ++i) {
    TraceEvent op = event(EventKind::op, 0, 9, "linear");
    op.dtype = drawn(0, 1) == 0 ? DType::bf16 : DType::f32;
    op.flops = drawn(1, 400), op.bytes = drawn(1, 200);
    const OpParts found = solution.op_time(op, small_machine());
    const auto bytes = static_cast<double>(op.bytes);
    const double counted = op.flops / 20, wider = op.dtype == DType::f32 ? counted : 0,
                 memory = std::max(0.0, bytes / 5 - counted - wider);
    expect(same(found.counted, counted) && same(found.wider, wider) && same(found.memory, memory),
           fmt::format("{} FLOPs of {} and {} bytes, at 10 FLOP/s in f32, 20 in bf16 and 5 "
                       "bytes/s: {} s are counted, {} s the wider type's and {} s wait for "
                       "memory, not {}, {} and {}",
                       op.flops, name(op.dtype), op.bytes, counted, wider, memory, found.counted,
                       found.wider, found.memory));
  }
}

// ---- 27.5 ----

TEST_CASE("27.5: parts add up to the wait") {
  const Waterfall fall = waited(waiting());
  const double sum = sum_of(fall);
  expect(
      same(sum, 7),
      fmt::format("a wait of 7 s has parts of {} s together{}", sum,
                  sum > 7 ? ", longer than the wait: rank 1 began its work before rank 0 began to "
                            "wait, and that part is no wait"
                          : ""));
  // A wait can end after its cause: what lies between is the cause's, not nobody's.
  const Trace trace = waiting();
  Waterfall later{20, 2, 10, 0};
  solution.add_wait(later, trace, trace.ranks[0][1].cause, 2, 10, small_machine(), 1);
  expect(
      same(sum_of(later), 8),
      fmt::format("a wait from 2 to 10 for a message that came at 9: the parts have {} s, not 8. "
                  "A part ends where the one after it in time begins, which may be later than its "
                  "event's end",
                  sum_of(later)));
}

TEST_CASE("27.5: what happened after the wait is no part of it") {
  // A window may end within a wait: here it is looked at until 4 s alone, when rank 1 computed.
  const Trace trace = waiting();
  Waterfall fall{20, 2, 4, 0};
  solution.add_wait(fall, trace, trace.ranks[0][1].cause, 2, 4, small_machine(), 1);
  expect(same(of_label(fall, "pp"), 0) && same(of(fall, Loss::bubble), 2),
         fmt::format("a wait from 2 to 4, and a message from 6 to 9 in its chain: {} s are "
                     "communication, not 0, and {} s bubble, not 2. An event that begins after the "
                     "wait's end has no part of it",
                     of_label(fall, "pp"), of(fall, Loss::bubble)));
}

TEST_CASE("27.5: messages are communication, operations are bubble") {
  const Waterfall fall = waited(waiting());
  expect(same(of_label(fall, "pp"), 3),
         fmt::format("the message \"pp\" took 3 s of the wait, and {} s are communication by that "
                     "name. A message counts by its label",
                     of_label(fall, "pp")));
  expect(same(of(fall, Loss::bubble), 4),
         fmt::format("rank 1's work took 4 s of the wait, and {} s are bubble",
                     of(fall, Loss::bubble)));
}

TEST_CASE("27.5: a slow operation's share is a straggler's") {
  const Waterfall fall = waited(waiting(3));  // 3 of its 6 s are too long, so 2 of the 4 waited for
  expect(same(of(fall, Loss::straggler), 2),
         fmt::format("half of rank 1's operation was longer than described, so 2 of the 4 s that "
                     "rank 0 waited for it are a straggler's, not {}",
                     of(fall, Loss::straggler)));
  expect(same(of(fall, Loss::bubble), 2), "the other half is bubble");
}

TEST_CASE("27.5: waits of other lengths") {
  exercise::Drawn drawn(27, "waits");
  for (int i = 0; i < 4; ++i) {
    const int wait = drawn(1, 5), sent = wait + drawn(1, 9), end = sent + drawn(1, 9),
              late = drawn(0, wait);
    Trace trace = waiting();
    trace.ranks[1] = {product(0, sent, late), event(EventKind::send, sent, end, "pp", {1, 0})};
    trace.ranks[0] = {product(0, wait), event(EventKind::wait, wait, end, "wait", {1, 1})};
    Waterfall fall{20, 2, 9, 0};
    solution.add_wait(fall, trace, {1, 1}, wait, end, small_machine(), 1);
    const double straggler = 1.0 * late / sent * (sent - wait);
    expect(same(of_label(fall, "pp"), end - sent) && same(of(fall, Loss::straggler), straggler) &&
               same(of(fall, Loss::bubble), sent - wait - straggler),
           fmt::format("rank 0 waits from {} to {}; rank 1 computed until {}, {} s of it longer "
                       "than described, then sent: {} s are communication, {} s a straggler's and "
                       "{} s bubble, not {}, {} and {}",
                       wait, end, sent, late, of_label(fall, "pp"), of(fall, Loss::straggler),
                       of(fall, Loss::bubble), end - sent, straggler, sent - wait - straggler));
  }
}

// ---- 27.6 ----

namespace {

// Rank 0: from 0 to 4, from 5 to 8. Rank 1: from 0 to 3, then it has ended.
Trace with_gaps() {
  Trace trace;
  trace.ranks = {{product(0, 4), product(5, 8)}, {product(0, 3)}};
  trace.ranks[0][1].cause = {0, 0};
  return trace;
}

}  // namespace

TEST_CASE("27.6: every second of every rank, once") {
  const Waterfall fall = solution.waterfall(with_gaps(), small_machine(), 100, 0, 8);
  expect(same(of(fall, Loss::between), 1),
         fmt::format("rank 0 did nothing from 4 to 5: {} s are between two operations, not 1",
                     of(fall, Loss::between)));
  const double idle = of(fall, Loss::bubble) + of(fall, Loss::communication);
  expect(same(idle, 5),
         fmt::format("rank 1 ended at 3 and the run at 8: {} s count as waiting, not 5. What comes "
                     "after a rank's last event is a wait for the rank that ends last",
                     idle));
  expect(same(sum_of(fall), 16),
         fmt::format("2 ranks and 8 s are 16 s, and the lines have {}", sum_of(fall)));
}

TEST_CASE("27.6: a window that begins later, and one of no time") {
  const Waterfall fall = solution.waterfall(with_gaps(), small_machine(), 100, 2, 8);
  expect(
      same(sum_of(fall), 12),
      fmt::format("2 ranks and the 6 s from 2 to 8 are 12 s, and the lines have {}", sum_of(fall)));
  expect(same(fall.seconds, 6), fmt::format("from 2 to 8 are 6 s, not {}", fall.seconds));
  const Waterfall late = solution.waterfall(with_gaps(), small_machine(), 100, 5, 8);
  expect(
      same(sum_of(late), 6),
      fmt::format("2 ranks and the 3 s from 5 to 8 are 6 s, and the lines have {}: what has ended "
                  "before counts nothing",
                  sum_of(late)));
  for (const double end : {2.0, 1.0})
    expect(!exercise::error_of([&] {
              solution.waterfall(with_gaps(), small_machine(), 100, 2, end);
            }).empty(),
           fmt::format("there is no time from 2 s to {} s: it is an error", end));
}

TEST_CASE("27.6: a wait has its own cause, and messages have a lane of their own") {
  Trace trace = waiting();
  const Waterfall ended = solution.waterfall(trace, small_machine(), 0, 0, 9);
  expect(same(of_label(ended, "pp"), 6),
         fmt::format("rank 0 waits for \"pp\" from 6 to 9, and rank 1, which has ended, for rank "
                     "0: {} s are communication, not 6. Look at the compute lane alone; both "
                     "waits are add_wait's",
                     of_label(ended, "pp")));
  trace.ranks[1].push_back(product(6, 20));  // while its message travels, and after
  trace.ranks[1][2].cause = {1, 0};
  const Waterfall fall = solution.waterfall(trace, small_machine(), 0, 0, 20);
  expect(same(of_label(fall, "pp"), 3),
         fmt::format("rank 0 waits from 2 to 9, the last 3 s for the message \"pp\", and {} s are "
                     "communication. A wait's chain begins at its own cause, and an ended rank's "
                     "at `last`",
                     of_label(fall, "pp")));
  expect(same(of(fall, Loss::bubble), 15),
         fmt::format("rank 0 waits 4 s for rank 1's work and 11 s more when it has ended: {} s are "
                     "bubble, not 15. Rank 1's message is on another lane, and it computed "
                     "meanwhile",
                     of(fall, Loss::bubble)));
}

TEST_CASE("27.6: recomputation is what was computed beyond the model") {
  // Products of 3.5, 2.5 and 2.5 s at 20 FLOP/s: 170 FLOPs.
  const Waterfall fall = solution.waterfall(with_gaps(), small_machine(), 100, 0, 8);
  expect(same(of(fall, Loss::recomputation), 70 / 20.0),
         fmt::format("170 FLOPs were computed and the model needs 100: {} s are recomputation, not "
                     "3.5. What is computed a second time is not useful",
                     of(fall, Loss::recomputation)));
  expect(same(fall.model_flops, 100), "the model's FLOPs are those of its formula");
  const Waterfall counted = solution.waterfall(with_gaps(), small_machine(), 200, 0, 8);
  expect(
      same(of(counted, Loss::recomputation), -30 / 20.0),
      fmt::format("170 FLOPs were computed and the formula counts 200, as with the scores that a "
                  "causal kernel leaves out: {} s are recomputation, not -1.5. Less than 0 is "
                  "right here, or the lines do not add up to the time",
                  of(counted, Loss::recomputation)));
}

TEST_CASE("27.6: only what lies in the window") {
  const Waterfall fall = solution.waterfall(with_gaps(), small_machine(), 0, 2, 6);
  expect(same(of(fall, Loss::launch), 0.5 * (2 / 4.0 + 1 / 3.0 + 1 / 3.0)),
         fmt::format("from 2 to 6: {:.4f} s of launches, not {:.4f}. An operation that crosses the "
                     "window's end counts in part: cut it there",
                     of(fall, Loss::launch), 0.5 * (2 / 4.0 + 1 / 3.0 + 1 / 3.0)));
  expect(same(sum_of(fall), 8),
         fmt::format("2 ranks and 4 s are 8 s, and the lines have {}", sum_of(fall)));
}

TEST_CASE("27.6: gaps of other lengths") {
  exercise::Drawn drawn(27, "gaps");
  for (int i = 0; i < 4; ++i) {
    const int first = drawn(2, 9), second = first + drawn(1, 9), end = second + drawn(2, 9),
              other = drawn(1, first);
    Trace trace;
    trace.ranks = {{product(0, first), product(second, end)}, {product(0, other)}};
    const Waterfall fall = solution.waterfall(trace, small_machine(), 100, 0, end);
    const double idle = of(fall, Loss::bubble) + of(fall, Loss::communication);
    expect(same(of(fall, Loss::between), second - first) && same(idle, end - other) &&
               same(sum_of(fall), 2 * end),
           fmt::format("rank 0 works from 0 to {} and from {} to {}, rank 1 from 0 to {}: {} s are "
                       "between two operations, {} s wait and all lines have {} s, not {}, {} and "
                       "{}",
                       first, second, end, other, of(fall, Loss::between), idle, sum_of(fall),
                       second - first, end - other, 2 * end));
  }
}
