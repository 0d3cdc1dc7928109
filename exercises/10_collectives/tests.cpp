// The graded cases of exercise 10. Sends are unbuffered: an order that only works by luck shows.
#include <array>

#include "course/cases/graded.hpp"
#include "interface.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"

using namespace yotta;
using exercise::expect;
using exercise::solution;
using exercise::variant;

namespace {

constexpr double untouched = -77;  // what output buffers hold before
constexpr int64_t slack = 8;       // elements behind each output, to see who writes past the end

// What the statement of a variant tells: whose chunk is whose, and which way round the ring goes;
// 0: either way is right.
int chunk_of(int rank, int p) { return wrap(rank + std::max(0, exercise::told("10.own") - 1), p); }
int way_told() { return std::array{0, 1, -1}.at(static_cast<size_t>(exercise::told("10.way"))); }

// Each rank's n numbers, and what they add up to (or the largest of them).
struct Inputs {
  std::vector<Numbers> parts;
  Numbers result;
};

Inputs make_inputs(int p, int64_t n, ReduceOp op) {
  Inputs inputs{{}, Numbers(static_cast<size_t>(n))};
  for (int r = 0; r < p; ++r) {
    const Random random(exercise::seed(10), "rank " + std::to_string(r));
    Numbers part;
    for (int64_t i = 0; i < n; ++i) part.push_back(random.normal(static_cast<uint64_t>(i)));
    for (size_t i = 0; i < part.size(); ++i) {
      double& sofar = inputs.result[i];
      const bool first = r == 0;
      sofar = op == ReduceOp::sum ? sofar + part[i] : first ? part[i] : std::max(sofar, part[i]);
    }
    inputs.parts.push_back(part);
  }
  return inputs;
}

// An output of `count` elements with room behind it.
struct Output {
  explicit Output(int64_t elements)
      : numbers(static_cast<size_t>(elements + slack), untouched), count(elements) {}
  Data data() { return Data(numbers).part(0, count); }
  std::span<const double> values() const {
    return std::span(numbers).first(static_cast<size_t>(count));
  }
  bool overrun() const {
    return std::any_of(numbers.end() - slack, numbers.end(),
                       [](double x) { return x != untouched; });
  }
  Numbers numbers;
  int64_t count;
};

Verdict compare_output(const Output& actual, std::span<const double> expected, const Clues& clues) {
  Verdict verdict = compare(actual.values(), expected, 1e-12, clues);
  if (verdict && actual.overrun())
    verdict = {false, clues.what + ": something was written behind its end"};
  return verdict;
}

constexpr const char* about_sends =
    "Here a send waits until its receiver is there. If all ranks send before they receive, nobody "
    "is: "
    "send_recv does both at once.";

constexpr const char* about_counts =
    "Chunks differ in length by one, so this shows that one rank sends another chunk than its "
    "neighbour expects. In a step rank r sends to r + 1 what r + 1 will take for it: does the "
    "index "
    "follow the direction of the ring, and do you pass on what came last?";

// body(channel) on p ranks. Returns what each rank sent.
template <class Body>
std::vector<Traffic> run(int p, Body body) {
  RunOptions options;
  options.buffered_sends = false;
  options.timeout = 3;
  options.threads = 1;
  std::vector<Traffic> sent;
  const auto on_each_rank = [&](Communicator& world) { world.collective("your ring", body); };
  for (const RankReport& report : run_ranks(p, on_each_rank, options))
    sent.push_back(report.ledger().total_traffic());
  return sent;
}

// What trial() says; what it throws is a verdict too.
template <class Trial>
Verdict tried(Trial trial) {
  try {
    return trial();
  } catch (const RankFailed& error) {
    exercise::rethrow_not_done(error.cause());
    return {false, error.what()};
  } catch (const Deadlock& error) {
    return {false, std::string(error.what()) + "\n" + about_sends};
  } catch (const NotDone&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const bool counts_differ = text.find("same count and type") != std::string::npos;
    return {false, counts_differ ? text + "\n" + about_counts : text};
  }
}

// A verdict for each number of ranks. What works for powers of two only is told so.
template <class Trial>
void expect_for_all_ranks(Trial trial) {
  std::string first, right, wrong;
  bool powers_right = true, others_wrong = true;
  for (const int p : {1, 2, 3, 4, static_cast<int>(variant("ranks", 5, 5, 7)), 8}) {
    Verdict verdict;
    for (const int64_t n : {variant("elements", 17, 17, 40), int64_t{1}, int64_t{0}})
      if (verdict) verdict = tried([&] { return trial(p, n); });
    const bool power = (p & (p - 1)) == 0;
    powers_right = powers_right && (!power || verdict);
    others_wrong = others_wrong && (power || !verdict);
    std::string& list = verdict ? right : wrong;
    list += (list.empty() ? "" : ", ") + std::to_string(p);
    if (!verdict && first.empty())
      first = fmt::format("with {} {}: {}", p, p == 1 ? "rank" : "ranks", verdict.text);
    if (!verdict && p == 1 && verdict.text.find("send_recv") != std::string::npos)
      first += "\n    one rank has all chunks: p - 1 steps are none, and nothing is sent";
  }
  if (powers_right && others_wrong)
    first = fmt::format(
        "right for {} ranks and wrong for {}: does something hold for powers of two only?\n{}",
        right, wrong, first);
  expect(wrong.empty(), first);
}

Clues clues_for(const Inputs& inputs, const std::string& what) {
  Clues clues;
  clues.what = fmt::format("{}, {} elements", what, inputs.result.size());
  clues.ranks = static_cast<int>(inputs.parts.size());
  return clues;
}

Verdict try_reduce_scatter(int p, int64_t n, ReduceOp op) {
  const Inputs inputs = make_inputs(p, n, op);
  std::vector<Output> out;
  for (int r = 0; r < p; ++r) out.emplace_back(chunk_count(n, p, chunk_of(r, p)));
  run(p, [&](Channel& ring) {
    const auto r = static_cast<size_t>(ring.rank());
    solution.reduce_scatter_ring(ring, inputs.parts[r], out[r].data(), op);
  });
  for (int r = 0; r < p; ++r) {
    Clues clues = clues_for(inputs, fmt::format("{}, chunk of rank {}", name(op), r));
    clues.whole = inputs.result;
    clues.chunk = chunk_of(r, p);
    const auto begin = chunk_begin(n, p, clues.chunk), end = chunk_begin(n, p, clues.chunk + 1);
    for (const Numbers& part : inputs.parts)
      clues.parts.emplace_back(part.begin() + begin, part.begin() + end);
    clues.before = Numbers(static_cast<size_t>(end - begin), untouched);
    const Numbers expected(inputs.result.begin() + begin, inputs.result.begin() + end);
    if (Verdict verdict = compare_output(out[static_cast<size_t>(r)], expected, clues); !verdict)
      return verdict;
  }
  return {};
}

// The output lies where the chunk does in the input, as all_reduce has it.
Verdict try_in_place(int p, int64_t n) {
  const Inputs inputs = make_inputs(p, n, ReduceOp::sum);
  std::vector<Numbers> data = inputs.parts;
  run(p, [&](Channel& ring) {
    const Data mine(data[static_cast<size_t>(ring.rank())]);
    solution.reduce_scatter_ring(ring, mine, mine.chunk(chunk_of(ring.rank(), p), p),
                                 ReduceOp::sum);
  });
  for (int r = 0; r < p; ++r) {
    const int chunk = chunk_of(r, p);
    const auto begin = chunk_begin(n, p, chunk), end = chunk_begin(n, p, chunk + 1);
    const Numbers expected(inputs.result.begin() + begin, inputs.result.begin() + end);
    const Numbers& all = data[static_cast<size_t>(r)];
    Clues clues = clues_for(inputs, fmt::format("chunk of rank {}, summed in its own place", r));
    Verdict verdict = compare(std::span(all).subspan(static_cast<size_t>(begin), expected.size()),
                              expected, 1e-12, clues);
    if (!verdict)
      verdict.text +=
          "\n    `out` is rank r's chunk of `in` here: whoever writes there before this rank's own "
          "numbers are added loses them. Sum in a buffer of your own, and copy at the end";
    if (!verdict) return verdict;
  }
  return {};
}

Verdict try_all_gather(int p, int64_t n, bool in_place = false) {
  const Inputs inputs = make_inputs(1, n, ReduceOp::sum);
  const Numbers& whole = inputs.result;
  std::vector<Output> out(static_cast<size_t>(p), Output(n));
  run(p, [&](Channel& ring) {
    const int own = chunk_of(ring.rank(), p);
    const Numbers chunk(whole.begin() + chunk_begin(n, p, own),
                        whole.begin() + chunk_begin(n, p, own + 1));
    const Data all = out[static_cast<size_t>(ring.rank())].data(), place = all.chunk(own, p);
    if (in_place) copy_data(ConstData(chunk), place);
    solution.all_gather_ring(ring, in_place ? ConstData(place) : ConstData(chunk), all);
  });
  for (int r = 0; r < p; ++r) {
    Clues clues =
        clues_for(inputs, fmt::format("what rank {} has gathered{}", r,
                                      in_place ? ", with `in` in its place in `out` before" : ""));
    clues.ranks = p;
    clues.before = Numbers(whole.size(), untouched);
    if (Verdict verdict = compare_output(out[static_cast<size_t>(r)], whole, clues); !verdict)
      return verdict;
  }
  return {};
}

Verdict try_all_reduce(int p, int64_t n, ReduceOp op) {
  const Inputs inputs = make_inputs(p, n, op);
  std::vector<Output> data;
  for (const Numbers& part : inputs.parts) {
    data.emplace_back(n);
    std::copy(part.begin(), part.end(), data.back().numbers.begin());
  }
  run(p, [&](Channel& ring) {
    solution.all_reduce_ring(ring, data[static_cast<size_t>(ring.rank())].data(), op);
  });
  for (size_t r = 0; r < data.size(); ++r) {
    Clues clues = clues_for(inputs, fmt::format("{} on rank {}", name(op), r));
    clues.parts = inputs.parts;
    clues.before = inputs.parts[r];
    if (Verdict verdict = compare_output(data[r], inputs.result, clues); !verdict) return verdict;
  }
  return {};
}

// The sums of f32. Who takes them for doubles writes twice as many bytes, so there is room behind.
Verdict try_f32(int p, int64_t n) {
  using Floats = std::vector<float>;
  const auto room = static_cast<size_t>(2 * n + slack);
  std::vector<Floats> in(static_cast<size_t>(p), Floats(room)), out = in;
  for (int r = 0; r < p; ++r)
    for (int64_t i = 0; i < n; ++i)
      in[static_cast<size_t>(r)][static_cast<size_t>(i)] = static_cast<float>(r + i);
  run(p, [&](Channel& ring) {
    const auto r = static_cast<size_t>(ring.rank());
    solution.reduce_scatter_ring(ring, Data(in[r]).part(0, n),
                                 Data(out[r]).part(0, chunk_count(n, p, chunk_of(ring.rank(), p))),
                                 ReduceOp::sum);
  });
  for (int r = 0; r < p; ++r) {
    const int64_t begin = chunk_begin(n, p, chunk_of(r, p));
    for (int64_t i = 0; i < chunk_count(n, p, chunk_of(r, p)); ++i) {
      const auto sum = static_cast<float>(p * (begin + i)) + static_cast<float>(p * (p - 1)) / 2;
      const float got = out[static_cast<size_t>(r)][static_cast<size_t>(i)];
      if (got != sum)
        return {false, fmt::format("{} numbers of f32: number {} of the chunk of rank {} is {:g}, "
                                   "expected {:g}\n    a buffer has the type of `in`, as "
                                   "scratch(count, in) has",
                                   n, i, r, got, sum)};
    }
  }
  return {};
}

// Elements that a rank sends on one way round, when all chunks but that of rank `other` pass
// through its hands.
int64_t all_but(int other, int64_t n, int p) { return n - chunk_count(n, p, chunk_of(other, p)); }

// "rank 0 sent 48 elements in 3 messages; a ring sends 24 in 6"
Verdict compare_traffic(const std::vector<Traffic>& sent, int64_t messages,
                        const std::function<int64_t(int rank)>& elements) {
  for (int r = 0; r < std::ssize(sent); ++r) {
    const Traffic& traffic = sent[static_cast<size_t>(r)];
    const auto actual = traffic.bytes_sent / static_cast<int64_t>(sizeof(double));
    if (actual != elements(r) || traffic.messages_sent != messages)
      return {false, fmt::format("rank {} sent {} elements in {} messages; a ring sends {} in {}",
                                 r, actual, traffic.messages_sent, elements(r), messages)};
  }
  return {};
}

constexpr const char* about_the_way =
    "\n    in this variant of the exercise every rank sends to one and the same neighbour: read "
    "which "
    "in the statement";

// An all_gather may go either way round, and keeps its neighbour's chunk: the next rank's (1), or
// the previous one's (-1). The verdict on one of the two, if it is right there on all ranks; else
// that on the first. Where one is told, it is the only one.
template <class Trial>
Verdict either_way(Trial trial) {
  if (way_told() == 0) {
    const Verdict first = trial(1);
    return !first && trial(-1) ? Verdict{} : first;
  }
  Verdict verdict = trial(way_told());
  if (!verdict && trial(-way_told())) verdict.text += about_the_way;
  return verdict;
}

// What a rank receives in a reduce_scatter tells the way round: all but the chunk that begins with
// it.
Verdict compare_arrivals(const std::vector<Traffic>& traffic, int64_t n) {
  const int p = static_cast<int>(traffic.size());
  for (int r = 0; r < p && way_told() != 0; ++r) {
    const int64_t came = traffic[static_cast<size_t>(r)].bytes_received / 8,
                  expected = all_but(r - way_told(), n, p);
    if (came != expected)
      return {false, fmt::format("rank {} received {} elements, expected {}{}", r, came, expected,
                                 about_the_way)};
  }
  return {};
}

// 10.4's answers for every rank, if the all_gather goes this way round.
Verdict try_prediction(int p, int64_t n, int way) {
  for (int r = 0; r < p; ++r)
    for (const int64_t width : {8, 2}) {
      const int64_t answer = solution.ring_bytes_sent(p, r, n, width);
      const int64_t sent = width * (all_but(r, n, p) + all_but(r + way, n, p));
      const bool as_if_equal = answer == 2 * (p - 1) * n / p * width;
      if (answer != sent)
        return {false,
                fmt::format("{} elements of {} bytes: rank {} sends {} bytes, your answer is {}{}",
                            n, width, r, sent, answer,
                            as_if_equal ? "\n    that counts all chunks as equally long, and the "
                                          "first n % p are one longer"
                                        : "")};
    }
  return {};
}

}  // namespace

TEST_CASE("10.1: rank r ends with chunk r of the sum") {
  expect_for_all_ranks([](int p, int64_t n) { return try_reduce_scatter(p, n, ReduceOp::sum); });
}

TEST_CASE("10.1: the output may lie in its place in the input") {
  expect_for_all_ranks(try_in_place);
}

TEST_CASE("10.1: the type of the numbers is the caller's") { expect_for_all_ranks(try_f32); }

TEST_CASE("10.1: the operation is the caller's") {
  expect_for_all_ranks([](int p, int64_t n) { return try_reduce_scatter(p, n, ReduceOp::max); });
}

TEST_CASE("10.1: every rank sends p - 1 messages, all chunks but its own") {
  expect_for_all_ranks([](int p, int64_t n) {
    const Numbers in(static_cast<size_t>(n), 1);
    const auto sent = run(p, [&](Channel& ring) {
      Output out(chunk_count(n, p, chunk_of(ring.rank(), p)));
      solution.reduce_scatter_ring(ring, in, out.data(), ReduceOp::sum);
    });
    const Verdict verdict = compare_traffic(sent, p - 1, [&](int r) { return all_but(r, n, p); });
    return verdict ? compare_arrivals(sent, n) : verdict;
  });
}

TEST_CASE("10.2: every rank ends with every chunk") {
  expect_for_all_ranks([](int p, int64_t n) { return try_all_gather(p, n); });
}

TEST_CASE("10.2: the input may lie in its place in the output") {
  expect_for_all_ranks([](int p, int64_t n) { return try_all_gather(p, n, true); });
}

TEST_CASE("10.2: every rank sends p - 1 messages, all chunks but its neighbour's") {
  expect_for_all_ranks([](int p, int64_t n) {
    const auto sent = run(p, [&](Channel& ring) {
      const Numbers chunk(static_cast<size_t>(chunk_count(n, p, chunk_of(ring.rank(), p))), 1);
      Output out(n);
      solution.all_gather_ring(ring, chunk, out.data());
    });
    return either_way([&](int way) {
      return compare_traffic(sent, p - 1, [&](int r) { return all_but(r + way, n, p); });
    });
  });
}

TEST_CASE("10.3: every rank ends with the whole sum") {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max})
    expect_for_all_ranks([op](int p, int64_t n) { return try_all_reduce(p, n, op); });
}

TEST_CASE("10.3: each rank sends what a ring sends and no more") {
  const int p = 4;
  const int64_t n = 16;
  std::vector<Numbers> data(p, Numbers(n, 1));
  const auto sent = run(p, [&](Channel& ring) {
    solution.all_reduce_ring(ring, data[static_cast<size_t>(ring.rank())], ReduceOp::sum);
  });
  const bool right =
      std::all_of(data.begin(), data.end(), [](const Numbers& x) { return x == Numbers(n, p); });
  for (int r = 0; r < p; ++r) {
    const double share =
        static_cast<double>(sent[static_cast<size_t>(r)].bytes_sent) / (n * sizeof(double));
    expect(share == 1.5,
           fmt::format("{} values, but rank {} sent {:g}n; a ring sends 1.5n on 4 ranks",
                       right ? "right" : "wrong", r, share));
  }
  expect_for_all_ranks([](int ranks, int64_t count) {
    const auto traffic = run(ranks, [&](Channel& ring) {
      Output mine(count);
      solution.all_reduce_ring(ring, mine.data(), ReduceOp::sum);
    });
    return either_way([&](int way) {
      return compare_traffic(traffic, 2 * (ranks - 1), [&](int r) {
        return all_but(r, count, ranks) + all_but(r + way, count, ranks);
      });
    });
  });
}

TEST_CASE("10.4: the bytes of every rank, to the byte") {
  expect_for_all_ranks([](int p, int64_t n) {
    return either_way([&](int way) { return try_prediction(p, n, way); });
  });
}
