#include "yotta/comm/nccl_transport.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "support/mailbox_nccl.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/cuda_kernels.hpp"

using namespace yotta;
using namespace yotta_test;

// Here NCCL is mailboxes and the GPU is the emulator. Over threads, as over MPI, go ids, splits and failures.

namespace {

struct NcclRank {
  Communicator& world;
  NcclTransport& transport;
  MailboxNccl& nccl;
};

// body on n ranks; returns what each threw.
std::vector<std::string> run_nccl(int n, const std::shared_ptr<Mailboxes>& mail,
                                  const std::function<void(NcclRank)>& body) {
  install_accelerator();
  install_kernels();
  auto shared = std::make_shared<ThreadWorld>(n);
  std::vector<std::string> errors(static_cast<size_t>(n));
  std::vector<std::shared_ptr<Engine>> engines(errors.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      RankContext self;
      self.rank = rank;
      self.size = n;
      const ContextScope scope(self);
      auto nccl = std::make_shared<MailboxNccl>(mail);
      auto transport =
          std::make_shared<NcclTransport>(std::make_shared<ThreadTransport>(shared, rank), nccl);
      EngineOptions options;
      options.timeout = 20;
      auto group = std::make_shared<Group>();
      group->engine = std::make_shared<Engine>(transport, options);
      group->rank = rank;
      for (int r = 0; r < n; ++r) group->members.push_back(r);
      engines[static_cast<size_t>(rank)] = group->engine;
      Communicator world(group);
      try {
        body({world, *transport, *nccl});
        group->engine->end(Where::current());
        transport->end(Where::current());
      } catch (const std::exception& error) {
        transport->fail(error.what());
        errors[static_cast<size_t>(rank)] = error.what();
      }
      shared->returned(rank);
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}
void expect_fine(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

Tensor nccl_input(int64_t n, int first) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>((i * 3 + first) % 7));
  return Tensor::from<float>(values, {n}).to(Device::cuda);
}

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
      CHECK(mail->ids == 1);  // one communicator for them all
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
  // Nobody waits: nothing is put behind the lane until then.
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
    for (;;) rank.transport.watch(Where::current(), 0, 600);  // as while waiting for the device
  });
  for (const size_t r : {0, 2}) CHECK(errors[r].find("rank 1 has had enough") != std::string::npos);
}

TEST_CASE("NCCL's own errors and time-outs are heard while waiting, and end the others") {
  auto mail = std::make_shared<Mailboxes>();
  std::vector<std::string> errors = run_nccl(2, mail, [](NcclRank rank) {
    Tensor x = nccl_input(4, 0);
    rank.world.all_reduce(x);
    if (rank.world.rank() == 0) rank.nccl.break_lanes("remote process exited");
    for (;;) rank.transport.watch(Where::current(), 0, 600);
  });
  CHECK(errors[0].find("NCCL: remote process exited") != std::string::npos);
  CHECK(errors[1].find("remote process exited") != std::string::npos);
  CHECK(mail->aborts >= 2);

  mail = std::make_shared<Mailboxes>();
  errors = run_nccl(2, mail, [](NcclRank rank) {
    for (double seconds = 0;; seconds += rank.world.rank() == 0 ? 1 : 0)
      rank.transport.watch(Where::current(), seconds, 5);
  });
  CHECK(errors[0].find("rank 0 has waited for its GPU for more than 5 s") != std::string::npos);
  CHECK(errors[1].find("has waited for its GPU") != std::string::npos);
}

TEST_CASE("what NCCL cannot do is refused, or done by others") {
  const auto mail = std::make_shared<Mailboxes>();
  expect_fine(run_nccl(1, mail, [](NcclRank rank) {
    CHECK(rank.transport.has_native(nccl_input(1, 0)));
    CHECK_FALSE(rank.transport.has_native(Tensor::zeros({1}, DType::fp8_e4m3).to(Device::cuda)));
  }));
  const auto errors =
      run_nccl(1, mail, [](NcclRank rank) { rank.world.send(nccl_input(1, 0), 0); });
  CHECK(errors[0].find("NCCL has no message of a rank to itself") != std::string::npos);
}
