// An operation of a stream that leaves a number in a list, for tests of their order.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "yotta/device/emulator/stream_queue.hpp"

namespace yotta_test {

// Appends a number to a list, as an operation of a stream.
inline void add(cudaStream_t stream, std::vector<int>& list, int number) {
  yotta::StreamOperation operation{.word = "append", .where = yotta::Where::current()};
  operation.run = [&list, number](yotta::StreamOperation&) { list.push_back(number); };
  CHECK(yotta::StreamQueue::instance().submit(stream, std::move(operation)) == cudaSuccess);
}

}  // namespace yotta_test
