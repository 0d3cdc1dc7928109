// NCCL for a program that may be built without it, and may start where there is no GPU.
//
//     const std::string why_not = why_no_nccl();                 empty: it can be used
//     transport = make_nccl_transport(transport);                a rank's transport, with NCCL for data on cuda
//
// In builds with NCCL (YOTTA_HAVE_NCCL) both are compiled by nvcc: one .cu file of the program includes comm/nccl/nccl.hpp.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "yotta/comm/engine/transport.hpp"

namespace yotta {

struct NcclOptions {
  double timeout = 600;  // seconds that the host may wait for its GPU
};

#ifdef YOTTA_HAVE_NCCL
std::string why_no_nccl();
std::shared_ptr<Transport> make_nccl_transport(std::shared_ptr<Transport> inner,
                                               NcclOptions options = {});
#else
inline std::string why_no_nccl() {
  return "this program was built without NCCL (cmake --preset cuda builds with it where it is "
         "installed)";
}
inline std::shared_ptr<Transport> make_nccl_transport(std::shared_ptr<Transport> /*inner*/,
                                                      NcclOptions /*options*/ = {}) {
  fail(Where::current(), "{}", why_no_nccl());
}
#endif

// Several ranks on one GPU, for correctness only: NCCL refuses two ranks on a GPU of one host, so each process says
// that it is a host of its own, and all talk over loopback sockets. Call it before anything else of NCCL.
inline void share_gpu(int rank) {
  setenv("NCCL_HOSTID", ("yotta-rank-" + std::to_string(rank)).c_str(), 1);
  setenv("NCCL_NET", "Socket", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  setenv("NCCL_MAX_CTAS", "4", 0);  // room on the GPU for all ranks' kernels at once
}

}  // namespace yotta
