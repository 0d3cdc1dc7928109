#include "yotta/core/context.hpp"

int main() {
  yotta::RankContext mine;
  yotta::set_context(&mine);
  return &yotta::context() == &mine ? 0 : 1;
}
