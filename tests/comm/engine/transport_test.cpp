#include "yotta/comm/engine/transport.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/communicator.hpp"
#include "yotta/comm/engine/message.hpp"

using namespace yotta;

namespace {
// The least a transport must do: one rank that can only talk to itself.
class Mirror : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void post(Request& request) override {
    for (Request*& other : waiting_) {
      if (other->kind == request.kind || other->tag != request.tag) continue;
      const bool sends = request.kind == Request::Kind::send;
      copy_data(sends ? request.data : other->data, sends ? other->data : request.data);
      other->done = request.done = true;
      std::swap(other, waiting_.back());
      waiting_.pop_back();
      return;
    }
    waiting_.push_back(&request);
  }
  bool test(Request& request) override { return request.done; }
  void withdraw(Request& request) override { std::erase(waiting_, &request); }
  void sleep(std::span<const Waiting> strands, double) override {
    throw Deadlock(strands[0].where, "talking to itself");
  }
  bool failed() const override { return failed_; }
  void check(Where where) override {
    if (failed_) throw CommError(where, "over");
  }
  void fail(const std::string&) override { failed_ = true; }
  int open_group(int, int64_t, int, std::span<const int>) override { return ++groups_; }

 private:
  std::vector<Request*> waiting_;
  bool failed_ = false;
  int groups_ = 0;
};

Communicator mirror_world() {
  auto group = std::make_shared<Group>();
  group->engine = std::make_shared<Engine>(std::make_shared<Mirror>(), EngineOptions{});
  group->members = {0};
  return Communicator(group);
}
}  // namespace

TEST_CASE("a communicator runs on any transport") {
  Communicator world = mirror_world();
  std::vector<float> x = {1, 2}, y(2);
  world.send(x, 0, 3);
  world.recv(y, 0, 3);
  CHECK(y == x);
  world.send_recv(x, 0, y, 0);
  Work work = world.recv_async(y, 0, 1);
  x[0] = 5;
  world.send(x, 0, 1);
  work.wait();
  CHECK(y[0] == 5);
  world.all_reduce(x);  // by messages: a mirror shares no memory
  world.all_reduce_async(x).wait();
  CHECK(x[0] == 5);
  CHECK(world.split(0, 0).size() == 1);
  CHECK_THROWS_AS(world.recv(y, 0, 9), Deadlock);
}

TEST_CASE("a transport that has no native collectives says so") {
  Communicator world = mirror_world();
  std::vector<float> x(2);
  CHECK_THROWS_WITH_AS(
      world.all_reduce(x, ReduceOp::sum, {Algorithm::native}),
      doctest::Contains("these ranks have no all_reduce of their own; take another"), Error);
}

TEST_CASE("a call is described for people") {
  Call call;
  call.operation = "reduce";
  call.count = 16;
  call.dtype = DType::f32;
  call.root = 2;
  call.op = "sum";
  call.algorithm = "ring";
  call.where = Where::current();
  CHECK(describe_operation(call) == "reduce of 16 f32, sum, root 2, ring");
  CHECK(describe(call).starts_with("reduce of 16 f32, sum, root 2, ring at transport_test.cpp:"));
  call = {};
  call.operation = "barrier";
  call.count = -1;
  CHECK(describe_operation(call) == "barrier");
}
