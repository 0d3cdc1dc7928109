#include "yotta/comm/nccl/nccl.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"
#include "support/not_run.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("a program without NCCL says so in one line") {
  CHECK(contains(why_no_nccl(), "built without NCCL"));
  CHECK(why_no_nccl().find('\n') == std::string::npos);
  CHECK(contains(message_of([] { make_nccl_transport(nullptr); }), "built without NCCL"));
}

TEST_CASE("ranks that share a GPU say that each is a host of its own") {
  share_gpu(3);
  CHECK(std::string(std::getenv("NCCL_HOSTID")) == "yotta-rank-3");
  CHECK(std::string(std::getenv("NCCL_NET")) == "Socket");
  CHECK(std::string(std::getenv("NCCL_SOCKET_IFNAME")) == "lo");
  setenv("NCCL_MAX_CTAS", "2", 1);  // a wish of the user's stays
  share_gpu(1);
  CHECK(std::string(std::getenv("NCCL_HOSTID")) == "yotta-rank-1");
  CHECK(std::string(std::getenv("NCCL_MAX_CTAS")) == "2");
}

// All but NCCL's own calls is tested without it (nccl_transport_test.cpp, nccl_library_test.cpp);
// nvcc compiles and links those with course/training/cuda.cu; that they work can be seen on a GPU
// only.
TEST_CASE("NCCL ranks on GPUs") { YOTTA_NOT_RUN("NCCL needs a GPU (tests/gpu_training)"); }
