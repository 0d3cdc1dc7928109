#include <cstdio>

#include "every_header.hpp"

yotta::RankContext* context_of_the_other_file();

int main() {
  if (&yotta::context() != context_of_the_other_file()) {
    std::puts("the two files have a rank context each");
    return 1;
  }
  const yotta::Tensor x = yotta::Tensor::zeros({3, 5});
  return x.numel() == 15 ? 0 : 1;
}
