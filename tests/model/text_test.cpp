#include "yotta/model/text.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/system/files.hpp"

using namespace yotta;
using namespace yotta_test;
namespace fs = std::filesystem;

TEST_CASE("UTF-8 is told from what is not, to the byte") {
  const auto valid = [](std::string_view text) { return first_invalid_utf8(text) == text.size(); };
  CHECK(valid(""));
  CHECK(valid("plain"));
  CHECK(valid("g\xC3\xA9nie \xE2\x82\xAC \xF0\x9F\x98\x80 \xED\x9F\xBF \xF4\x8F\xBF\xBF"));
  CHECK(first_invalid_utf8("ab\xE9"
                           "e") == 2);                 // latin-1
  CHECK(first_invalid_utf8("ab\x80") == 2);            // a byte that continues nothing
  CHECK(first_invalid_utf8("a\xC3") == 1);             // cut off
  CHECK(first_invalid_utf8("a\xE2\x82") == 1);         // cut off
  CHECK(first_invalid_utf8("\xC0\xAF") == 0);          // overlong
  CHECK(first_invalid_utf8("a\xE0\x80\x80") == 1);     // overlong
  CHECK(first_invalid_utf8("\xF0\x8F\xBF\xBF") == 0);  // overlong
  CHECK(first_invalid_utf8("abc\xED\xA0\x80") == 3);   // a surrogate
  CHECK(first_invalid_utf8("\xF4\x90\x80\x80") == 0);  // beyond Unicode
  CHECK(first_invalid_utf8("\xFF") == 0);
}

TEST_CASE("whatever bytes a model writes can be shown") {
  CHECK(printable("").empty());
  CHECK(printable("caf\xC3\xA9\n") == "caf\xC3\xA9\n");
  CHECK(printable("\xE9x\xC3") == "\xC2\xB7x\xC2\xB7");
  CHECK(printable("a\x1B[31m\x7F\t") == "a\xC2\xB7[31m\xC2\xB7\xC2\xB7");  // no colours, no bells
  const std::string surrogate = printable("\xED\xA0\x80");                 // JSON takes none
  CHECK(first_invalid_utf8(surrogate) == surrogate.size());
}

TEST_CASE("a file is its bytes, a folder its text files in the order of their names") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "b/.hidden");
  write_file(folder / "c.txt", "third");
  write_file(folder / "a.txt", "first ");
  write_file(folder / "b/z.txt", "second ");
  write_file(folder / "b/.hidden/no.txt", "no");
  write_file(folder / ".no.txt", "no");
  write_file(folder / "b/picture", std::string("a\0b", 3));
  write_file(folder / "b/empty", "");
  const Text text = read_text(folder.path());
  CHECK(text.bytes == "first second third");
  CHECK(text.files == 3);
  CHECK(text.skipped == 4);
  CHECK(text.skipped_bytes == 3);
  CHECK(read_text(folder / "c.txt").bytes == "third");
}

TEST_CASE("text that is not UTF-8 is refused with its bytes, or converted from what it is") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "b");
  write_file(folder / "a.txt", "first ");
  write_file(folder / "b/latin", "\xE9t\xE9 ");
  write_file(folder / "b/wide", std::string("\xFF\xFE\xE9\0", 4));
  CHECK(contains(message_of([&] { read_text(folder.path()); }),
                 ": 2 of its files, 8 bytes, are text that is not UTF-8 (b/latin, b/wide); say"));
  CHECK(read_text(folder / "b/latin", "latin1").bytes == "\xC3\xA9t\xC3\xA9 ");
  CHECK(read_text(folder / "b/wide", "utf-16").bytes == "\xC3\xA9");
  CHECK(read_text(folder / "a.txt", "utf-16").bytes == "first ");  // it is UTF-8
  fs::remove(folder / "b/wide");
  CHECK(read_text(folder.path(), "latin1").bytes == "first \xC3\xA9t\xC3\xA9 ");
  CHECK(contains(message_of([&] { read_text(folder.path(), "ascii"); }),
                 "b/latin is neither UTF-8 nor ascii: byte 0 is 0xe9"));
  CHECK(contains(message_of([&] { read_text(folder.path(), "latin-one"); }),
                 "no encoding is called 'latin-one'"));
}

TEST_CASE("the default text is README, lessons and headers") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "include/x");
  fs::create_directories(folder / "lessons");
  fs::create_directories(folder / "other");
  write_file(folder / "README.md", "readme ");
  write_file(folder / "include/x/a.hpp", "header");
  write_file(folder / "other/no.txt", "no");
  CHECK(course_text(folder.path()).bytes == "readme header");
  write_file(folder / "lessons/README.md", "lesson ");
  CHECK(course_text(folder.path()).bytes == "readme lesson header");
  CHECK(contains(message_of([&] { course_text(folder / "other"); }), "there is no such file"));
}

TEST_CASE("text that cannot be used says why and what to do") {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  write_file(folder / "binary", std::string("PNG\0\1", 5));
  write_file(folder / "latin", "caf\xE9");
  fs::create_directory(folder / "bare");
  const auto reading = [&](const char* name) {
    return message_of([&] { read_text(folder / name); });
  };
  CHECK(contains(reading("nowhere"), "there is no such file"));
  CHECK(contains(reading("empty"), "is empty"));
  CHECK(contains(reading("binary"), "is binary (byte 3 is zero)"));
  CHECK(contains(reading("latin"), "is not UTF-8: byte 3 is 0xe9"));
  CHECK(contains(reading("bare"), "no text in this folder (0 files"));
  CHECK(contains(reading("latin"), "text_test.cpp:"));
}

TEST_CASE("the last part is kept for validation and no character is cut") {
  const std::string text =
      "aaaaaaaa\xE2\x82\xAC"
      "bbbbbbbbb";  // 20 bytes
  for (const double share : {0.0, 0.25, 0.45, 0.5, 0.55}) {
    const TextSplit split = split_text(text, 2, share);
    CHECK(std::string(split.train) + std::string(split.validation) == text);
    CHECK(first_invalid_utf8(split.train) == split.train.size());
    CHECK(first_invalid_utf8(split.validation) == split.validation.size());
  }
  CHECK(split_text(text, 2, 0.25).validation == "bbbbb");
  CHECK(split_text(text, 2, 0.5).train == "aaaaaaaa");
  CHECK(split_text(text, 19, 0).train == text);
  CHECK(contains(message_of([&] { split_text(text, 20, 0); }), "a context of 20 needs 21"));
  CHECK(contains(message_of([&] { split_text(text, 5, 0.25); }), "5 to validate on"));
  CHECK(contains(message_of([&] { split_text(text, 2, 1.0); }), "the share kept"));
  CHECK(contains(message_of([&] { split_text(text, 2, -NAN); }), "the share kept"));
}

TEST_CASE("targets are the byte after each input, from places all over the text") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i);  // a byte tells its place
  const int64_t context = 5, count = 400;
  const Batch batch = Batches(text, context, 1).draw(3, 0, count);
  CHECK(batch.inputs.shape() == Shape{count, context});
  CHECK(batch.inputs.dtype() == DType::i32);
  int32_t lowest = 1000, highest = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t start = batch.inputs.data<int32_t>()[i * context];
    for (int64_t t = 0; t < context; ++t) {
      CHECK(batch.inputs.data<int32_t>()[i * context + t] == start + t);
      CHECK(batch.targets.data<int32_t>()[i * context + t] == start + t + 1);
    }
    lowest = std::min(lowest, start);
    highest = std::max(highest, start);
  }
  CHECK(lowest <= 3);
  CHECK(lowest >= 0);
  CHECK(highest <= 194);  // the last target is the last byte
  CHECK(highest >= 191);
}

TEST_CASE("any number of ranks sees the rows of the same batch") {
  const std::string text(5000, 'x');
  std::string varied = text;
  for (size_t i = 0; i < varied.size(); ++i) varied[i] = static_cast<char>(i * i % 251);
  const Batches batches(varied, 16, 7);
  const int64_t global = 10;
  const Batch whole = batches.draw(4, 0, global);
  for (const int64_t ranks : {1, 2, 3, 4, 8, 11}) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t first = global * rank / ranks, end = global * (rank + 1) / ranks;
      const Batch mine = batches.draw(4, first, end - first);
      CHECK(mine.inputs.values() == whole.inputs.rows(first, end).values());
      CHECK(mine.targets.values() == whole.targets.rows(first, end).values());
    }
  }
  CHECK(batches.draw(5, 0, global).inputs.values() != whole.inputs.values());
  CHECK(Batches(varied, 16, 8).draw(4, 0, global).inputs.values() != whole.inputs.values());
}

TEST_CASE("the smallest text that holds a sequence is enough, one byte less is not") {
  const Batches batches("abcd", 3, 0);
  CHECK(batches.draw(0, 0, 2).targets.values() ==
        std::vector<double>{'b', 'c', 'd', 'b', 'c', 'd'});
  CHECK(contains(message_of([] { Batches("abc", 3, 0); }), "a context of 3 needs 4"));
  CHECK(contains(message_of([] { Batches("abc", 0, 0); }), "the context is 0 tokens"));
}

TEST_CASE("validation reads the text in order, each byte at most once") {
  const Batches batches("abcdefgh", 3, 0);
  CHECK(batches.sequences() == 2);
  CHECK(batches.in_order(0, 2).inputs.values() ==
        std::vector<double>{'a', 'b', 'c', 'd', 'e', 'f'});
  CHECK(batches.in_order(1, 1).targets.values() == std::vector<double>{'e', 'f', 'g'});
  CHECK(batches.in_order(2, 0).inputs.numel() == 0);
  CHECK(contains(message_of([&] { batches.in_order(1, 2); }), "of a text that holds 2"));
}

TEST_CASE("packed documents: no target is another's, each token but the last of one is an input") {
  const std::string text =
      "one"
      "x"
      "two!"
      "ab";  // a byte alone predicts nothing
  Batches batches(text, 3, 1);
  batches.pack({3, 4, 8, 10});
  CHECK(batches.sequences() == 2);  // of 2 + 3 + 1 columns
  const Batch all = batches.in_order(0, 2);
  CHECK(all.inputs.values() == std::vector<double>{'o', 'n', 't', 'w', 'o', 'a'});
  CHECK(all.targets.values() == std::vector<double>{'n', 'e', 'w', 'o', '!', 'b'});
  CHECK(all.documents == std::vector<int32_t>{0, 0, 1, 0, 0, 1});
  int64_t last = 0;
  for (int64_t step = 0; step < 50; ++step) {
    const Batch one = batches.draw(step, step % 3, 1);
    last += one.inputs.item({0, 2}) == 'a';
    for (int64_t t = 0; t < 3; ++t)
      CHECK(text.find({static_cast<char>(one.inputs.item({0, t})),
                       static_cast<char>(one.targets.item({0, t}))}) != text.npos);
  }
  CHECK(last > 5);  // of the 4 places where a sequence can begin, the last is one
  // One document is the text as it is.
  Batches whole(text, 3, 1);
  const Batch before = whole.draw(7, 0, 5);
  whole.pack({10});
  CHECK(whole.draw(7, 0, 5).inputs.values() == before.inputs.values());
  CHECK(contains(message_of([&] {
                   Batches(text, 7, 1).pack({3, 4, 8, 10});
                 }),
                 "4 documents have 6 tokens that another one follows"));
}

TEST_CASE("a separator cuts files into documents, and is in none of them") {
  Text text{.bytes = "--one----two-three--four", .files = 2, .ends = {12, 24}};
  split_documents(text, "--");
  CHECK(text.bytes == "onetwo-threefour");
  CHECK(text.ends == std::vector<int64_t>{3, 6, 12, 16});  // "two" ends with its file
  CHECK(contains(message_of([&] { split_documents(text, "\n"); }), "stands nowhere in the text"));
}

TEST_CASE("bytes above 127 are tokens above 127, and on meta there are shapes only") {
  const Batches batches("\xC3\xA9", 1, 0);
  CHECK(batches.draw(0, 0, 1).inputs.item({0, 0}) == 0xC3);
  const DeviceScope meta(Device::meta);
  CHECK(batches.draw(0, 0, 4).inputs.shape() == Shape{4, 1});
}

TEST_CASE("tokens of a tokenizer are drawn from the places that bytes would be") {
  std::string text;
  std::vector<int32_t> tokens;
  for (int i = 0; i < 200; ++i) text += static_cast<char>(i), tokens.push_back(i);
  const Batches bytes(text, 5, 7), drawn(tokens, 5, 7);
  CHECK(drawn.draw(3, 0, 9).inputs.values() == bytes.draw(3, 0, 9).inputs.values());
  CHECK(drawn.draw(3, 0, 9).targets.values() == bytes.draw(3, 0, 9).targets.values());
  CHECK(drawn.sequences() == bytes.sequences());
  for (int32_t& each : tokens) each += 50000;  // the same memory
  CHECK(drawn.in_order(1, 1).targets.values() ==
        std::vector<double>{50006, 50007, 50008, 50009, 50010});
  const std::vector<int32_t> few{1, 2, 3};
  CHECK(contains(message_of([&] { Batches(few, 3, 0); }), "the text has 3 tokens; a context of 3"));
}
