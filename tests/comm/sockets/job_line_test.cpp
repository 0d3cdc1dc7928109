// What the processes of a job hear of its starter. Whole jobs: run_processes_test.cpp,
// run_members_test.cpp.
#include "yotta/comm/sockets/job_line.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// A starter's end of a line, and a child's.
struct Both {
  std::shared_ptr<WordLine> starter;
  std::unique_ptr<JobLine> child;
  Both() {
    auto [a, b] = joined_sockets(SOCK_SEQPACKET);
    starter = std::make_shared<WordLine>(std::move(a));
    child = std::make_unique<JobLine>(std::move(b));
  }
};

}  // namespace

TEST_CASE("the news of a job are written and read") {
  const JobNews news{
      3, false, {{0, 0, 4711}, {2, 1, 4712}}, {{1, 4, 4713}}, {{1, 3, 2}, {-1, 0, 0}}};
  const JobNews read = parse_news(news_text(news));
  CHECK((read.epoch == 3 && !read.done));
  REQUIRE((read.members.size() == 2 && read.waiting.size() == 1));
  CHECK((read.members[1].place == 2 && read.members[1].number == 1 &&
         read.members[1].process == 4712));
  CHECK((read.waiting[0].place == 1 && read.waiting[0].process == 4713));
  REQUIRE(read.deaths.size() == 2);
  CHECK((read.deaths[0].place == 1 && read.deaths[0].number == 3 && read.deaths[0].epoch == 2));
  CHECK(parse_news(news_text({0, true, {}, {}, {}})).done);
  for (const char* const wrong : {"", "epoch", "epoch 3 perhaps", "epoch 3 done\nmember 1 2",
                                  "epoch 3 done\nguest 1 2 3", "epoch 3 done\ndead 1 2"})
    CHECK(contains(message_of([&] { parse_news(wrong); }), "this is no news of a job"));
}

TEST_CASE("a child hears who has died in its epoch, and keeps the newest of each note") {
  Both line;
  line.starter->put("lost 1 2 was killed: Killed");
  line.starter->put("lost 2 0 was killed: Killed");
  line.starter->put("note kept", file_in_memory("old"));
  line.starter->put("note kept", file_in_memory("new"));
  line.child->read();
  CHECK_FALSE(line.child->note("other").has_value());
  CHECK(line.child->note("kept") == "new");
  const auto lost = line.child->take_lost(1);
  REQUIRE(lost);
  CHECK((lost->rank == 2 && lost->how == "was killed: Killed"));
  CHECK_FALSE(line.child->take_lost(1).has_value());
  line.starter->put("news " + news_text({3, false, {}, {}, {}}));
  line.child->read();
  CHECK(line.child->news().epoch == 3);
  CHECK_FALSE(line.child->take_lost(2).has_value());  // of an epoch that has ended
}

TEST_CASE("what a child says and leaves reaches its starter") {
  Both line;
  line.child->say_come(2);
  line.child->leave_note("kept", "some bytes");
  const auto come = line.starter->take(), note = line.starter->take();
  REQUIRE((come && note));
  CHECK((come->what == "come" && come->rest == "2"));
  CHECK((note->rest == "kept" && bytes_of_file(note->descriptor) == "some bytes"));
  CHECK(line.child->note("kept") == "some bytes");
}

TEST_CASE("who waits for news of a starter that ends is told") {
  Both line;
  line.starter.reset();
  CHECK(contains(message_of([&] { line.child->await_news([](const JobNews&) { return false; }); }),
                 "the process that has started this one has ended"));
}

TEST_CASE("a process that was not started so has no line, and is no member") {
  const auto [own, its] = joined_sockets(SOCK_SEQPACKET);
  const Descriptor file = file_in_memory("no socket");
  for (const auto& [words, starter] :
       {std::pair(std::string(), std::to_string(getpid())),
        std::pair(std::string("yotta-1-2"), std::to_string(getpid())),
        std::pair(fmt::format("fd:{}", file.number()), std::to_string(getpid())),
        std::pair(fmt::format("fd:{}", own.number()), std::to_string(getppid())),
        std::pair(std::string("fd:99999"), std::to_string(getpid()))}) {
    CAPTURE(words);
    const Environment get = [&](const char* name) -> const char* {
      if (std::string_view(name) == words_variable) return words.c_str();
      if (std::string_view(name) == starter_variable) return starter.c_str();
      return "1";
    };
    CHECK(JobLine::find(get) == nullptr);
    CHECK_FALSE(JobLine::is_member(get));
  }
  CHECK(fcntl(own.number(), F_GETFD) >= 0);  // left alone
}
