#include "course/shared/light_communicator.hpp"

#include "yotta/comm/communicator.hpp"

namespace yotta::student {
namespace {

Work light(yotta::Work work) { return Work(std::make_shared<yotta::Work>(std::move(work))); }

}  // namespace

// An empty Work answers as the library's does.
void Work::wait(Where where) { real_ ? real_->wait(where) : yotta::Work().wait(where); }
bool Work::done(Where where) { return real_ ? real_->done(where) : yotta::Work().done(where); }

int Communicator::rank() const { return real_->rank(); }
int Communicator::size() const { return real_->size(); }

void Communicator::send(ConstData data, int to, int tag, Where where) {
  real_->send(data, to, tag, where);
}
void Communicator::recv(Data data, int from, int tag, Where where) {
  real_->recv(data, from, tag, where);
}
void Communicator::send_recv(ConstData out, int to, Data in, int from, int tag, Where where) {
  real_->send_recv(out, to, in, from, tag, where);
}

Work Communicator::send_async(ConstData data, int to, int tag, Where where) {
  return light(real_->send_async(data, to, tag, where));
}
Work Communicator::recv_async(Data data, int from, int tag, Where where) {
  return light(real_->recv_async(data, from, tag, where));
}

void Communicator::broadcast(Data data, int root, CommOptions options, Where where) {
  real_->broadcast(data, root, options, where);
}
Work Communicator::broadcast_async(Data data, int root, CommOptions options, Where where) {
  return light(real_->broadcast_async(data, root, options, where));
}
void Communicator::all_reduce(Data data, ReduceOp op, CommOptions options, Where where) {
  real_->all_reduce(data, op, options, where);
}
Work Communicator::all_reduce_async(Data data, ReduceOp op, CommOptions options, Where where) {
  return light(real_->all_reduce_async(data, op, options, where));
}
void Communicator::reduce_scatter(Data out, ConstData in, ReduceOp op, CommOptions options,
                                  Where where) {
  real_->reduce_scatter(out, in, op, options, where);
}
Work Communicator::reduce_scatter_async(Data out, ConstData in, ReduceOp op, CommOptions options,
                                        Where where) {
  return light(real_->reduce_scatter_async(out, in, op, options, where));
}
void Communicator::all_gather(Data out, ConstData in, CommOptions options, Where where) {
  real_->all_gather(out, in, options, where);
}
Work Communicator::all_gather_async(Data out, ConstData in, CommOptions options, Where where) {
  return light(real_->all_gather_async(out, in, options, where));
}
void Communicator::all_to_all(Data out, ConstData in, CommOptions options, Where where) {
  real_->all_to_all(out, in, options, where);
}
void Communicator::barrier(CommOptions options, Where where) { real_->barrier(options, where); }

}  // namespace yotta::student
