#include "course/shared/options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <type_traits>

namespace yotta {

struct Options::State {
  CLI::App app;
  std::string heading = "Options";

  template <class T>
  void add(const std::string& name, T& value, const std::string& text, const OptionRule& rule) {
    CLI::Option* const option =
        app.add_option(name, value, text)->group(heading)->capture_default_str();
    // CLI11 takes an empty value for 0. (The check of whole numbers refuses it in its own words.)
    if (std::is_arithmetic_v<T> && !rule.whole_number)
      option->check(CLI::Validator(refuse_no_number, ""));
    if (!rule.words.empty()) option->check(CLI::IsMember(rule.words));
    if (rule.least) option->check(CLI::Range(*rule.least, *rule.most));
    if (rule.whole_number) option->check(CLI::Validator(refuse_sign_and_overflow, ""));
    if (rule.not_empty) option->check(CLI::Validator(refuse_empty, ""));
    if (!rule.type_name.empty()) option->type_name(rule.type_name);
  }

  // CLI11 takes -1 for 2^64 - 1, and a larger number for that too.
  static std::string refuse_sign_and_overflow(const std::string& text) {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [read, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && read == end ? "" : "'" + text + "' is not from 0 to 2^64 - 1";
  }
  static std::string refuse_no_number(const std::string& text) {
    return text.empty() ? "it is empty; give a number, or leave the option out" : "";
  }
  static std::string refuse_empty(const std::string& text) {
    return text.empty() ? "it is empty; leave the option out, or say what" : "";
  }
};

Options::Options(const std::string& program, const std::string& about)
    : state_(std::make_unique<State>()) {
  state_->app.description(about);
  state_->app.name(program);
}
Options::~Options() = default;

void Options::heading(const std::string& heading) { state_->heading = heading; }

void Options::add(const std::string& name, std::string& value, const std::string& text,
                  const OptionRule& rule) {
  state_->add(name, value, text, rule);
}
void Options::add(const std::string& name, int& value, const std::string& text,
                  const OptionRule& rule) {
  state_->add(name, value, text, rule);
}
void Options::add(const std::string& name, int64_t& value, const std::string& text,
                  const OptionRule& rule) {
  state_->add(name, value, text, rule);
}
void Options::add(const std::string& name, uint64_t& value, const std::string& text,
                  const OptionRule& rule) {
  state_->add(name, value, text, rule);
}
void Options::add(const std::string& name, double& value, const std::string& text,
                  const OptionRule& rule) {
  state_->add(name, value, text, rule);
}
void Options::add_flag(const std::string& name, bool& value, const std::string& text) {
  state_->app.add_flag(name, value, text)->group(state_->heading);
}

std::optional<int> Options::parse(int argc, const char* const* argv) {
  try {
    state_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return state_->app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

bool Options::given(const std::string& name) const { return state_->app.count(name) > 0; }

}  // namespace yotta
