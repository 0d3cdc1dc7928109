// One solution of exercise 01 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;

student::NumberFormat own(yotta::NumberFormat f) {
  return {f.name, f.exponent, f.mantissa, f.has_infinity};
}

double spacing(double x, yotta::NumberFormat f) { return student::spacing(x, own(f)); }
double round_to(double x, yotta::NumberFormat f) { return student::round_to(x, own(f)); }
double round_stochastically(double x, yotta::NumberFormat f, double u) {
  return student::round_stochastically(x, own(f), u);
}
double dot_product(std::span<const double> x, std::span<const double> y, yotta::NumberFormat in,
                   yotta::NumberFormat sums) {
  return student::dot_product(x, y, own(in), own(sums));
}
uint32_t code_of(double x, yotta::NumberFormat f) { return student::code_of(x, own(f)); }
double value_of(uint32_t code, yotta::NumberFormat f) { return student::value_of(code, own(f)); }
std::array<double, 2> sum_compensated(std::span<const double> terms, yotta::NumberFormat f) {
  const student::CompensatedSum sum = student::sum_compensated(terms, own(f));
  return {sum.value, sum.missing};
}

}  // namespace

const exercise::Solution exercise::solution = {
    spacing, round_to, round_stochastically, code_of, value_of, sum_compensated, dot_product};
