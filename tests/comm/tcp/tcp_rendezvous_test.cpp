// Processes that are threads find each other, or hear why not.
#include "yotta/comm/tcp/tcp_rendezvous.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "comm/local_tcp.hpp"
#include "comm/strangers.hpp"
#include "comm/tcp_lines.hpp"
#include "support/message_of.hpp"
#include "support/stderr_text.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

const std::string key = make_job_key();

// By an address of this machine; or by a file.
TcpEnvironment by_address(int rank, int size, const TcpAddress& first, double seconds,
                          const std::string& secret = key) {
  return {rank, size, first, "", seconds, secret, true};
}
TcpEnvironment by_file(int rank, int size, const std::string& file, double seconds) {
  return {rank, size, {}, file, seconds, "", true};
}

// Each process tells the others its rank, to check what is at the other end.
void check_all_are_there(TcpMesh& mesh) {
  for (int other = 0; other < mesh.size(); ++other)
    mesh.send_text(other, std::to_string(mesh.rank()));
  const Deadline deadline(longest_wait);
  for (int other = 0; other < mesh.size(); ++other) {
    std::optional<std::string> text;
    while (!(text = mesh.take_text(other)) && deadline.left() > 0) mesh.progress(0.05);
    CHECK(text.value_or("none") == std::to_string(other));
    CHECK(mesh.processes()[static_cast<size_t>(other)].pid == getpid());
  }
  mesh.say_goodbye();
}
// What one process hears.
std::string join(const TcpEnvironment& self) {
  return message_of([&] {
    TcpMesh mesh(TcpRendezvous(self).connect());
    check_all_are_there(mesh);
  });
}
// What each process hears, in the order of `environments`.
std::vector<std::string> meet(const std::vector<TcpEnvironment>& environments) {
  std::vector<std::string> heard(environments.size());
  on_threads_of(static_cast<int>(environments.size()), [&](int i) {
    heard[static_cast<size_t>(i)] = join(environments[static_cast<size_t>(i)]);
  });
  return heard;
}

void check_all_hear(const std::vector<TcpEnvironment>& environments, const std::string& words) {
  for (const std::string& heard : meet(environments)) {
    CAPTURE(heard);
    CHECK(contains(heard, words));
  }
}

}  // namespace

TEST_CASE("a connection to each other process, by an address or by a file") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  for (const int size : {1, 2, 3, 5}) {
    std::vector<TcpEnvironment> addresses, files;
    const int port = free_port();
    for (int rank = size - 1; rank >= 0; --rank) {  // rank 0 is the last to come
      addresses.push_back(by_address(rank, size, {"localhost", port}, longest_wait));
      files.push_back(by_file(rank, size, file, longest_wait));
    }
    check_all_hear(addresses, "nothing was thrown");
    check_all_hear(files, "nothing was thrown");
    CHECK_FALSE(std::filesystem::exists(file));
    CHECK(std::filesystem::is_empty(folder.path()));  // no draft either
  }
}

TEST_CASE("the file: written whole and for its owner alone, read, or not there yet") {
  const TemporaryFolder folder;
  const std::string file = (folder / "place").string();
  CHECK(read_place(file).port == 0);
  write_place(file, {40123, key, own_addresses()});
  struct stat about {};
  REQUIRE(stat(file.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  const TcpPlace place = read_place(file);
  CHECK(place.port == 40123);
  CHECK(place.key == key);
  CHECK(place.hosts == own_addresses());
  CHECK(place.hosts.back() == "127.0.0.1");
  const std::string nowhere = (folder / "no/place").string();
  CHECK(contains(message_of([&] { write_place(nowhere, place); }), "cannot write " + nowhere));
}

TEST_CASE("a file that others may have written is refused by name, and so is a link") {
  const TemporaryFolder folder;
  const std::string file = (folder / "place").string(), link = (folder / "link").string();
  write_place(file, {40123, key, {"127.0.0.1"}});
  std::filesystem::create_symlink(file, link);
  CHECK(contains(message_of([&] { read_place(link); }), link + " is a link"));
  chmod(file.c_str(), 0664);
  const std::string refused = message_of([&] { read_place(file); });
  CHECK(contains(refused, file + " is refused: it belongs to user "));
  CHECK(contains(refused, "with mode 664"));
  for (const char* text : {"", "70000\n", "-1\nx\n", "40123\nshort\n127.0.0.1\n"}) {
    std::filesystem::remove(file);
    std::ofstream(file) << text;
    chmod(file.c_str(), 0600);
    CHECK(read_place(file).hosts.empty());
  }
}

TEST_CASE("a file that an earlier job has left is no obstacle") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  write_place(file, {free_port(), make_job_key(), {"127.0.0.1"}});
  check_all_hear({by_file(1, 2, file, longest_wait), by_file(0, 2, file, longest_wait)},
                 "nothing was thrown");
}

TEST_CASE("an earlier job's file whose port is another program's by now") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rank0").string();
  const Stranger other;
  write_place(file, {other.port(), make_job_key(), {"127.0.0.1"}});
  std::vector<std::string> heard(2);
  std::thread one([&] { heard[1] = meet({by_file(1, 2, file, longest_wait)})[0]; });
  other.answer_one("220 mail.example.com ESMTP ready");
  heard[0] = meet({by_file(0, 2, file, longest_wait)})[0];
  one.join();
  for (const std::string& text : heard) CHECK(text == "nothing was thrown");
}

TEST_CASE("without a key a rank does not listen, and says what to set") {
  TcpEnvironment no_key = by_address(0, 2, {"localhost", free_port()}, 1, "");
  CHECK(contains(meet({no_key})[0],
                 "rank 0 has no key, and does not listen without one: export "
                 "YOTTA_JOB_KEY=$(openssl rand -hex 32)"));
  no_key.size = 1;  // there is nothing to listen for
  CHECK(meet({no_key})[0] == "nothing was thrown");
}

TEST_CASE("a rank with another key neither joins nor hears; rank 0 says from where it came") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> heard;
  std::string said;
  const double seconds = seconds_enough(0.3, [&](double all) {
    said = stderr_of([&] {
      heard = meet({by_address(0, 3, first, all), by_address(1, 3, first, all),
                    by_address(2, 3, first, all * 2 / 3, make_job_key())});
    });
    return contains(heard[0], " s: 2.") && contains(heard[1], " s: 2.") &&
           contains(heard[0], "were refused") && contains(heard[2], "what listens there");
  });
  const std::string missed = fmt::format("these have not come within {:g} s: 2.", seconds);
  CHECK(contains(heard[0], "of 3 ranks " + missed));
  CHECK(contains(heard[0], "Connections without the job's key were refused, from 127.0.0.1:"));
  CHECK(contains(heard[1], missed));
  CHECK(
      contains(heard[2], "what listens there is not rank 0 of this job: it does not have its key"));
  CHECK(contains(said, "rank 0: a connection from 127.0.0.1:"));
  CHECK(contains(said, "does not have the key of this job, and was refused"));
}

TEST_CASE("who looks for rank 0 pauses longer and longer, up to a fifth of a second") {
  CHECK(pause_after(0) == 10);
  CHECK(pause_after(4) == 20);
  for (const int attempt : {20, 112, 100'000}) CHECK(pause_after(attempt) == 200);  // 0.2 s
}

TEST_CASE("ranks that do not come are named, to those that have") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> heard;
  const double seconds = seconds_enough(0.3, [&](double all) {
    heard = meet({by_address(0, 4, first, all), by_address(2, 4, first, 4 * all)});
    return contains(heard[0], " s: 1, 3.");
  });
  for (const std::string& text : heard)
    CHECK(contains(text, fmt::format("of 4 ranks these have not come within {:g} s: 1, 3. Have "
                                     "they been started, with the same MASTER_ADDR, MASTER_PORT "
                                     "and YOTTA_JOB_KEY as rank 0 (process ",
                                     seconds)));
}

TEST_CASE("connections that say nothing, or not enough, hold up no rank") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> heard(2);
  const double seconds = seconds_enough(0.3, [&](double all) {
    std::vector<int> silent;
    std::thread zero([&] { heard[0] = meet({by_address(0, 3, first, all)})[0]; });
    for (int i = 0; i < 4; ++i) silent.push_back(connect_at_last(first.port));
    CHECK(send(silent[0], "\xff", 1, MSG_NOSIGNAL) == 1);
    heard[1] = meet({by_address(1, 3, first, 4 * all)})[0];
    zero.join();
    for (const int each : silent) close(each);
    return contains(heard[0], " s: 2.");
  });
  for (const std::string& text : heard)
    CHECK(contains(text, fmt::format("of 3 ranks these have not come within {:g} s: 2.", seconds)));
}

TEST_CASE("a process that came early may have waited all its time when the last one comes") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> early, last;
  seconds_enough(0.15, [&](double of_early) {
    const double all = 20 * of_early;
    std::thread others([&] {
      early = meet({by_address(0, 4, first, all), by_address(1, 4, first, of_early),
                    by_address(2, 4, first, of_early)});
    });
    std::this_thread::sleep_for(std::chrono::duration<double>(of_early + 0.15));
    last = meet({by_address(3, 4, first, all)});
    others.join();
    const auto came = [](const std::string& text) { return text == "nothing was thrown"; };
    return std::all_of(early.begin(), early.end(), came) && came(last[0]);
  });
  for (const std::string& text : early) CHECK(text == "nothing was thrown");
  CHECK(last[0] == "nothing was thrown");
}

TEST_CASE("two processes with one rank, and different numbers of ranks, are told to all") {
  const TcpAddress first{"localhost", free_port()};
  const TcpEnvironment zero = by_address(0, 3, first, longest_wait),
                       one = by_address(1, 3, first, longest_wait);
  check_all_hear({zero, one, one}, "two processes say that they are rank 1: process ");
  TcpEnvironment other = one;
  other.size = 2;
  check_all_hear({zero, other}, "WORLD_SIZE is 3 for rank 0 (process ");
  CHECK(contains(meet({by_address(3, 3, first, 1)})[0], "RANK is 3, but WORLD_SIZE is 3"));
}

TEST_CASE("rank 0 cannot be reached, or is another program") {
  const int port = free_port();
  std::string heard;
  double seconds = seconds_enough(0.1, [&](double all) {
    heard = meet({by_address(1, 2, {"localhost", port}, all)})[0];
    return contains(heard, "nothing listens");
  });
  CHECK(contains(heard, fmt::format("rank 1 could not reach rank 0 at localhost:{} within {:g} s: "
                                    "nothing listens at tcp://",
                                    port, seconds)));
  CHECK(contains(meet({by_address(1, 2, {"no.such.host.invalid", port}, 0.1)})[0],
                 "could not reach rank 0 at no.such.host.invalid:"));
  CHECK(contains(meet({by_file(1, 2, "/no/such/file", 0.1)})[0],
                 "could not reach rank 0 at /no/such/file within 0.1 s: the file does not say"));
  seconds_enough(0.2, [&](double all) {
    const Stranger other;
    std::thread answers([&] { other.answer_one("220 mail.example.com ESMTP ready"); });
    heard = meet({by_address(1, 2, {"127.0.0.1", other.port()}, all)})[0];
    close(connect_at_last(other.port()));  // to answer, if rank 1 was too late
    answers.join();
    return contains(heard, "what listens there");
  });
  CHECK(contains(heard, "what listens there is not rank 0"));
}

TEST_CASE("rank 0's port is taken") {
  const Stranger other;
  CHECK(contains(meet({by_address(0, 2, {"localhost", other.port()}, 1)})[0],
                 "Address already in use. Does another job use it, or another process with RANK=0? "
                 "Choose another MASTER_PORT"));
}

TEST_CASE("a stranger at rank 0's port is not counted, disturbs no rank, and is named") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> heard(2);
  const std::string said = stderr_of([&] {
    std::thread zero([&] { heard[0] = meet({by_address(0, 2, first, longest_wait)})[0]; });
    const int stranger = connect_at_last(first.port);
    const std::string words = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    CHECK(send(stranger, words.data(), words.size(), MSG_NOSIGNAL) == std::ssize(words));
    char bytes[256];
    while (recv(stranger, bytes, sizeof bytes, 0) > 0) continue;  // until it is cut off
    close(stranger);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    heard[1] = meet({by_address(1, 2, first, longest_wait)})[0];
    zero.join();
  });
  for (const std::string& text : heard) CHECK(text == "nothing was thrown");
  CHECK(contains(said, "does not have the key of this job, and was refused"));
}

TEST_CASE("more silent connections than rank 0 may have descriptors delay the start, no more") {
  const int port = free_port();
  const TcpAddress first{"localhost", port};
  const auto flood = std::make_unique<Flood>(std::vector{port}, 3, 150);
  const auto text_from_other = [&](int rank) {
    return message_of([&] {
      TcpMesh mesh(TcpRendezvous(by_address(rank, 2, first, longest_wait)).connect());
      mesh.send_text(1 - rank, "well");
      std::optional<std::string> text;
      for (const GiveUp late; !late && !(text = mesh.take_text(1 - rank)) && mesh.lost() < 0;)
        mesh.progress(0.05);
      mesh.say_goodbye();
      fail(Where::current(), "the other says: {}", text.value_or("nothing"));
    });
  };
  const LimitedProcess limited(256, [&] {
    const StderrText said;
    const std::string heard = text_from_other(0);
    return heard + "; " + said.get();
  });
  const SilentConnections many(port, 50);
  CHECK(contains(text_from_other(1), "the other says: well"));
  const std::string zero = limited.text();
  CAPTURE(zero);
  CHECK(contains(zero, "rank 0: 65 connections have not shown the key of this job, "));
  CHECK(contains(zero, "of them from 127.0.0.1; the oldest are closed"));
  CHECK(contains(zero, "the other says: well"));
}

TEST_CASE("once the ranks have met, strangers use up no descriptors: files can be opened") {
  const std::string heard = in_limited_process(256, [] {
    const StderrText quiet;
    const TcpAddress first{"localhost", free_port()};
    std::string opened;
    on_threads_of(2, [&](int rank) {
      TcpPeers peers = TcpRendezvous(by_address(rank, 2, first, longest_wait)).connect();
      const std::vector<int> ports = {peers.sockets->inbox_port(), peers.sockets->control_port()};
      TcpMesh mesh(std::move(peers));
      if (rank == 0) {
        const Flood flood(ports, 3, 150);
        for (const Deadline some(0.3); some.left() > 0;) mesh.progress(0.01);
        std::vector<int> files;
        while (files.size() < 100) files.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
        opened = std::to_string(std::count(files.begin(), files.end(), -1));
        for (const int file : files) close(file);
      }
      check_all_are_there(mesh);
    });
    return "not opened: " + opened;
  });
  CHECK(heard == "not opened: 0");
}

TEST_CASE("too few descriptors for the job: said, with what to do") {
  for (const rlim_t descriptors : {24, 40, 60}) {
    const std::string heard = in_limited_process(descriptors, [] {
      return meet({by_address(0, 20, {"localhost", free_port()}, longest_wait)})[0];
    });
    CAPTURE(heard);
    CHECK(contains(heard, "rank 0 cannot connect to the others: Too many open files."));
    CHECK(contains(heard, "and a job needs about 10 for each rank: raise the limit (ulimit -n)"));
  }
}

TEST_CASE("a process with the key that greets as no rank does is named, and harms no rank") {
  const TcpAddress first{"localhost", free_port()};
  std::vector<std::string> heard(2), answers;
  const std::string said = stderr_of([&] {
    std::thread zero([&] { heard[0] = meet({by_address(0, 2, first, longest_wait)})[0]; });
    KeyHolder several(key, first.port), other(key, first.port), thief(key, first.port);
    const TcpMember member{1, 2, own_address(), "", 40123, 40124, "5f0c"};
    several.send({pack_member(member), "more"});
    other.send({"GET / HTTP/1.1"});
    thief.send({pack_member(member)});  // under the name of another's connections
    for (KeyHolder* const each : {&other, &thief}) {
      zmq::message_t answer;
      each->socket().set(zmq::sockopt::rcvtimeo, static_cast<int>(1000 * longest_wait));
      REQUIRE(each->socket().recv(answer).has_value());
      answers.push_back(unpack_roster(answer.to_string_view(), 2).refusal);
    }
    heard[1] = meet({by_address(1, 2, first, longest_wait)})[0];
    zero.join();
  });
  for (const std::string& text : heard) CHECK(text == "nothing was thrown");
  CHECK(contains(answers[0], "rank 0 does not understand this process's greeting"));
  CHECK(contains(answers[1], "the name of another's connections"));
  CHECK(contains(said,
                 "rank 0: a process at 127.0.0.1 has the job's key, but what it sends is not a "
                 "rank's, and is dropped: "));
}

TEST_CASE("when the time is over no further address of rank 0 is tried") {
  const TemporaryFolder folder;
  const std::string file = (folder / "place").string();
  const Stranger silent;  // takes connections, and says nothing
  fcntl(silent.fd(), F_SETFL, O_NONBLOCK);
  write_place(file, {silent.port(), key, std::vector<std::string>(10, "127.0.0.1")});
  int tried = 0;
  const double seconds = seconds_enough(0.3, [&](double all) {
    CHECK(contains(meet({by_file(1, 2, file, all)})[0], "could not reach rank 0 at " + file));
    for (int fd; (fd = accept(silent.fd(), nullptr, nullptr)) >= 0; ++tried) close(fd);
    return tried >= 1;
  });
  CHECK(tried >= 1);
  CHECK(tried <= 2 + seconds / 2);  // each takes two seconds, if so many are left
}

TEST_CASE("a job on one machine cannot be reached from another") {
  const TcpSockets here(key, true, 0, -1, "rank 0", Where::current());
  const TcpSockets everywhere(key, false, 0, -1, "rank 0", Where::current());
  const std::string own = own_addresses()[0];
  const auto answers = [&](int port) {
    const sockaddr_in address = local_address(port, own.c_str());
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool well = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    return well;
  };
  CHECK(answers(everywhere.inbox_port()));
  if (is_loopback(own)) return;  // this machine has no other address
  CHECK_FALSE(answers(here.inbox_port()));
  CHECK_FALSE(answers(here.control_port()));
}

TEST_CASE("what a process says of itself is checked: names without an end, ports, versions") {
  const TcpMember whole{1, 3, own_address(), "10.0.0.1", 40123, 40124, "5f0c"};
  std::string fault;
  const auto back = unpack_member(pack_member(whole), fault);
  REQUIRE(back.has_value());
  CHECK(back->process.pid == getpid());
  CHECK(std::string(back->process.host.data()) == own_address().host.data());
  const auto refused = [&](auto change, const std::string& words) {
    TcpMember member = whole;
    change(member);
    fault.clear();
    CHECK_FALSE(unpack_member(pack_member(member), fault).has_value());
    CAPTURE(fault);
    CHECK(contains(fault, words));
  };
  refused([](TcpMember& member) { member.inbox_port = 0; }, "ports 0 and 40124");
  refused([](TcpMember& member) { member.control_port = 1 << 20; }, "ports 40123 and 1048576");
  refused([](TcpMember& member) { member.process.pid = -5; }, "process -5");
  refused([](TcpMember& member) { member.host = std::string(1000, 'x'); }, "ports ");
  refused([](TcpMember& member) { member.name = ""; }, "a name of 0 characters");
  refused([](TcpMember& member) { member.name = std::string(65, 'x'); }, "a name of 65 characters");
  MessageWriter endless;
  endless.put(std::string(members_mark));
  for (int number = 1; number <= 5; ++number) endless.put(number);
  endless.put(std::string(64, 'h'));
  CHECK_FALSE(unpack_member(endless.bytes(), fault).has_value());
  CHECK(contains(fault, "a name of 64 characters"));
  std::string text = pack_member(whole);
  for (size_t length = 0; length < text.size(); ++length)
    CHECK_FALSE(unpack_member(text.substr(0, length), fault).has_value());
  TcpRoster roster{"", {whole, whole}};
  CHECK(contains(message_of([&] { unpack_roster(pack_roster(roster), 2); }), "rank 0 twice"));
}
