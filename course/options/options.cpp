#include "course/options/options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "course/options/usage.hpp"

namespace yotta {

namespace {
std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}
}  // namespace

struct Options::State {
  CLI::App app;
  std::string heading = "Options";
  std::function<void(const std::string&)> say;

  template <class T>
  void add(const std::string& name, T& value, const std::string& text, const OptionRule& rule) {
    CLI::Option* const option =
        app.add_option(name, value, text)->group(heading)->capture_default_str();
    // CLI11 takes an empty value for 0. (The check of whole numbers refuses it in its own words.)
    if (std::is_arithmetic_v<T> && !rule.whole_number)
      option->check(CLI::Validator(refuse_no_number<T>, ""));
    if (std::is_integral_v<T>) option->transform(CLI::Validator(write_out, ""));
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
  template <class T>
  static std::string refuse_no_number(const std::string& text) {
    if (text.empty()) return "it is empty; give a number, or leave the option out";
    const bool is_whole = std::is_integral_v<T> && whole_number_of(text);
    return is_whole || (!std::is_integral_v<T> && number_of(text))
               ? ""
               : fmt::format("'{}' is no {}", text,
                             std::is_integral_v<T> ? "whole number, as 1000 or 1e3"
                                                   : "number, as 0.001 or 1e-3");
  }
  // 1e3 as 1000, which CLI11 reads.
  static std::string write_out(std::string& text) {
    if (text.find_first_of("eE.") == text.npos) return "";
    if (const std::optional<int64_t> number = whole_number_of(text)) text = std::to_string(*number);
    return "";
  }
  static std::string refuse_empty(const std::string& text) {
    return text.empty() ? "it is empty; leave the option out, or say what" : "";
  }
};

std::optional<int64_t> whole_number_of(std::string_view text) {
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc() && end == text.data() + text.size()) return whole;
  const std::optional<double> number = number_of(text);
  constexpr double most = 1LL << 53;  // above it f64 skips whole numbers
  if (!number || !(std::abs(*number) <= most) || *number != std::floor(*number)) return {};
  return static_cast<int64_t>(*number);
}

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
    if (error.get_exit_code() == 0 || !state_->say) return end_by_usage(state_->app, error);
    state_->say(usage_problem(state_->app, error));
    return 2;
  }
  return std::nullopt;
}

void Options::on_refusal(std::function<void(const std::string&)> say) {
  state_->say = std::move(say);
}

bool Options::given(const std::string& name) const { return state_->app.count(name) > 0; }

}  // namespace yotta
