#include "yotta/model/files/weights_folder.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("one file and several are read alike") {
  const TemporaryFolder one, two;
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3}), b = Tensor::full({2, 2}, 5);
  save_safetensors(one / "model.safetensors", {{"a", a}, {"b", b}}, {{"step", "4"}});
  save_safetensors(two / "model-00001-of-00002.safetensors", {{"a", a}});
  save_safetensors(two / "model-00002-of-00002.safetensors", {{"b", b}});
  write_file(two / "model.safetensors.index.json",
             R"({"metadata": {"total_size": 28}, "weight_map":
                 {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  for (const TemporaryFolder* folder : {&one, &two}) {
    const WeightsFolder files(folder->path());
    CHECK(files.tensors().size() == 2);
    CHECK(files.entry("b").shape == Shape{2, 2});
    CHECK(files.read("a").values() == std::vector<double>{1, 2, 3});
    CHECK(files.read("b").values() == std::vector<double>{5, 5, 5, 5});
  }
  CHECK(WeightsFolder(one.path()).metadata().at("step") == "4");
  CHECK(WeightsFolder(two.path()).metadata().empty());
}

TEST_CASE("an index that disagrees with the files is refused") {
  const TemporaryFolder folder;
  save_safetensors(folder / "x.safetensors", {{"a", Tensor::full({1}, 1)}});
  const auto opening = [&](const std::string& index) {
    write_file(folder / "model.safetensors.index.json", index);
    return message_of([&] { WeightsFolder{folder.path()}; });
  };
  CHECK(opening(R"({"weight_map": {"a": "x.safetensors"}})") == "nothing was thrown");
  CHECK(contains(opening(R"({"weight_map": {"b": "x.safetensors"}})"), "'b' should be in x.saf"));
  CHECK(contains(opening(R"({"weight_map": {"a": "y.safetensors"}})"), "there is no such file"));
  CHECK(
      contains(opening(R"({"weight_map": {"a": "../x.safetensors"}})"), "no safetensors file of"));
  CHECK(contains(opening(R"({"weight_map": {"a": 3}})"), "no safetensors file of"));
  CHECK(contains(opening(R"({"weight_map": 3})"), "has no weight_map"));
  CHECK(contains(opening("{"), "has no weight_map"));
  CHECK(contains(message_of([] { WeightsFolder{"/nowhere"}; }), "model.safetensors: there is no"));
}
