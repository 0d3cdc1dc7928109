#include "yotta/machine/files/cluster_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/files/json.hpp"

using namespace yotta;
using yotta_test::contains;
using yotta_test::message_of;

namespace {

const std::string lab = R"({
  "name": "lab",
  "chip": {"name": "mine", "bf16": 1e14, "f32": 1e13, "bandwidth": 1e12, "memory": 16e9},
  "levels": [{"name": "node", "chips": 4, "alpha": 1e-6, "bandwidth": 300e9},
             {"name": "room", "chips": 32, "alpha": 5e-6, "bandwidth": 25e9}],
  "torus": [2, 2],
  "gamma": 1e-12
})";

// What is said of the lab with one part of its text replaced.
std::string said(const std::string& part, const std::string& by) {
  std::string text = lab;
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  text.replace(at, part.size(), by);
  return message_of([&] { parse_cluster(text, "lab.json"); });
}

}  // namespace

TEST_CASE("a machine of your own") {
  const Cluster c = parse_cluster(lab, "lab.json");
  CHECK(c.name == "lab");
  CHECK(c.size() == 32);
  CHECK(std::string(c.chip.name) == "mine");
  CHECK(peak(c.chip, DType::bf16) == 1e14);
  CHECK(contains(message_of([&] { peak(c.chip, DType::f64); }), "mine does not compute in f64"));
  CHECK(c.link(0, 3).alpha == 2e-6);  // two hops
  CHECK(c.link(0, 4) == Link{5e-6, 1 / 25e9, 1});
  CHECK(c.gamma == 1e-12);
  const Cluster known = parse_cluster(
      R"({"name": "x", "chip": "v5p", "levels": [{"name": "n", "chips": 1, "alpha": 0, "bandwidth": 1}]})",
      "x.json");
  CHECK(known.chip.bf16 == 459e12);
  CHECK(known.size() == 1);
}

TEST_CASE("what is wrong is named: file, key, expected, found") {
  const auto check = [](const std::string& part, const std::string& by, const std::string& words) {
    const std::string text = said(part, by);
    CAPTURE(text);
    CAPTURE(words);
    CHECK(contains(text, words));
  };
  check("\"lab\"", "7", "lab.json: name: expected a text in quotes, found 7");
  check("\"name\": \"lab\",", "", "lab.json: name: expected a text in quotes, found nothing");
  check("\"gamma\": 1e-12", "\"gama\": 1",
        "lab.json: unknown key 'gama'; known are name, chip, levels");
  check("1e-12", "-1", "lab.json: gamma: expected a number, 0 or more, found -1");
  check("\"chips\": 4,", "\"chips\": 4.5,", "lab.json: levels[0]: chips: expected a whole number");
  check("\"chips\": 32,", "\"chips\": 30,",
        "lab.json: levels[1]: chips: expected a multiple of the 4 chips of the level before, found "
        "30");
  check("\"bandwidth\": 25e9", "\"bandwidth\": 0",
        "lab.json: levels[1]: bandwidth: expected a number above 0, found 0");
  check("\"alpha\": 5e-6,", "",
        "lab.json: levels[1]: alpha: expected a number, 0 or more, found nothing");
  check("\"bandwidth\": 1e12", "\"bandwith\": 1e12", "lab.json: chip: unknown key 'bandwith'");
  check("[2, 2]", "[2, 3]",
        "lab.json: torus: expected axes that multiply to the 4 chips of levels[0]");
  check("[2, 2]", "[]", "lab.json: torus: expected a list with at least one entry");
  check("\"gamma\": 1e-12\n}", "\"gamma\": }", "lab.json: line 7: this is not JSON");
  CHECK(contains(message_of([] { parse_cluster("[]", "a.json"); }), "a.json: expected an object"));
  const std::string chip =
      message_of([] { parse_cluster(R"({"name": "x", "chip": "h101", "levels": []})", "x.json"); });
  CHECK(contains(chip, "no chip is called 'h101'"));
}

TEST_CASE("a name or a file") {
  CHECK(cluster_from("h100x8").size() == 8);
  const yotta_test::TemporaryFolder folder;
  const std::string path = (folder.path() / "lab.json").string();
  std::ofstream(path) << lab;
  CHECK(cluster_from(path).name == "lab");
  CHECK(contains(message_of([] { cluster_from("missing.json"); }), "missing.json cannot be read"));
  const std::string other = folder / "lab.txt";
  std::ofstream(other) << "{}";
  CHECK(contains(message_of([&] { cluster_from(other); }), "its name does not end in .json"));
}

TEST_CASE("what is not a plain file is refused at once, and named") {
  const yotta_test::TemporaryFolder folder;
  const std::string pipe = folder / "pipe.json", zero = folder / "zero.json";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const int both_ends = open(pipe.c_str(), O_RDWR | O_NONBLOCK);  // whoever reads gets an answer
  CHECK(write(both_ends, "{}", 2) == 2);
  std::filesystem::create_symlink("/dev/zero", zero);
  std::filesystem::create_symlink("round.json", folder / "round.json");
  std::filesystem::create_directory(folder / "folder.json");
  CHECK(contains(message_of([&] { cluster_from(folder / "round.json"); }),
                 "round.json: its links lead in a circle"));
  CHECK(contains(message_of([&] { cluster_from(folder / "folder.json"); }),
                 "folder.json: this is a folder"));
  for (const std::string& path : {pipe, zero})
    CHECK(contains(message_of([&] { cluster_from(path); }), path + ": this is not a plain file"));
  std::filesystem::create_symlink("round", folder / "round");
  for (const std::string& path :
       std::vector<std::string>{folder / "round", folder / "round/x", std::string(5000, 'x')})
    CHECK(contains(message_of([&] { cluster_from(path); }), path + "' is not a machine"));
  close(both_ends);
}

TEST_CASE("a hostile text is refused by the file's name, in printable letters") {
  const auto check = [](const std::string& text, const std::string& expected) {
    const std::string message = message_of([&] { parse_cluster(text, "lab.json"); });
    CAPTURE(message);
    CHECK(contains(message, "lab.json: "));
    CHECK(contains(message, expected));
    CHECK_FALSE(has_control_characters(message));
  };
  check(std::string(200'000, '['), "nested more than 64 deep");
  check("{\"name\": " + std::string(60, '[') + std::string(60, ']') + "}", "a text in quotes");
  check("{\"name\": \"x\", \"chip\": \"h100\", \"levels\": [], \"gamma\": 1e400}",
        "number overflow parsing '1e400'");
  check("{\"name\": \"\xFF\"}", "ill-formed UTF-8");
  check("{\"name\": \"x\", \"name\": \"y\"}", "the name 'name' appears twice");
  check("{\"na\\u001b[2Jme\": 1}", "unknown key 'na\\u001b[2Jme'");
  std::string named = lab;
  named.replace(named.find("\"lab\""), 5, "\"\\u001b[2J\"");
  check(named, "name: expected a text in quotes without control characters");
}
