// One solution of exercise 20 (the student's, the library's or a wrong one) as the graded cases see
// it.
#include "interface.hpp"

#include YOTTA_SOLUTION

namespace {

namespace student = yotta::student;
using yotta::Communicator;
using yotta::Tensor;

Tensor f_backward(Tensor dx, const Communicator& tp) {
  return student::Border(tp).enter_back(std::move(dx));
}
Tensor g_forward(Tensor y, const Communicator& tp) {
  return student::Border(tp).leave(std::move(y));
}
yotta::LayerPtr with_g(yotta::Linear&& cut, const Communicator& tp) {
  return std::make_unique<student::RowParallelLinear>(std::move(cut),
                                                      std::make_shared<student::Border>(tp));
}
void cut_mlp(yotta::Mlp& mlp, const Communicator& tp) {
  student::tensor_parallel(mlp, std::make_shared<student::Border>(tp));
}
void cut_attention(yotta::Attention& attention, const Communicator& tp) {
  student::tensor_parallel(attention, std::make_shared<student::Border>(tp));
}

}  // namespace

const exercise::Solution exercise::solution = {
    f_backward, g_forward,    student::cut_by_columns, student::cut_by_rows, with_g,
    cut_mlp,    cut_attention};
