// Options on the command line, as the course's programs have them: CLI11 behind a few functions, so
// that it is compiled once.
//
//     Options options("yotta train", "Trains a transformer on text: bytes in, the next byte out.");
//     options.heading("Model");                               of --help, for the options that
//                                                             follow
//     options.add("--layers", layers, "blocks (L)", at_least(1));
//     options.add("--dialect", dialect, "gpt2 or llama", one_of({"gpt2", "llama"}));
//     if (const auto status = options.parse(argc, argv)) return *status;
//
// --help shows what each variable held when its option was added.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yotta {

// What an option accepts; by default anything of its type.
struct OptionRule {
  std::vector<std::string> words = {};  // one of these; empty: any
  std::optional<int64_t> least = {}, most = {};
  bool whole_number = false, not_empty = false;
  std::string type_name = {};  // in --help: "FILE"
};
inline OptionRule one_of(std::vector<std::string> words) { return {.words = std::move(words)}; }
inline OptionRule in_range(int64_t least, int64_t most) { return {.least = least, .most = most}; }
inline OptionRule at_least(int64_t least) { return in_range(least, int64_t{1} << 40); }
inline OptionRule whole_number() { return {.whole_number = true}; }  // from 0 to 2^64 - 1
inline OptionRule not_empty() { return {.not_empty = true}; }
inline OptionRule called(std::string type_name) {
  return {.not_empty = true, .type_name = std::move(type_name)};
}

// The whole number that a text is: 1000 of "1000" and of "1e3"; nothing of "1.5", "1e-3" and "x".
std::optional<int64_t> whole_number_of(std::string_view text);

class Options {
 public:
  Options(const std::string& program, const std::string& about);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  void heading(const std::string& heading);
  // The variable must outlive parse().
  void add(const std::string& name, std::string& value, const std::string& text,
           const OptionRule& rule = {});
  void add(const std::string& name, int& value, const std::string& text,
           const OptionRule& rule = {});
  void add(const std::string& name, int64_t& value, const std::string& text,
           const OptionRule& rule = {});
  void add(const std::string& name, uint64_t& value, const std::string& text,
           const OptionRule& rule = {});
  void add(const std::string& name, double& value, const std::string& text,
           const OptionRule& rule = {});
  void add_flag(const std::string& name, bool& value, const std::string& text);

  // Sets the variables. Returns the status that the program must exit with: 0 after --help, 2 after
  // a wrong option, which stderr names; nothing if it is to go on.
  std::optional<int> parse(int argc, const char* const* argv);
  // Says what is wrong with the command line in place of stderr.
  void on_refusal(std::function<void(const std::string& problem)> say);
  // Whether the command line had this option. After parse().
  bool given(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yotta
