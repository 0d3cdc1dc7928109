#include "yotta/comm/run_ranks.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/mailbox_nccl.hpp"
#include "support/refused.hpp"
#include "yotta/comm/nccl/nccl_transport.hpp"
#include "yotta/comm/sockets/run_members.hpp"
#include "yotta/comm/threads/thread_transport.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("options of ranks that cannot be are refused before a rank starts") {
  const auto run = [](int threads, double timeout) {
    return [=] {
      RunOptions options;
      options.threads = threads, options.timeout = timeout;
      run_ranks(
          2, [](Communicator&) { FAIL("a rank runs"); }, options);
    };
  };
  const auto members = [](MembersOptions options) {
    return [=] { run_members(1, {}, {"/bin/true"}, options); };
  };
  const auto nccl = [](double timeout) {
    return [=] {
      NcclTransport(std::make_shared<ThreadTransport>(std::make_shared<ThreadWorld>(1), 0),
                    std::make_shared<MailboxNccl>(std::make_shared<Mailboxes>()), timeout);
    };
  };
  check_refused({
      {"RunOptions::threads is -1, expected 0 or more; by default it is 0", run(-1, 1)},
      {"RunOptions::timeout is 0, expected above 0, or infinite; by default it is 600", run(0, 0)},
      {"RunOptions::timeout is nan", run(0, NAN)},
      {"MembersOptions::spares is -1", members({.spares = -1})},
      {"MembersOptions::most_deaths is -1", members({.most_deaths = -1})},
      {"MembersOptions::patience is nan", members({.patience = NAN})},
      {"NcclOptions::timeout is -1", nccl(-1)},
  });
}

TEST_CASE("a rank may wait for ever") {
  RunOptions options;
  options.timeout = INFINITY;
  const auto meet = [](Communicator& world) { world.barrier(); };
  CHECK(run_ranks(2, meet, options).size() == 2);
}
