#include "yotta/model/files/safetensors.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/files/json.hpp"
#include "yotta/core/random.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
std::string length(uint64_t bytes) { return std::string(reinterpret_cast<char*>(&bytes), 8); }

// A file with this header and this many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  return length(header.size()) + header + std::string(data_bytes, '\1');
}
}  // namespace

TEST_CASE("every type and shape comes back, bit for bit") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  for (const auto& [dtype, name] : safetensors_types) {
    Tensor x = Tensor::empty({3, 5}, dtype);
    for (int64_t i = 0; i < x.nbytes(); ++i)
      static_cast<unsigned char*>(x.raw())[i] = static_cast<unsigned char>(37 * i + 1);
    tensors.push_back({name, x});
  }
  tensors.push_back({"scalar", Tensor::full({}, 2.5)});
  tensors.push_back({"none", Tensor::zeros({0, 4})});
  tensors.push_back({"g\xC3\xA9nial \"x\"\n", Tensor::full({1}, 7, DType::u8)});
  const Metadata metadata{{"format", "pt"}, {"step", "12"}};
  save_safetensors(folder / "a.safetensors", tensors, metadata);
  SafetensorsFile file(folder / "a.safetensors");
  CHECK(file.metadata() == metadata);
  CHECK(file.entries().size() == tensors.size());
  for (const auto& [name, value] : tensors) {
    const Tensor read = file.read(name);
    CHECK(read.describe() == value.describe());
    CHECK(std::memcmp(read.raw(), value.raw(), static_cast<size_t>(value.nbytes())) == 0);
  }
  CHECK(contains(message_of([&] { file.read("nobody"); }), "none is called 'nobody'"));
}

TEST_CASE("the bytes are the format's: length, header, spaces, data, wide types first") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a", {{"b", Tensor::full({1}, 255, DType::u8)},
                                  {"c", Tensor::from<float>({1, 2}, {2, 1})}});
  const std::string header = R"({"b":{"data_offsets":[8,9],"dtype":"U8","shape":[1]},)"
                             R"("c":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string data("\0\0\x80\x3F\0\0\0\x40\xFF", 9);
  CHECK(read_file(folder / "a") == length(padded.size()) + padded + data);
}

TEST_CASE("a file without tensors is a file") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a", {});
  CHECK(load_safetensors(folder / "a").empty());
}

TEST_CASE("what cannot be saved is refused and the old file stays") {
  const TemporaryFolder folder;
  const Tensor x = Tensor::full({2}, 3);
  save_safetensors(folder / "a", {{"x", x}});
  const auto saving = [&](const std::vector<NamedTensor>& tensors) {
    return message_of([&] { save_safetensors(folder / "a", tensors); });
  };
  CHECK(contains(saving({{"x", x}, {"x", x}}), "another one has this name"));
  CHECK(contains(saving({{"__metadata__", x}}), "not allowed"));
  CHECK(contains(saving({{"y", Tensor()}}), "'y' (undefined) has no data"));
  {
    const DeviceScope meta(Device::meta);
    CHECK(contains(saving({{"y", Tensor::zeros({2})}}), "has no data"));
  }
  CHECK(load_safetensors(folder / "a")[0].value.values() == std::vector<double>{3, 3});
}

TEST_CASE("a broken file is refused with the reason") {
  const TemporaryFolder folder;
  const auto opening = [&](const std::string& bytes) {
    write_file(folder / "a", bytes);
    return message_of([&] { load_safetensors(folder / "a"); });
  };
  // One tensor "x" of 2 floats, with its entry as given, and 8 bytes of data.
  const auto entry = [&](const std::string& text) {
    return opening(file_of("{\"x\":{" + text + "}}", 8));
  };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  REQUIRE(entry(good) == "nothing was thrown");

  CHECK(contains(opening("abc"), "it has 3 bytes, the least is 8"));
  CHECK(contains(opening(length(1u << 30)), "a header of 1073741824 bytes, more than 100000000"));
  CHECK(contains(opening(length(~0ull)), "more than 100000000"));
  CHECK(contains(opening(length(100) + "{}"), "a header of 100 bytes and ends after 10"));
  CHECK(contains(opening(length(0)), "does not start with '{'"));
  CHECK(contains(opening(file_of(" {}", 0)), "does not start with '{'"));
  CHECK(contains(opening(file_of("{\"x\":", 0)), "the header is not JSON"));
  CHECK(contains(opening(file_of("{\"\xFF\":1}", 0)), "the header is not JSON"));
  for (const size_t data : {0, 7, 9, 1000}) {
    const std::string bytes = file_of("{\"x\":{" + good + "}}", data);
    const auto expected =
        fmt::format("need {} bytes and the file has {}", bytes.size() - data + 8, bytes.size());
    CHECK(contains(opening(bytes), expected));
  }
  CHECK(contains(opening(file_of("{\"x\":{" + good + "},\"x\":{" + good + "}}", 8)),
                 "the name 'x' appears twice"));
  CHECK(contains(opening(file_of("{\"x\":{" + good + "},\"y\":{" + good + "}}", 8)),
                 "starts at byte 0 of the data, and the one before ends at 8"));  // overlap
  CHECK(contains(opening(file_of("{\"__metadata__\":3}", 0)), "__metadata__ is not an object"));
  CHECK(contains(opening(file_of("{\"__metadata__\":{\"a\":3}}", 0)), "'a' is not a string"));

  CHECK(contains(opening(file_of("{\"x\":3}", 8)), "'x' has no dtype"));
  CHECK(contains(entry(R"("dtype":"F32","data_offsets":[0,8])"), "'x' has no shape"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[2])"), "'x' has no data_offsets"));
  CHECK(contains(entry(R"("dtype":"C64","shape":[1],"data_offsets":[0,8])"), "is of type C64"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
                 "'x' is (3) F32, which is 12 bytes, but has 8"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "not all sizes: -2"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "not all sizes"));
  CHECK(contains(entry(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), "not all sizes"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"),
                 "not all sizes"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
                 "more than 2^63 bytes"));
  CHECK(
      contains(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "data_offsets of 'x'"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8])"), "data_offsets of 'x'"));
  CHECK(contains(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
                 "starts at byte 4 of the data"));  // a gap
}

TEST_CASE("whatever bytes are flipped or cut, a file loads or is refused") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a", {{"w", Tensor::full({2, 3}, 1)}, {"b", Tensor::full({3}, 2)}},
                   {{"format", "pt"}});
  const std::string good = read_file(folder / "a");
  const Random random(1, "fuzz");
  int loaded = 0, refused = 0;
  const int trials = long_form() ? 13000 : 500;
  for (uint32_t trial = 0; trial < static_cast<uint32_t>(trials); ++trial) {
    std::string bytes = good;
    const uint32_t flips = 1 + random.below(trial * 16, 4);
    for (uint32_t k = 1; k <= flips; ++k)
      bytes[random.below(trial * 16 + 2 * k, static_cast<uint32_t>(bytes.size()))] =
          static_cast<char>(random.below(trial * 16 + 2 * k + 1, 256));
    if (trial % 5 == 0)
      bytes.resize(random.below(trial * 16 + 15, static_cast<uint32_t>(bytes.size())));
    std::ofstream(folder / "b", std::ios::binary) << bytes;
    try {
      load_safetensors(folder / "b");
      ++loaded;
    } catch (const Error&) {
      ++refused;
    }
  }
  CHECK(loaded + refused == trials);
  CHECK(loaded > trials / 20);  // flips in the data cannot be seen
  CHECK(refused > trials / 4);
}

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
  CHECK(contains(opening(R"({"weight_map": {"a": "../x.safetensors"}})"),
                 "not a safetensors file of"));
  CHECK(contains(opening(R"({"weight_map": {"a": 3}})"), "not a safetensors file of"));
  CHECK(contains(opening(R"({"weight_map": 3})"), "has no weight_map"));
  CHECK(contains(opening("{"), "has no weight_map"));
  CHECK(contains(message_of([] { WeightsFolder{"/nowhere"}; }), "model.safetensors: there is no"));
}

TEST_CASE("a hostile header or index is refused by the file's name, soon, in printable letters") {
  const TemporaryFolder folder;
  const auto opening = [&](const std::string& header) {
    write_file(folder / "model.safetensors", file_of(header, 0));
    const std::string message = message_of([&] { WeightsFolder{folder.path()}; });
    CHECK(contains(message, "model.safetensors"));
    CHECK_FALSE(has_control_characters(message));
    return message;
  };
  const std::string deep(200'000, '[');
  CHECK(contains(opening("{\"x\":" + deep), "nested more than 64 deep"));
  CHECK(contains(opening("{\"__metadata__\":{\"x\":" + deep), "nested more than 64 deep"));
  CHECK(contains(opening("{\"x\":{\"shape\":[1e400]}}"), "number overflow parsing '1e400'"));
  CHECK(contains(opening("{\"\xFF\x1B[2J\":1}"), "ill-formed UTF-8"));
  CHECK(contains(opening("{\"a\\u001b[2J\":3}"), "tensor 'a\\u001b[2J' has no dtype"));
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(contains(opening("{\"a\\u001b[2J\":" + entry + "}"),
                 "'a\\u001b[2J': a tensor's name has no control characters"));
  CHECK(contains(opening("{\"a\":{\"x\":1,\"x\":1}}"), "the name 'x' appears twice"));

  std::filesystem::remove(folder / "model.safetensors");
  save_safetensors(folder / "x.safetensors", {{"a", Tensor::full({1}, 1)}});
  const auto indexed = [&](const std::string& index) {
    write_file(folder / "model.safetensors.index.json", index);
    const std::string message = message_of([&] { WeightsFolder{folder.path()}; });
    CHECK(contains(message, "model.safetensors.index.json"));
    CHECK_FALSE(has_control_characters(message));
    return message;
  };
  CHECK(contains(indexed("{\"weight_map\":" + deep), "nested more than 64 deep"));
  CHECK(contains(
      indexed("{\"weight_map\":{\"a\":" + std::string(60, '[') + std::string(60, ']') + "}}"),
      "not a safetensors file of"));
  for (const char* file : {"a\\u0000.safetensors", "a\\u001b[2J.safetensors"})
    CHECK(contains(indexed(fmt::format("{{\"weight_map\":{{\"a\":\"{}\"}}}}", file)),
                   "not a safetensors file of"));
  CHECK(contains(indexed("{\"weight_map\":{\"a\\u001b[2J\":\"x.safetensors\"}}"),
                 "'a\\u001b[2J' should be in x.safetensors"));
}

TEST_CASE("a header is read in time that grows with its length") {
  const TemporaryFolder folder;
  std::string header = "{";
  for (int i = 0; i < 20'000; ++i)
    header += fmt::format("{}\"t{}\":{{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                          i > 0 ? "," : "", i);
  write_file(folder / "a", file_of(header + "}", 0));
  CHECK(SafetensorsFile(folder / "a").entries().size() == 20'000);
}

TEST_CASE("what is not UTF-8 cannot be saved, and is named") {
  const TemporaryFolder folder;
  const Tensor x = Tensor::full({1}, 1);
  CHECK(contains(message_of([&] {
                   save_safetensors(folder / "a", {{"a\xFF", x}});
                 }),
                 "'a\xC2\xB7' is not UTF-8"));
  CHECK(contains(message_of([&] {
                   save_safetensors(folder / "a", {{"a", x}}, {{"k", "\xFF"}});
                 }),
                 "the value of 'k' is not UTF-8"));
}
