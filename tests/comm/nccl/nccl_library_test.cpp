#include "yotta/comm/nccl/nccl_library.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace yotta;

namespace {

// Writes down what it is asked for.
struct WrittenNccl : NcclLibrary {
  std::string calls;
  Id new_id() override { return {}; }
  Handle join(const Id&, int, int) override { return nullptr; }
  bool can_split() const override { return false; }
  Handle split(Handle, int, int) override { return nullptr; }
  bool is_made(Handle) override { return true; }
  bool ready(Handle) override { return true; }
  void finalize(Handle) override {}
  void leave(Handle, bool) noexcept override {}
  void begin_group() override { calls += "("; }
  void end_group() override { calls += ")"; }
  Mark computed() override { return 0; }
  Mark mark(Handle) override { return 0; }
  void lane_after(Handle, Mark) override {}
  void compute_after(Mark) override {}
  bool has_passed(Mark) override { return true; }
  void forget(Mark) noexcept override {}
  void send(Handle, ConstData data, int to) override {
    calls += fmt::format("s{}>{} ", data.count, to);
  }
  void recv(Handle, Data data, int from) override {
    calls += fmt::format("r{}<{} ", data.count, from);
  }
  void broadcast(Handle, ConstData in, Data, int root) override {
    calls += fmt::format("b{}@{} ", in.count, root);
  }
  void reduce(Handle, ConstData in, Data, ReduceOp, int root) override {
    calls += fmt::format("+{}@{} ", in.count, root);
  }
  void all_reduce(Handle, ConstData in, Data, ReduceOp op) override {
    calls += fmt::format("{} {}", name(op), in.count);
  }
  void reduce_scatter(Handle, ConstData in, Data, ReduceOp) override {
    calls += fmt::format("rs{}", in.count);
  }
  void all_gather(Handle, ConstData, Data out) override { calls += fmt::format("ag{}", out.count); }
};

std::string written(const NativeCall& call, int p, int rank) {
  WrittenNccl nccl;
  run_on_lane(nccl, nullptr, call, p, rank);
  REQUIRE((nccl.calls.front() == '(' && nccl.calls.back() == ')'));  // all in one group
  return nccl.calls.substr(1, nccl.calls.size() - 2);
}

}  // namespace

TEST_CASE("each collective in NCCL's terms") {
  std::vector<float> seven(7), six(6), three(3), two(2);
  const ConstData in7(seven), in6(six), in3(three);
  const Data out7(seven), out6(six), out3(three), out2(two);
  CHECK(written({Operation::all_reduce, in7, out7, ReduceOp::max}, 2, 0) == "max 7");
  CHECK(written({Operation::broadcast, in7, out7, {}, 1}, 2, 0) == "b7@1 ");
  CHECK(written({Operation::reduce, in7, out7, {}, 1}, 2, 0) == "+7@1 ");
  CHECK(written({Operation::reduce_scatter, in6, out3}, 2, 0) == "rs6");
  CHECK(written({Operation::reduce_scatter, in7, out3}, 2, 1) == "+4@0 +3@1 ");
  CHECK(written({Operation::all_gather, in3, out6}, 2, 0) == "ag6");
  CHECK(written({Operation::all_gather, in3, out7}, 2, 1) == "b4@0 b3@1 ");
  CHECK(written({Operation::all_to_all, in7, out6}, 2, 1) == "s4>0 r3<0 s3>1 r3<1 ");
  const std::vector<int64_t> ins = {1, 2}, outs = {0, 2};
  CHECK(written({Operation::all_to_all_v, in3, out2, {}, 0, ins, outs}, 2, 1) ==
        "s1>0 r0<0 s2>1 r2<1 ");
  CHECK(written({Operation::gather, in3, out7, {}, 1}, 2, 1) == "s3>1 r4<0 r3<1 ");
  CHECK(written({Operation::gather, in3, out7, {}, 1}, 2, 0) == "s3>1 ");
  CHECK(written({Operation::scatter, in7, out3, {}, 0}, 2, 0) == "s4>0 s3>1 r3<0 ");
  CHECK(written({Operation::scatter, in7, out3, {}, 0}, 2, 1) == "r3<0 ");
  CHECK(written({Operation::barrier}, 2, 1) == "");
}
