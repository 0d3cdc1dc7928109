#include "yotta/device/emulator/simt_access.hpp"

#include <doctest/doctest.h>

using namespace yotta;

TEST_CASE(
    "in the unchecked build a wrapped instruction's notes do nothing, even outside of kernels") {
  int value = 0;
  const void* const addresses[] = {&value};
  const int lanes[] = {0};
  CHECK_NOTHROW(emulator::note_read(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_write(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_read_group(addresses, lanes, 1, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_copy_begins(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::note_copy_ends(&value, 4, Where::current()));
  CHECK_NOTHROW(emulator::count_instruction("mma.sync", Where::current()));
  CHECK_NOTHROW(emulator::count_flops(2, Where::current()));
}
