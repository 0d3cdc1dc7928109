#ifdef EVERY_HEADER
#include "every_header.hpp"
#endif
#include "program.hpp"

double stranger::mean(const yotta::Tensor& x, const yotta::Communicator* world) {
  return sum(x, world) / static_cast<double>(x.numel());
}

yotta::RankContext* stranger::context_of_the_other_file() { return &yotta::context(); }
