#include "yotta/comm/processes/rank_message.hpp"

#include <doctest/doctest.h>

#include "yotta/core/tensor.hpp"

using namespace yotta;

namespace {

// The kind and text of an exception, after a journey.
RankVerdict sent(std::exception_ptr error) {
  RankReport report;
  report.context = std::make_shared<RankContext>();
  report.error = std::move(error);
  return verdict_of(unpack(pack(report), 0, 1, Where::current()).error);
}

}  // namespace

TEST_CASE("a report arrives as it was: ops, traffic, memory") {
  const RankReport here = run_ranks(2, [](Communicator& world) {
    const MemoryScope parameters(MemoryKind::parameters);
    Tensor kept = Tensor::zeros({10});
    { const Tensor lost = Tensor::zeros({100}); }
    std::vector<float> x(7, 1.0f);
    world.all_reduce(x, ReduceOp::sum, {.algorithm = Algorithm::ring, .label = "gradients"});
    charge({"gelu", DType::f32, 8, 4, 2});
    charge({"gelu", DType::f32, 8, 4, 2});
  })[1];
  const RankReport there = unpack(pack(here), 1, 2, Where::current());
  CHECK(there.context->rank == 1);
  CHECK(there.context->size == 2);
  CHECK(there.error == nullptr);
  CHECK(there.ledger().op("gelu").calls == 2);
  CHECK(there.ledger().op("gelu").flops == 16);
  CHECK(there.ledger().op("gelu").bytes_read == 8);
  CHECK(there.ledger().op("gelu").bytes_written == 4);
  const Traffic some = here.ledger().traffic("gradients"),
                same = there.ledger().traffic("gradients");
  CHECK(some.bytes_sent > 0);
  CHECK(same.bytes_sent == some.bytes_sent);
  CHECK(same.messages_sent == some.messages_sent);
  CHECK(same.bytes_received == some.bytes_received);
  CHECK(same.messages_received == some.messages_received);
  CHECK(there.ledger().memory()->peak(MemoryKind::parameters) == 440);
  CHECK(there.ledger().memory()->peak() == here.ledger().memory()->peak());
  CHECK(there.ledger().memory()->live() == here.ledger().memory()->live());
}

TEST_CASE("an error keeps its kind and its words") {
  const Where where = Where::current();
  CHECK(sent(nullptr).end == RankEnd::well);
  const auto kept = [&](RankEnd end, auto error) {
    const std::string text = error.what();
    const RankVerdict arrived = sent(std::make_exception_ptr(error));
    CHECK(arrived.end == end);
    CHECK(arrived.text == text);
  };
  kept(RankEnd::deadlock, Deadlock(where, "nobody is left"));
  kept(RankEnd::mismatch, Mismatch(where, "4 and 5"));
  kept(RankEnd::timeout, Timeout(where, "too long"));
  kept(RankEnd::peer_failed, PeerFailed(where, "rank 1 has failed"));
  kept(RankEnd::comm_error, CommError(where, "dropped"));
  kept(RankEnd::other, std::runtime_error("the disk is full"));
  CHECK(sent(std::make_exception_ptr(5)).text == "it threw something that is no std::exception");
}

TEST_CASE("a report that is cut short is refused") {
  RankReport report;
  report.context = std::make_shared<RankContext>();
  const std::string whole = pack(report);
  for (const size_t length : {size_t{0}, size_t{3}, whole.size() - 1})
    CHECK_THROWS_AS(unpack(whole.substr(0, length), 0, 1, Where::current()), Error);
}
