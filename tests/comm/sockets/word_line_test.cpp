#include "yotta/comm/sockets/word_line.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

struct Line {
  std::shared_ptr<WordLine> one, other;
  Line() {
    auto [a, b] = joined_sockets(SOCK_SEQPACKET);
    one = std::make_shared<WordLine>(std::move(a));
    other = std::make_shared<WordLine>(std::move(b));
  }
};

bool is_there(int number) { return fcntl(number, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("words come in order, whatever is in them, and each with its own descriptor") {
  Line line;
  CHECK_FALSE(line.other->take().has_value());
  line.one->put("says two lines\nand a \\ and a \f");
  line.one->put("note first", file_in_memory("1"));
  line.one->put("note second", file_in_memory(std::string(300'000, '2')));
  line.one->put("come");
  const auto said = line.other->take(), first = line.other->take(), second = line.other->take(),
             come = line.other->take();
  REQUIRE((said && first && second && come));
  CHECK((said->what == "says" && said->rest == "two lines\nand a \\ and a \f"));
  CHECK_FALSE(said->descriptor.is_open());
  CHECK((first->rest == "first" && bytes_of_file(first->descriptor) == "1"));
  CHECK(bytes_of_file(second->descriptor) == std::string(300'000, '2'));
  CHECK((come->what == "come" && come->rest.empty()));
  CHECK((fcntl(first->descriptor.number(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a line that nobody reads takes all words; they come when it is read, the newest once") {
  Line line;
  constexpr int words = 2000;  // more than the kernel keeps
  for (int i = 0; i < words; ++i) line.one->put(fmt::format("word {}", i));
  CHECK(line.one->has_waiting());
  for (int i = 0; i < 3; ++i) line.one->put_newest("news", std::to_string(i));
  for (int next = 0; next < words;) {
    const auto word = line.other->take();
    if (word) CHECK(word->rest == std::to_string(next++));
    line.one->flush();
  }
  const auto news = line.other->take();
  REQUIRE(news);
  CHECK((news->what == "news" && news->rest == "2"));
  CHECK_FALSE(line.other->take().has_value());
}

TEST_CASE("what was said before the end can be read after it; then the line is closed") {
  Line line;
  line.other->put("unread");
  line.one->put("well");
  line.one.reset();
  const auto word = line.other->take();
  REQUIRE(word);
  CHECK(word->what == "well");
  CHECK(line.other->is_open());
  CHECK_FALSE(line.other->take().has_value());
  CHECK_FALSE(line.other->is_open());
  line.other->put("lost 1 2 for nobody");
  CHECK_FALSE(line.other->has_waiting());
}

TEST_CASE("a word that is cut off, numbers, and descriptors that end with their owner") {
  Line line;
  line.one->put("says " + std::string(2 * WordLine::most_bytes, 'x'));
  CHECK(line.other->take()->rest.size() == WordLine::most_bytes - 5);
  std::string text = "12 -3 was killed";
  CHECK((take_number(text) == 12 && take_number(text) == -3 && text == "was killed"));
  CHECK((take_number(text) == -1 && text == "was killed"));
  int number = -1;
  {
    const Descriptor file = file_in_memory("x");
    number = file.number();
    CHECK(is_there(number));
    const Descriptor other = copy_of(file);
    CHECK((other.number() != number && bytes_of_file(other) == "x"));
  }
  CHECK_FALSE(is_there(number));
}
