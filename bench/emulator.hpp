// The part of bench/emulator.cpp that is compiled for the emulator's checks (checked/emulator.cpp).
#pragma once

namespace yotta::bench {

// A product of ones, size cubed, counted by a profile; true if it is right.
bool checked_matmul(int size);

}  // namespace yotta::bench
