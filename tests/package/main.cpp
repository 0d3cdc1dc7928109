#include <cstdio>

#include "program.hpp"

double stranger::sum(const yotta::Tensor& x, const yotta::Communicator*) {
  double total = 0;
  for (const float value : x.span<float>()) total += static_cast<double>(value);
  return total;
}

int main() {
  const yotta::Tensor x = yotta::Tensor::full({3, 5}, 2);
  const bool right = stranger::mean(x, nullptr) == 2;
  const bool same = &yotta::context() == stranger::context_of_the_other_file();
  if (!right) std::puts("the mean is wrong");
  if (!same) std::puts("the two files have a rank context each");
  return right && same ? 0 : 1;
}
