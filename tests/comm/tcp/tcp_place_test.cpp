#include "yotta/comm/tcp/tcp_place.hpp"

#include <doctest/doctest.h>

#include <map>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

using Variables = std::map<std::string, std::string>;

std::optional<TcpPlace> place_with(const Variables& variables) {
  return find_tcp_place([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}
std::string refusal_of(const Variables& variables) {
  return message_of([&] { place_with(variables); });
}

const Variables torchrun = {
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29511"}};

}  // namespace

TEST_CASE("torchrun's variables") {
  const auto place = place_with(torchrun);
  REQUIRE(place.has_value());
  CHECK(place->rank == 2);
  CHECK(place->size == 4);
  CHECK(place->first.text() == "node1:29511");
  CHECK(place->file.empty());
  CHECK(place->seconds == 60);
  Variables some = torchrun;
  some.erase("MASTER_PORT");
  some["YOTTA_RENDEZVOUS_SECONDS"] = "5";
  CHECK(place_with(some)->first.port == 29500);
  CHECK(place_with(some)->seconds == 5);
  some["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(place_with(some)->first.port == 29501);
}

TEST_CASE("a file in place of an address; srun's variables in place of a rank") {
  const auto by_file =
      place_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"YOTTA_RENDEZVOUS_FILE", "/shared/job"}});
  REQUIRE(by_file.has_value());
  CHECK(by_file->file == "/shared/job");
  const auto by_slurm =
      place_with({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"MASTER_ADDR", "node1"}});
  REQUIRE(by_slurm.has_value());
  CHECK(by_slurm->rank == 3);
  CHECK(by_slurm->size == 8);
}

TEST_CASE("a process that was started alone has no place") {
  CHECK_FALSE(place_with({}).has_value());
  CHECK_FALSE(place_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}}).has_value());
  CHECK_FALSE(place_with({{"RANK", "1"}, {"MASTER_ADDR", "node1"}}).has_value());
  CHECK_FALSE(place_with({{"MASTER_ADDR", "node1"}}).has_value());
  CHECK_FALSE(place_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", ""}}).has_value());
}

TEST_CASE("what is no number is refused by name") {
  for (const auto& [name, value] :
       Variables{{"RANK", "two"}, {"WORLD_SIZE", "0"}, {"MASTER_PORT", "70000"}, {"RANK", "-1"}}) {
    Variables wrong = torchrun;
    wrong[name] = value;
    CHECK(contains(refusal_of(wrong), fmt::format("{} is \"{}\"; it should be", name, value)));
  }
}

TEST_CASE("the file of a place: written whole, read, or not there yet") {
  const TemporaryFolder folder;
  const std::string file = (folder / "place").string();
  CHECK(read_place(file).empty());
  write_place(file, 40123);
  const std::vector<TcpAddress> addresses = read_place(file);
  REQUIRE_FALSE(addresses.empty());
  CHECK(addresses.back().text() == "127.0.0.1:40123");
  for (const TcpAddress& address : addresses) CHECK(address.port == 40123);
  const std::string nowhere = (folder / "no/place").string();
  CHECK(contains(message_of([&] { write_place(nowhere, 1); }), "cannot write " + nowhere));
}
