// The bodies of core/cpu/mismatch_diagnosis.hpp.
#pragma once

#include "yotta/core/cpu/mismatch_diagnosis.hpp"

namespace yotta {

YOTTA_INLINE MismatchDiagnosis::MismatchDiagnosis(std::span<const double> actual,
                                                  std::span<const double> expected,
                                                  double tolerance, const Clues& clues)
    : actual_(actual), expected_(expected), tolerance_(tolerance), clues_(clues) {
  for (size_t i = 0; i < actual.size(); ++i)
    if (!near(actual[i], expected[i])) wrong_.push_back(i);
}

YOTTA_INLINE std::string MismatchDiagnosis::explain() const {
  for (const auto guess :
       {&MismatchDiagnosis::not_finite, &MismatchDiagnosis::untouched, &MismatchDiagnosis::zeros,
        &MismatchDiagnosis::suspect, &MismatchDiagnosis::another_chunk, &MismatchDiagnosis::ratio,
        &MismatchDiagnosis::missing_ranks, &MismatchDiagnosis::shifted_chunks,
        &MismatchDiagnosis::shifted, &MismatchDiagnosis::transposed, &MismatchDiagnosis::permuted})
    if (const Guess sentence = (this->*guess)()) return *sentence;
  return fmt::format("{} of {} elements are wrong{}", wrong_.size(), actual_.size(), how_far());
}

YOTTA_INLINE std::string MismatchDiagnosis::how_far() const {
  double most = 0;  // relative
  for (const size_t i : wrong_)
    most = std::max(most, std::abs(actual_[i] - expected_[i]) / (1 + std::abs(expected_[i])));
  if (most <= 0.01)
    return fmt::format(
        ", by {:.2g} of their size at most: rounded to a narrower type, or a small term missing?",
        most);
  if (wrong_.size() < actual_.size() || actual_.size() < 4) return "";
  return ", and not by a factor, a shift or a missing rank: follow one of these by hand";
}

YOTTA_INLINE std::string MismatchDiagnosis::pair_of(double expected, double actual) {
  for (int digits = 6; digits < 17; digits += 3) {
    const std::string a = fmt::format("{:.{}g}", expected, digits),
                      b = fmt::format("{:.{}g}", actual, digits);
    if (a != b) return fmt::format("expected {:<12} got {}", a, b);
  }
  return fmt::format("expected {:.17g} got {:.17g}", expected, actual);
}

YOTTA_INLINE std::string MismatchDiagnosis::worst() const {
  std::vector<size_t> order = wrong_;
  const size_t shown = std::min<size_t>(3, order.size());
  const auto error = [&](size_t i) {
    const double difference = std::abs(actual_[i] - expected_[i]);
    return std::isnan(difference) ? HUGE_VAL : difference;
  };
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
      [&](size_t i, size_t j) { return error(i) != error(j) ? error(i) > error(j) : i < j; });
  std::string text;
  for (size_t k = 0; k < shown; ++k)
    text += fmt::format("\n    element {:<4} {}", order[k],
                        pair_of(expected_[order[k]], actual_[order[k]]));
  return text;
}

YOTTA_INLINE bool MismatchDiagnosis::near(double a, double b) const {
  if (!std::isfinite(b)) return a == b;
  return std::abs(a - b) <= tolerance_ * (1 + std::abs(b));  // false if a is NaN
}

YOTTA_INLINE size_t MismatchDiagnosis::begin_of(int64_t chunk, int64_t p) const {
  return static_cast<size_t>(chunk_begin(std::ssize(actual_), p, chunk));
}

YOTTA_INLINE std::string MismatchDiagnosis::where() const {
  const size_t first = wrong_.front(), count = wrong_.size();
  if (count == 1) return fmt::format("element {} is", first);
  if (count == actual_.size()) return "every element is";
  if (wrong_.back() - first + 1 == count)
    return fmt::format("elements {} to {} are", first, wrong_.back());
  return fmt::format("{} of {} elements, the first is {}, are", count, actual_.size(), first);
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::not_finite() const {
  for (const size_t i : wrong_) {
    if (std::isnan(expected_[i])) return fmt::format("the expected element {} is itself NaN", i);
    if (!std::isfinite(actual_[i]))
      return fmt::format("element {} is the first that is {}", i,
                         std::isnan(actual_[i]) ? "NaN" : "infinite");
  }
  return {};
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::untouched() const {
  if (clues_.before.size() != actual_.size()) return {};
  for (const size_t i : wrong_)
    if (actual_[i] != clues_.before[i]) return {};
  return fmt::format("{} untouched: still {:.6g}, what was there before", where(),
                     actual_[wrong_.front()]);
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::zeros() const {
  for (const size_t i : wrong_)
    if (actual_[i] != 0) return {};
  return fmt::format("{} zero: never written?", where());
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::suspect() const {
  for (const Suspect& suspect : clues_.suspects)
    if (suspect.values.size() == actual_.size() &&
        explains([&](size_t i) { return suspect.values[i]; }))
      return fmt::format("every value equals {}", suspect.name);
  return {};
}

YOTTA_INLINE std::string MismatchDiagnosis::by_ranks(int64_t ranks) {
  return fmt::format("every chunk is shifted by {} {}", ranks == 1 ? "one" : std::to_string(ranks),
                     std::abs(ranks) == 1 ? "rank" : "ranks");
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::another_chunk() const {
  const int64_t p = clues_.ranks;
  if (clues_.whole.empty() || actual_.empty()) return {};
  for (int64_t c = 0; c < p; ++c) {
    const auto begin = static_cast<size_t>(chunk_begin(std::ssize(clues_.whole), p, c));
    const auto end = static_cast<size_t>(chunk_begin(std::ssize(clues_.whole), p, c + 1));
    const size_t shared = std::min(end - begin, actual_.size());
    if (c == clues_.chunk || shared == 0) continue;
    if (explains([&](size_t i) { return clues_.whole[begin + i]; }, 0, shared))
      return fmt::format("{}: chunk {} is in the place of chunk {}",
                         by_ranks(shortest((c - clues_.chunk + p) % p, p)), c, clues_.chunk);
  }
  return {};
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::shifted_chunks() const {
  const int64_t p = clues_.ranks;
  for (int64_t shift = 1; shift < p && std::ssize(actual_) >= p; ++shift) {
    bool fits = true;
    for (int64_t c = 0; c < p && fits; ++c) {
      const int64_t from = (c + shift) % p;
      const size_t begin = begin_of(c, p), source = begin_of(from, p);
      const size_t shared = std::min(begin_of(c + 1, p) - begin, begin_of(from + 1, p) - source);
      fits =
          explains([&](size_t i) { return expected_[source + i - begin]; }, begin, begin + shared);
    }
    if (fits)
      return fmt::format("{}: chunk {} is in the place of chunk 0", by_ranks(shortest(shift, p)),
                         shift);
  }
  return {};
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::ratio() const {
  const double factor = fit(expected_, actual_);
  const auto is = [&](double value) { return std::abs(factor - value) <= 1e-3 * std::abs(value); };
  const double p = clues_.ranks;
  const bool named = is(-1) || (p > 1 && (is(p) || is(1 / p) || is(p * p)));
  if (!explains([&](size_t i) { return factor * expected_[i]; }) || (actual_.size() == 1 && !named))
    return {};
  if (is(-1)) return "every value has the wrong sign: -1 times the expected one";
  const bool large = std::abs(factor) > 1;
  const char* why = "";
  if (p > 1 && is(p)) why = ", the world size: a sum where a mean was expected?";
  if (p > 1 && is(1 / p)) why = ", the world size: divided once too often?";
  if (p > 1 && is(p * p)) why = ", the world size squared: summed twice?";
  return fmt::format("every value is {:.4g}x too {}{}", large ? factor : 1 / factor,
                     large ? "large" : "small", why);
}

YOTTA_INLINE double MismatchDiagnosis::fit(std::span<const double> from,
                                           std::span<const double> to) {
  double products = 0, squares = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    products += from[i] * to[i];
    squares += from[i] * from[i];
  }
  return squares == 0 ? 0 : products / squares;
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::missing_ranks() const {
  const size_t p = clues_.parts.size(), count = actual_.size();
  if (p < 2 || p > 10) return {};
  Numbers total(count);
  for (const Numbers& part : clues_.parts) {
    if (part.size() != count) return {};
    for (size_t i = 0; i < count; ++i) total[i] += part[i];
  }
  const double scale = fit(total, expected_);  // 1 for a sum, 1/p for a mean
  const auto sum_of = [&](unsigned ranks) {
    return [&, ranks](size_t i) {
      double sum = 0;
      for (size_t r = 0; r < p; ++r) sum += (ranks >> r & 1) != 0 ? clues_.parts[r][i] * scale : 0;
      return sum;
    };
  };
  int64_t c = 0;
  while (begin_of(c + 1, std::ssize(clues_.parts)) <= wrong_.front()) ++c;
  const size_t begin = begin_of(c, std::ssize(clues_.parts));
  const size_t end = begin_of(c + 1, std::ssize(clues_.parts));
  for (unsigned ranks = 1; ranks + 1 < (1u << p); ++ranks) {
    if (!explains(sum_of(ranks), begin, end)) continue;
    if (explains(sum_of(ranks))) return missing(ranks);
    return fmt::format("in chunk {} (elements {} to {}) {}", c, begin, end - 1, missing(ranks));
  }
  return {};
}

YOTTA_INLINE std::string MismatchDiagnosis::missing(unsigned present) const {
  std::string names;
  int number = 0, last = 0;
  for (int r = 0; r < static_cast<int>(clues_.parts.size()); ++r) {
    if ((present >> r & 1) != 0)
      last = r;
    else
      names += fmt::format("{}{}", number++ == 0 ? "" : ", ", r);
  }
  if (number + 1 == static_cast<int>(clues_.parts.size()))
    return fmt::format("there are only rank {}'s own numbers: nothing was added", last);
  return fmt::format("the numbers of {} {} are missing from the sum",
                     number == 1 ? "rank" : "ranks", names);
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::shifted() const {
  const size_t n = actual_.size();
  for (size_t shift = 1; shift < std::min<size_t>(n, 64); ++shift)
    for (const size_t step : {shift, n - shift})
      if (explains([&](size_t i) { return expected_[(i + step) % n]; }))
        return fmt::format(
            "every element is shifted by {}: element {} is in the place of element 0", shift, step);
  return {};
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::transposed() const {
  if (clues_.shape.size() != 2 || product(clues_.shape) != std::ssize(actual_)) return {};
  const auto rows = static_cast<size_t>(clues_.shape[0]),
             cols = static_cast<size_t>(clues_.shape[1]);
  if (!explains([&](size_t i) { return expected_[i % rows * cols + i / rows]; })) return {};
  return fmt::format("transposed: these are the {} columns one after another, expected {} rows",
                     cols, rows);
}

YOTTA_INLINE MismatchDiagnosis::Guess MismatchDiagnosis::permuted() const {
  Numbers a(actual_.begin(), actual_.end()), b(expected_.begin(), expected_.end());
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  for (size_t i = 0; i < a.size(); ++i)
    if (!near(a[i], b[i])) return {};
  return fmt::format("the right values in the wrong order: {} of {} are out of place",
                     wrong_.size(), a.size());
}

}  // namespace yotta
