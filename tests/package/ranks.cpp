#include "yotta/comm/run_ranks.hpp"

int main() {
  bool right = false;
  yotta::run_ranks(2, [&](yotta::Communicator& world) {
    yotta::Tensor x = yotta::Tensor::full({3}, world.rank() + 1);
    world.all_reduce(x);
    if (world.rank() == 0) right = x.span<float>()[2] == 3;
  });
  return right ? 0 : 1;
}
