// The one rule of the book: a page uses only foundations and what an earlier lesson taught.
//
// lessons/pages.json says which lesson owns which page. What a page uses is what it includes,
// directly or through other headers. The bodies of rooms and faces (impl/x.ipp) are not what a
// reader opens, and do not count.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/house.hpp"

using namespace house;

namespace {

struct Lesson {
  std::string name;                      // "13_ddp"
  std::vector<std::string> first, then;  // pages: "parallel/ddp.hpp"
};

// lessons/pages.json.
struct Pages {
  std::vector<std::string> foundations, machinery;
  std::vector<Lesson> lessons;

  std::string number(size_t lesson) const { return lessons[lesson].name.substr(0, 2); }
};

Pages read_pages(const fs::path& root) {
  std::ifstream file(root / "lessons/pages.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  const auto names = [](const nlohmann::json& list) {
    return list.get<std::vector<std::string>>();
  };
  Pages pages{names(json.at("foundations")), names(json.at("machinery")), {}};
  for (const nlohmann::json& lesson : json.at("lessons"))
    pages.lessons.push_back(
        {lesson.at("lesson"), names(lesson.at("read_first")),
         lesson.contains("then") ? names(lesson.at("then")) : std::vector<std::string>()});
  return pages;
}

// Which lesson owns a page: its place in the list. A foundation that a lesson explains belongs to
// none.
std::map<std::string, size_t> owners(const Pages& pages) {
  std::map<std::string, size_t> owner;
  const std::set<std::string> free(pages.foundations.begin(), pages.foundations.end());
  for (size_t i = 0; i < pages.lessons.size(); ++i)
    for (const auto* list : {&pages.lessons[i].first, &pages.lessons[i].then})
      for (const std::string& page : *list)
        if (free.count(page) == 0) owner.emplace(page, i);
  return owner;
}

// How a page reaches each header that it uses: the header that includes it.
std::map<std::string, std::string> reached(const fs::path& root, const std::string& page) {
  std::map<std::string, std::string> from = {{page, ""}};
  std::vector<std::string> open = {page};
  for (size_t i = 0; i < open.size(); ++i)
    for (const Include& include : includes(root / "include/yotta" / open[i])) {
      const std::string other = include.ours();
      if (!other.empty() && !other.ends_with(".ipp") && from.emplace(other, open[i]).second)
        open.push_back(other);
    }
  return from;
}

// The way from a page to a header that it uses: "parallel/ddp.hpp -> nn/parameter.hpp".
std::string way(const std::map<std::string, std::string>& from, const std::string& to) {
  const std::string& before = from.at(to);
  return before.empty() ? to : way(from, before) + " -> " + to;
}

// Pages that use what a later lesson teaches.
Complaints read_too_early(const fs::path& root) {
  Complaints complaints;
  const Pages pages = read_pages(root);
  const std::map<std::string, size_t> owner = owners(pages);
  for (const auto& [page, lesson] : owner) {
    const std::map<std::string, std::string> from = reached(root, page);
    for (const auto& [other, before] : from) {
      const auto found = owner.find(other);
      if (found != owner.end() && found->second > lesson)
        complaints.push_back(fmt::format("a page of lesson {} uses one of lesson {}: {}",
                                         pages.number(lesson), pages.number(found->second),
                                         way(from, other)));
    }
  }
  return complaints;
}

// A header at the top of a floor is a foundation, machinery or a lesson's page, and only one of
// these; and every page that is listed is there.
Complaints pages_without_owner(const fs::path& root) {
  Complaints complaints;
  const Pages pages = read_pages(root);
  std::map<std::string, int> listed;
  for (const auto* list : {&pages.foundations, &pages.machinery})
    for (const std::string& page : *list) ++listed[page];
  for (const auto& [page, lesson] : owners(pages)) ++listed[page];
  for (const auto& [page, times] : listed) {
    if (times > 1) complaints.push_back(page + " is listed twice");
    if (!fs::exists(root / "include/yotta" / page)) complaints.push_back("there is no " + page);
  }
  for (const fs::path& header : headers(root)) {
    const std::string page = header.lexically_relative("include/yotta");
    if (is_book(header) && listed.count(page) == 0)
      complaints.push_back(page + " is not in lessons/pages.json");
  }
  return complaints;
}

// Every lesson has a line, in the order of numbers; and README's table names the pages to be read
// first.
Complaints tables_that_differ(const fs::path& root) {
  Complaints complaints;
  const Pages pages = read_pages(root);
  std::string before;
  std::map<std::string, std::string> cell_of;
  for (const Lesson& lesson : pages.lessons) {
    if (lesson.name <= before)
      complaints.push_back(fmt::format("{} comes after {}", lesson.name, before));
    before = lesson.name;
    std::string& cell = cell_of[lesson.name];
    for (const std::string& page : lesson.first)
      cell += fmt::format("{}[{}](include/yotta/{})", cell.empty() ? "" : ", ", page, page);
  }
  for (const auto& entry : fs::directory_iterator(root / "lessons"))
    if (entry.is_directory() && cell_of.count(entry.path().filename()) == 0)
      complaints.push_back(entry.path().filename().string() + " is not in lessons/pages.json");
  each_line(root / "README.md", [&](int number, const std::string& line) {
    for (auto& [name, cell] : cell_of) {
      if (line.find(fmt::format("](lessons/{}/README.md) |", name)) == std::string::npos) continue;
      if (line.find("| " + cell + " |") == std::string::npos)
        complaints.push_back(fmt::format("README.md:{}: {} reads {} first", number, name, cell));
      cell.clear();
    }
  });
  for (const auto& [name, cell] : cell_of)
    if (!cell.empty()) complaints.push_back("README.md has no line for " + name);
  return complaints;
}

}  // namespace

TEST_CASE("a page uses only foundations and what an earlier lesson taught") {
  check_none(read_too_early(project));
  Sketch house;
  house.write("lessons/pages.json",
              R"({"foundations": ["nn/layer.hpp"], "machinery": ["model/trainer.hpp"],
      "lessons": [{"lesson": "13_ddp", "read_first": ["parallel/ddp.hpp"]},
                  {"lesson": "14_zero", "read_first": ["nn/layer.hpp", "parallel/zero.hpp"],
                   "then": ["parallel/flat_shard.hpp"]}]})");
  house.write("include/yotta/nn/layer.hpp");
  house.write("include/yotta/parallel/zero.hpp", "#include \"yotta/parallel/ddp.hpp\"\n");
  house.write("include/yotta/parallel/flat_shard.hpp");
  house.write("include/yotta/parallel/impl/ddp.ipp", "#include \"yotta/parallel/zero.hpp\"\n");
  const std::string fine =
      "#include \"yotta/nn/layer.hpp\"\n#include \"yotta/parallel/impl/ddp.ipp\"\n";
  house.write("include/yotta/parallel/ddp.hpp", fine);
  CHECK(read_too_early(house.root()).empty());
  SUBCASE("directly") {
    house.write("include/yotta/parallel/ddp.hpp",
                fine + "#include \"yotta/parallel/flat_shard.hpp\"\n");
    CHECK(complains(read_too_early(house.root()),
                    "a page of lesson 13 uses one of lesson 14: parallel/ddp.hpp -> "
                    "parallel/flat_shard.hpp"));
  }
  SUBCASE("through machinery") {
    house.write("include/yotta/parallel/ddp.hpp", "#include \"yotta/model/trainer.hpp\"\n");
    house.write("include/yotta/model/trainer.hpp", "#include \"yotta/parallel/flat_shard.hpp\"\n");
    CHECK(complains(read_too_early(house.root()),
                    "parallel/ddp.hpp -> model/trainer.hpp -> parallel/flat_shard.hpp"));
  }
}

TEST_CASE("every header at the top of a floor has its place in the order") {
  check_none(pages_without_owner(project));
  Sketch house;
  const std::string list = R"({"foundations": ["nn/layer.hpp"], "machinery": [],
      "lessons": [{"lesson": "13_ddp", "read_first": ["nn/layer.hpp", "parallel/ddp.hpp"]}]})";
  house.write("lessons/pages.json", list);
  house.write("include/yotta/nn/layer.hpp");
  house.write("include/yotta/nn/cpu/body.hpp");  // a room's
  house.write("include/yotta/parallel/ddp.hpp");
  CHECK(pages_without_owner(house.root()).empty());
  SUBCASE("none") {
    house.write("include/yotta/nn/linear.hpp");
    CHECK(complains(pages_without_owner(house.root()), "nn/linear.hpp is not in"));
  }
  SUBCASE("two") {
    house.write("lessons/pages.json",
                R"({"foundations": ["nn/layer.hpp"], "machinery": ["parallel/ddp.hpp"],
      "lessons": [{"lesson": "13_ddp", "read_first": ["parallel/ddp.hpp"]}]})");
    CHECK(complains(pages_without_owner(house.root()), "parallel/ddp.hpp is listed twice"));
  }
  SUBCASE("a page that is gone") {
    fs::remove(house.root() / "include/yotta/parallel/ddp.hpp");
    CHECK(complains(pages_without_owner(house.root()), "there is no parallel/ddp.hpp"));
  }
}

TEST_CASE("README's table is that of lessons/pages.json") {
  check_none(tables_that_differ(project));
  Sketch house;
  house.write("lessons/13_ddp/README.md");
  house.write("lessons/pages.json", R"({"foundations": [], "machinery": [],
      "lessons": [{"lesson": "13_ddp", "read_first": ["parallel/ddp.hpp", "nn/parameter.hpp"]}]})");
  const std::string row =
      "| 13 | [DDP](lessons/13_ddp/README.md) | "
      "[parallel/ddp.hpp](include/yotta/parallel/ddp.hpp), "
      "[nn/parameter.hpp](include/yotta/nn/parameter.hpp) | x |\n";
  house.write("README.md", row);
  CHECK(tables_that_differ(house.root()).empty());
  SUBCASE("another page") {
    house.write("README.md",
                "| 13 | [DDP](lessons/13_ddp/README.md) | "
                "[parallel/ddp.hpp](include/yotta/parallel/ddp.hpp) | x |\n");
    CHECK(complains(tables_that_differ(house.root()), "README.md:1: 13_ddp reads"));
  }
  SUBCASE("no line in README") {
    house.write("README.md", "");
    CHECK(complains(tables_that_differ(house.root()), "README.md has no line for 13_ddp"));
  }
  SUBCASE("a lesson without pages") {
    house.write("lessons/14_zero/README.md");
    CHECK(complains(tables_that_differ(house.root()), "14_zero is not in lessons/pages.json"));
  }
}

TEST_CASE("the reading order") {
  const Pages pages = read_pages(project);
  std::string text;
  for (const Lesson& lesson : pages.lessons) {
    text += fmt::format("{:30}{}", lesson.name, fmt::join(lesson.first, ", "));
    if (!lesson.then.empty()) text += fmt::format("; then {}", fmt::join(lesson.then, ", "));
    text += "\n";
  }
  CHECK(pages.lessons.size() >= 28);
  MESSAGE("lesson and its pages\n", text);
}
