#include "yotta/comm/nccl/nccl_transport.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/nccl_ranks.hpp"
#include "yotta/device/cuda/body_kernels.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// body on n ranks; returns what each threw.
template <class Body>
std::vector<std::string> run_nccl(int n, NcclRun run, Body body) {
  install_kernels();
  run.options.timeout = longest_wait;
  std::vector<std::string> errors;
  for (const RankReport& report : run_nccl_ranks(n, run, body)) {
    errors.emplace_back();
    try {
      if (report.error) std::rethrow_exception(report.error);
    } catch (const std::exception& error) {
      errors.back() = error.what();
    }
  }
  return errors;
}
template <class Body>
std::vector<std::string> run_nccl(int n, const std::shared_ptr<Mailboxes>& mail, Body body) {
  return run_nccl(n, NcclRun{.mail = mail}, body);
}
void expect_fine(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

Tensor nccl_input(int64_t n, int first) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>((i * 3 + first) % 7));
  return Tensor::from<float>(values, {n}).to(Device::cuda);
}

struct AddOne {
  float* x;
  YOTTA_BODY void operator()(int64_t i, OneLane) const { x[i] += 1; }
};

}  // namespace

TEST_CASE("collectives of NCCL: those of the CPU, for counts that divide and that do not") {
  for (const int p : {1, 2, 3})
    for (const int64_t n : {6, 11}) {
      const auto mail = std::make_shared<Mailboxes>();
      expect_fine(run_nccl(p, mail, [&](NcclRank rank) {
        Communicator& world = rank.world;
        const int me = world.rank();
        const Tensor mine = nccl_input(n, me), here = mine.to(Device::cpu);
        // the same calls on both devices
        const auto results = [&](const Tensor& x) {
          const DeviceScope scope(x.device());
          std::vector<Tensor> out;
          for (const ReduceOp op :
               {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
            out.push_back(x.clone());
            world.all_reduce(out.back(), op);
          }
          out.push_back(Tensor::empty({chunk_count(n, p, me)}));
          world.reduce_scatter(out.back(), x, ReduceOp::mean);
          out.push_back(Tensor::empty({n}));
          world.all_gather(out.back(), out[5]);
          out.push_back(Tensor::empty({p * chunk_count(n, p, me)}));
          world.all_to_all(out.back(), x);
          out.push_back(x.clone());
          world.broadcast(out.back(), p - 1);
          out.push_back(x.clone());
          world.reduce(out.back(), p - 1);
          out.push_back(Tensor::zeros({n}));
          world.gather(out.back(), x.rows(0, chunk_count(n, p, me)), 0);
          out.push_back(Tensor::empty({chunk_count(n, p, me)}));
          world.scatter(out.back(), x, 0);
          std::vector<int64_t> in_counts(static_cast<size_t>(p)), out_counts(in_counts);
          for (int r = 0; r < p; ++r)
            in_counts[static_cast<size_t>(r)] = out_counts[static_cast<size_t>(r)] =
                1 + (me + r) % 2;
          int64_t total = 0;
          for (const int64_t count : in_counts) total += count;
          out.push_back(Tensor::empty({total}));
          world.all_to_all_v(out.back(), out_counts, x.rows(0, total), in_counts);
          world.barrier();
          return out;
        };
        const std::vector<Tensor> there = results(mine), expected = results(here);
        for (size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          CHECK(there[i].device() == Device::cuda);
          CHECK(there[i].values() == expected[i].values());
        }
      }));
      CHECK(mail->ids == 2);  // reduce_scatter has a communicator of its own
      CHECK(mail->aborts == 0);
    }
}

TEST_CASE("messages: a lane a direction; what both send first does not stand still") {
  const auto mail = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(3, mail, [](NcclRank rank) {
    Communicator& world = rank.world;
    const int me = world.rank(), right = (me + 1) % 3, left = (me + 2) % 3;
    Tensor mine = nccl_input(5, me), got = nccl_input(5, 6);
    world.send(mine, right);
    world.recv(got, left);
    CHECK(got.values() == nccl_input(5, left).values());
    world.send_recv(mine, left, got, right);
    CHECK(got.values() == nccl_input(5, right).values());
    std::vector<Work> works;
    for (const int peer : {left, right}) works.push_back(world.send_async(mine, peer));
    Tensor a = got.clone(), b = got.clone();
    works.push_back(world.recv_async(a, left));
    works.push_back(world.recv_async(b, right));
    for (Work& work : works) work.wait();
    CHECK(a.values() == nccl_input(5, left).values());
    CHECK(b.values() == nccl_input(5, right).values());
    Tensor ring = mine.clone();
    world.all_reduce(ring, ReduceOp::sum,
                     {.algorithm = Algorithm::ring});  // ours, over NCCL's messages
    world.all_reduce(mine);
    CHECK(ring.values() == mine.values());
    std::vector<float> host = {1};
    world.all_reduce(host);  // on the CPU: by threads
    CHECK(host[0] == 3);
  }));
  CHECK(mail->ids == 7);  // six directions and the world
}

TEST_CASE("kernels that were gathered come before a collective and a message that follow them") {
  install_accelerator();
  add_many_numbers<AddOne>();
  expect_fine(run_nccl(2, std::make_shared<Mailboxes>(), [&](NcclRank rank) {
    const int me = rank.world.rank();
    const Where where = Where::current();
    Tensor x = nccl_input(2, 0), y = x.clone(), got = x.clone();
    KernelBatch batch;
    run_together("add", AddOne{static_cast<float*>(x.raw())}, 2, where);
    rank.world.all_reduce(x);
    run_together("add", AddOne{static_cast<float*>(y.raw())}, 2, where);
    rank.world.send_recv(y, 1 - me, got, 1 - me);
    CHECK(x.values() == std::vector<double>{2, 8});
    CHECK(got.values() == std::vector<double>{1, 4});
  }));
}

TEST_CASE("wait() orders the device behind an asynchronous collective, and not before") {
  const auto mail = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(2, mail, [&](NcclRank rank) {
    Tensor x = nccl_input(4, rank.world.rank()), y = x.clone();
    rank.world.barrier();
    const int before = mail->waits;
    rank.world.barrier();
    Work first = rank.world.all_reduce_async(x), second = rank.world.all_reduce_async(y);
    while (!first.done() || !second.done()) std::this_thread::yield();
    CHECK(mail->waits > before);
    CHECK(x.values() == y.values());
  }));
  // No call waits, so no computation is put after the lane until then.
  const auto quiet = std::make_shared<Mailboxes>();
  std::atomic<int> looked = 0;
  expect_fine(run_nccl(2, quiet, [&](NcclRank rank) {
    Tensor x = nccl_input(4, rank.world.rank());
    Work work = rank.world.all_reduce_async(x);
    CHECK(quiet->waits == 0);
    for (++looked; looked < 2;) std::this_thread::yield();
    work.wait();
  }));
  CHECK(quiet->waits == 2);
}

TEST_CASE("a wait does not include what was called later") {
  std::atomic<bool> has_waited = false;
  expect_fine(run_nccl(2, std::make_shared<Mailboxes>(), [&](NcclRank rank) {
    Tensor x = nccl_input(4, rank.world.rank()), y = x.clone();
    Work first = rank.world.all_reduce_async(x, ReduceOp::mean);
    while (rank.world.rank() == 1 && !has_waited) rank.transport.advance();
    Work second = rank.world.all_reduce_async(y, ReduceOp::mean);
    first.wait();  // rank 1 makes its second call after this
    has_waited = true;
    second.wait();
    CHECK(x.values() == y.values());
    CHECK(x.item({1}) == (nccl_input(4, 0).item({1}) + nccl_input(4, 1).item({1})) / 2);
  }));
}

TEST_CASE("collectives of several groups never stand still, however few a GPU has room for") {
  for (int run = 0; run < 12; ++run) {
    const auto mail = std::make_shared<Mailboxes>();
    expect_fine(run_nccl(3, NcclRun{.mail = mail, .room = 1 + run % 3}, [&](NcclRank rank) {
      Communicator& world = rank.world;
      const int me = world.rank();
      rank.nccl.splits = run % 2 == 0;
      std::vector<Communicator> groups = {world, world.split(0, me), world.split(0, -me)};
      std::vector<Tensor> sums;
      for (int i = 0; i < 9; ++i) sums.push_back(nccl_input(3, me));
      std::vector<Work> works;
      for (size_t i = 0; i < sums.size(); ++i)
        works.push_back(groups[i % 3].all_reduce_async(sums[i], ReduceOp::mean));
      groups.push_back(groups[1].split(me == 2 ? -1 : 0, me));
      if (me == 1) std::reverse(works.begin(), works.end());
      for (Work& work : works) work.wait();
      for (const Tensor& sum : sums) CHECK(sum.values() == sums[0].values());
    }));
  }
}

TEST_CASE("a gather passes a reduce_scatter that stands still: they do not share a stream") {
  expect_fine(run_nccl(2, NcclRun{.room = 2}, [](NcclRank rank) {
    rank.nccl.holds_reduce_scatters = true;
    const Tensor whole = nccl_input(4, rank.world.rank()), mine = whole.rows(0, 2);
    Tensor sums = nccl_input(2, 6), all = nccl_input(4, 6);
    Work scattered = rank.world.reduce_scatter_async(sums, whole);
    Work gathered = rank.world.all_gather_async(all, mine);
    gathered.wait();
    CHECK(all.item({3}) == nccl_input(4, 1).item({1}));
    CHECK(sums.values() == nccl_input(2, 6).values());
    rank.nccl.holds_reduce_scatters = false;
    scattered.wait();
    CHECK(sums.values() != nccl_input(2, 6).values());
  }));
}

TEST_CASE("splits have lanes of their own, with their own ids") {
  const auto mail = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(4, mail, [](NcclRank rank) {
    const int me = rank.world.rank();
    Communicator pair = rank.world.split(me / 2, me), column = rank.world.split(me % 2, me);
    Tensor x = nccl_input(3, me), y = x.clone();
    pair.all_reduce(x);
    column.all_reduce(y);
    const double other = nccl_input(3, me ^ 1).item({0}), below = nccl_input(3, me ^ 2).item({0});
    CHECK(x.item({0}) == nccl_input(3, me).item({0}) + other);
    CHECK(y.item({0}) == nccl_input(3, me).item({0}) + below);
  }));
  CHECK(mail->ids == 4);
}

TEST_CASE("a rank that fails ends the others, also those that wait for their GPU") {
  const auto mail = std::make_shared<Mailboxes>();
  const std::vector<std::string> errors = run_nccl(3, mail, [](NcclRank rank) {
    if (rank.world.rank() == 1) fail(Where::current(), "rank 1 has had enough");
    for (;;) rank.transport.watch(Where::current(), 0);  // as while waiting for the device
  });
  for (const size_t r : {0, 2}) CHECK(errors[r].find("rank 1 has had enough") != std::string::npos);
}

TEST_CASE("of a rank that fails NCCL may hear first: it is named all the same") {
  std::atomic<bool> broken = false;
  const auto mail = std::make_shared<Mailboxes>();
  const std::vector<std::string> errors = run_nccl(2, mail, [&](NcclRank rank) {
    Tensor x = nccl_input(4, 0);
    rank.world.all_reduce(x);
    rank.world.barrier();
    while (rank.world.rank() == 1 && !broken) std::this_thread::yield();
    if (rank.world.rank() == 1) fail(Where::current(), "the disk is full");
    rank.nccl.break_lanes("remote process exited");
    broken = true;
    rank.world.all_reduce(x);
  });
  CHECK(errors[0].find("the disk is full") != std::string::npos);
  CHECK(errors[0].find("remote process exited") == std::string::npos);
}

TEST_CASE("NCCL's own errors and time-outs are heard while waiting, and end the others") {
  auto mail = std::make_shared<Mailboxes>();
  std::vector<std::string> errors = run_nccl(2, mail, [](NcclRank rank) {
    Tensor x = nccl_input(4, 0);
    rank.world.all_reduce(x);
    rank.world.barrier();  // it has ended everywhere
    if (rank.world.rank() == 0) rank.nccl.break_lanes("remote process exited");
    for (;;) rank.transport.watch(Where::current(), 0);
  });
  CHECK(errors[0].find("NCCL: remote process exited") != std::string::npos);
  CHECK(errors[1].find("remote process exited") != std::string::npos);
  CHECK(mail->aborts >= 2);

  mail = std::make_shared<Mailboxes>();
  errors = run_nccl(2, NcclRun{.mail = mail, .gpu_timeout = 5}, [](NcclRank rank) {
    for (double seconds = 0;; seconds += rank.world.rank() == 0 ? 1 : 0)
      rank.transport.watch(Where::current(), seconds);
  });
  CHECK(errors[0].find("rank 0 has waited for its GPU for more than 5 s") != std::string::npos);
  CHECK(errors[1].find("has waited for its GPU") != std::string::npos);
}

TEST_CASE("what NCCL cannot do is done by others") {
  const auto mail = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(2, mail, [](NcclRank rank) {
    CHECK(rank.transport.has_native(nccl_input(1, 0)));
    CHECK_FALSE(rank.transport.has_native(Tensor::zeros({1}, DType::fp8_e4m3).to(Device::cuda)));
    Tensor small = Tensor::full({3}, 1.5, DType::fp8_e5m2).to(Device::cuda);
    rank.world.all_reduce(small);  // by messages, and the course's own kernels
    CHECK(small.values() == std::vector<double>{3, 3, 3});
  }));
}

TEST_CASE("a rank's messages to itself are copies; a receive that comes first waits") {
  expect_fine(run_nccl(1, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Tensor got = nccl_input(4, 6), late = nccl_input(4, 6);
    Work first = rank.world.recv_async(got, 0, 2);
    rank.world.send(nccl_input(4, 1), 0, 1);
    rank.world.send(nccl_input(4, 2), 0, 2);
    first.wait();
    CHECK(got.values() == nccl_input(4, 2).values());
    rank.world.recv(late, 0, 1);
    CHECK(late.values() == nccl_input(4, 1).values());
  }));
  const auto errors = run_nccl(1, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Tensor x = nccl_input(4, 0);
    rank.world.recv(x, 0);
  });
  CHECK(contains(errors[0], "rank 0 waits for 0"));
}

TEST_CASE("a ring in which all receive first") {
  expect_fine(run_nccl(3, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Communicator& world = rank.world;
    const int me = world.rank(), right = (me + 1) % 3, left = (me + 2) % 3;
    Tensor got = nccl_input(5, 6), mine = nccl_input(5, me);
    Work received = world.recv_async(got, left), sent = world.send_async(mine, right);
    sent.wait();
    received.wait();
    CHECK(got.values() == nccl_input(5, left).values());
  }));
}

TEST_CASE("what is computed before wait() does not wait for a message") {
  const auto mail = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(2, mail, [&](NcclRank rank) {
    Tensor x = nccl_input(4, rank.world.rank());
    if (rank.world.rank() == 0) return rank.world.send(x, 1);
    Work received = rank.world.recv_async(x, 0);
    while (mail->lanes < 2) rank.transport.advance();
    for (int i = 0; i < 100; ++i) rank.transport.advance();  // NCCL has it by now
    CHECK(mail->waits == 0);
    received.wait();
    CHECK(mail->waits == 1);
    CHECK(x.values() == nccl_input(4, 0).values());
  }));
}

TEST_CASE("messages go by their tags and communicators, in whatever order they are received") {
  expect_fine(run_nccl(2, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Communicator& world = rank.world;
    Communicator twin = world.split(0, world.rank());
    if (world.rank() == 0) {
      for (const auto& [tag, value] : {std::pair{1, 1}, {2, 2}, {1, 4}})
        world.send(nccl_input(4, value), 1, tag);
      twin.send(nccl_input(4, 5), 1, 1);
      Tensor copy = nccl_input(4, 3);
      world.send(copy, 1, 3);
      copy.zero();  // a sent tensor is the sender's own again
    } else {
      const auto got = [](Communicator& from, int tag) {
        Tensor x = nccl_input(4, 6);
        from.recv(x, 0, tag);
        return x.values();
      };
      CHECK(got(twin, 1) == nccl_input(4, 5).values());
      CHECK(got(world, 3) == nccl_input(4, 3).values());
      CHECK(got(world, 2) == nccl_input(4, 2).values());
      CHECK(got(world, 1) == nccl_input(4, 1).values());
      CHECK(got(world, 1) == nccl_input(4, 4).values());
    }
  }));
}

TEST_CASE("mistakes with messages are named: other counts, nobody sends, nobody receives") {
  auto errors = run_nccl(2, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Tensor x = nccl_input(rank.world.rank() == 0 ? 4 : 5, 0);
    if (rank.world.rank() == 0) rank.world.send(x, 1);
    if (rank.world.rank() == 1) rank.world.recv(x, 0);
  });
  CHECK(contains(errors[1], "rank 0 sends 4 f32 at nccl_transport_test.cpp:"));
  CHECK(contains(errors[1], "rank 1 receives 5 f32 at nccl_transport_test.cpp:"));
  errors = run_nccl(2, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Tensor x = nccl_input(4, 0);
    rank.world.recv(x, 1 - rank.world.rank());
  });
  CHECK(contains(errors[0], "rank 0 waits for 1 waits for 0"));
  errors = run_nccl(2, std::make_shared<Mailboxes>(), [](NcclRank rank) {
    Tensor x = nccl_input(4, 0);
    for (const int tag : {7, 8})
      if (rank.world.rank() == 0) rank.world.send(x, 1, tag);
    if (rank.world.rank() == 1) rank.world.recv(x, 0, 8);  // 7 is here, and is not received
  });
  CHECK(contains(errors[1],
                 "rank 0 sent 16 bytes with tag 7 to rank 1, which ended without receiving it"));
  errors = run_nccl(2, NcclRun{.gpu_timeout = 0.05}, [](NcclRank rank) {
    if (rank.world.rank() == 0) rank.world.send(nccl_input(4, 0), 1);
  });
  CHECK(
      contains(errors[0], "rank 0 has ended, but after 0.05 s nobody has come for send of 4 f32"));
}

TEST_CASE("a group is split from its parent's lane by NCCL, all members of the parent calling") {
  const auto mail = std::make_shared<Mailboxes>();
  const auto split = [](NcclRank rank) {
    Communicator& world = rank.world;
    const int me = world.rank();
    Tensor x = nccl_input(3, 0);
    world.all_reduce(x);  // opens the world's lane
    Communicator pair = world.split(me == 3 ? -1 : me % 2, -me);
    if (me == 3) return;
    Tensor y = nccl_input(3, me), root = y.clone();
    pair.all_reduce(y);
    pair.broadcast(root, 0);
    CHECK(y.item({0}) == (me == 1 ? nccl_input(3, 1).item({0})
                                  : nccl_input(3, 0).item({0}) + nccl_input(3, 2).item({0})));
    CHECK(root.values() == nccl_input(3, me == 1 ? 1 : 2).values());  // ordered by key
  };
  expect_fine(run_nccl(4, mail, split));
  CHECK(mail->ids == 1);
  CHECK(mail->notes() ==
        std::set<std::string>{"rank 0 of 4: color 0, key 0", "rank 1 of 4: color 1, key -1",
                              "rank 2 of 4: color 0, key -2", "rank 3 of 4: color -1, key -3"});
  // An NCCL that cannot: each part has an id of its own.
  const auto older = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(4, older, [&](NcclRank rank) {
    rank.nccl.splits = false;
    split(rank);
  }));
  CHECK(older->ids == 3);
  CHECK(older->notes().empty());
}
