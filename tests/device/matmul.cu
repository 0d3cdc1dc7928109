// nvcc compiles every rung of the matmul ladder, and the kernels of roofline_matmul.hpp; the suite
// asks for their registers (registers.tsv).
#include "yotta/device/matmul_rungs.hpp"

namespace yotta {
inline namespace YOTTA_DEVICE_BUILD {

// The table takes the kernels' addresses.
int count_rungs() { return static_cast<int>(matmul_rungs.size()); }

}  // namespace YOTTA_DEVICE_BUILD
}  // namespace yotta
