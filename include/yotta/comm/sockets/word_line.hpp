// WordLine: one end of a line between a process and one that it has started. Words go both ways.
//
//     starter                                child, which has inherited its end
//     put("lost 1 2 was killed")  ───────►   take()
//     take()                      ◄───────   send("come 1")
//     put("peer 1 3", socket)     ───────►   take(), with a descriptor of its own of that socket
//
// A line is a pair of sockets in the kernel (socketpair(2), SOCK_SEQPACKET). It has no name, so no
// other process can reach it, and nothing is left behind. One message is one word, and a descriptor
// stays with its word (SCM_RIGHTS, unix(7)).
// put() never blocks: a word that the other end has no room for waits here until flush(). A process
// that is stopped does not stop its starter.
// What a process has said can still be read when it has ended.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "yotta/core/error.hpp"

namespace yotta {

// A descriptor of this process, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// Two sockets: what is sent to one is read from the other. Errors: the kernel has none left.
std::pair<Descriptor, Descriptor> joined_sockets(int type, Where where = Where::current());
// A file in memory, without a name, that holds these bytes. Errors: the kernel has none left.
Descriptor file_in_memory(const std::string& bytes, Where where = Where::current());
std::string bytes_of_file(const Descriptor& file, Where where = Where::current());
// The same open file, as another descriptor.
Descriptor copy_of(const Descriptor& file, Where where = Where::current());

// "lost 1 2 was killed" as "lost" and the rest.
struct LineWord {
  std::string what, rest;
  Descriptor descriptor = {};
};
// The number that a text begins with, and drops it with the space behind it; -1: there is none.
int take_number(std::string& text);

class WordLine {
 public:
  explicit WordLine(Descriptor end) : end_(std::move(end)) {}

  static constexpr size_t most_bytes = 64 * 1024;  // of a word; what is longer is cut off

  bool is_open() const { return end_.is_open(); }
  int number() const { return end_.number(); }
  // Sends a word after those that wait, now or in a later flush().
  void put(std::string word, Descriptor descriptor = {});
  // The same, in place of those that wait and begin with the same word.
  void put_newest(const std::string& what, const std::string& rest, Descriptor descriptor = {});
  void flush();
  bool has_waiting() const { return !waiting_.empty(); }
  // Sends a word, and waits until there is room for it.
  void send(const std::string& word, const Descriptor& descriptor = {});
  // The next word that has come. Empty: none has, or the other end is closed, and so is this.
  std::optional<LineWord> take();

 private:
  struct Waiting {
    std::string word;
    Descriptor descriptor;
  };
  Descriptor end_;
  std::deque<Waiting> waiting_;
};

// Waits until something can be read from one of them, or what waits can be sent; so many
// milliseconds at most.
void await_words(const std::vector<std::shared_ptr<WordLine>>& lines, int milliseconds);

}  // namespace yotta

#ifndef YOTTA_COMPILED
#include "yotta/comm/sockets/impl/word_line.ipp"
#endif
