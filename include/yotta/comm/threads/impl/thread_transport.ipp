// The bodies of comm/threads/thread_transport.hpp.
#pragma once

#include "yotta/comm/threads/thread_transport.hpp"

namespace yotta {

YOTTA_INLINE ThreadTransport::ThreadTransport(std::shared_ptr<ThreadWorld> world, int rank)
    : world_(std::move(world)), rank_(rank) {}
YOTTA_INLINE ThreadTransport::~ThreadTransport() = default;

}  // namespace yotta
