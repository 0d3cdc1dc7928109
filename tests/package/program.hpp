// The stranger's program: two files that call each other with a tensor and a communicator, in
// either form of the library.
#pragma once
#include "yotta/core/tensor.hpp"

namespace yotta {
inline namespace YOTTA_FORM {
// Its type is all that counts here, and comm/communicator.hpp takes seconds to compile.
class Communicator;
}  // namespace YOTTA_FORM
}  // namespace yotta

namespace stranger {

// main.cpp: the sum of x.
double sum(const yotta::Tensor& x, const yotta::Communicator* world);

// other.cpp: the mean of x.
double mean(const yotta::Tensor& x, const yotta::Communicator* world);

// other.cpp: what that file takes for this thread's rank context.
yotta::RankContext* context_of_the_other_file();

}  // namespace stranger
