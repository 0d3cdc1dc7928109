// What the processes of a job read of its starter. Whole jobs: tcp_starter_test.cpp.
#include "yotta/comm/tcp/tcp_epochs.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("the state of a job is written and read") {
  const JobState state{
      3, false, "yotta-1", {{0, 0, 4711}, {2, 1, 4712}}, {{1, 4, 4713}}, {{1, 3, 2}, {-1, 0, 0}}};
  const JobState read = parse_job(job_text(state));
  CHECK((read.epoch == 3 && !read.done && read.words == "yotta-1"));
  REQUIRE((read.members.size() == 2 && read.waiting.size() == 1));
  CHECK((read.members[1].place == 2 && read.members[1].number == 1 &&
         read.members[1].process == 4712));
  CHECK((read.waiting[0].place == 1 && read.waiting[0].process == 4713));
  REQUIRE(read.deaths.size() == 2);
  CHECK((read.deaths[0].place == 1 && read.deaths[0].number == 3 && read.deaths[0].epoch == 2));
  CHECK(describe(read.deaths) == "a spare, rank 1");
  CHECK(parse_job(job_text({0, true, "", {}, {}, {}})).done);
  for (const char* const wrong : {"", "epoch", "epoch 3 perhaps -", "epoch 3 done -\nmember 1 2",
                                  "epoch 3 done -\nguest 1 2 3", "epoch 3 done -\ndead 1 2"})
    CHECK(contains(message_of([&] { parse_job(wrong); }), "this is not the state of a job"));
}

TEST_CASE("a process that was not started as a member is none") {
  const auto none = [](const char*) -> const char* { return nullptr; };
  CHECK(TcpEpochs::find([](int) {}, none) == nullptr);
  CHECK(epoch_host() == nullptr);
}
