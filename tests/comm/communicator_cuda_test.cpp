// Collectives and messages of tensors on Device::cuda, here the emulator's: thread ranks on one
// GPU.
#include "yotta/comm/communicator.hpp"

#include <doctest/doctest.h>

#include "yotta/comm/run_ranks.hpp"
#include "yotta/nn/cuda/cuda_kernels.hpp"

using namespace yotta;

namespace {

Tensor on_cuda(int64_t n, int first, DType dtype = DType::f32) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((i * 3 + first) % 7));
  return Tensor::from<double>(values, {n}).to(dtype).to(Device::cuda);
}

}  // namespace

TEST_CASE("collectives on cuda give what they give on the CPU, by every algorithm") {
  install_accelerator();
  install_kernels();
  for (const int p : {1, 2, 3}) {
    run_ranks(p, [p](Communicator& world) {
      const int rank = world.rank();
      for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::naive, Algorithm::ring,
                                        Algorithm::recursive_doubling, Algorithm::tree})
        for (const ReduceOp op :
             {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
          Tensor there = on_cuda(11, rank), here = there.to(Device::cpu);
          world.all_reduce(there, op, {.algorithm = algorithm});
          world.all_reduce(here, op, {.algorithm = algorithm});
          CHECK(there.device() == Device::cuda);
          CHECK(there.values() == here.values());
        }
      for (const DType dtype :
           {DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8}) {
        Tensor there = on_cuda(5, rank, dtype), here = there.to(Device::cpu);
        world.all_reduce(there);
        world.all_reduce(here);
        CHECK(there.values() == here.values());
      }
      const DeviceScope scope(Device::cuda);
      const Tensor whole = on_cuda(11, rank);
      Tensor chunk = Tensor::empty({chunk_count(11, p, rank)}), all = Tensor::empty({11});
      world.reduce_scatter(chunk, whole);
      world.all_gather(all, chunk);
      Tensor sum = whole.clone();
      world.all_reduce(sum);
      CHECK(all.values() == sum.values());
      Tensor mixed = Tensor::empty({p * chunk_count(11, p, rank)});
      world.all_to_all(mixed, whole);
      CHECK(mixed.item({0}) == on_cuda(11, 0).item({chunk_begin(11, p, rank)}));
      Tensor same = on_cuda(11, rank);
      world.broadcast(same, p - 1);
      CHECK(same.values() == on_cuda(11, p - 1).values());
    });
  }
}

TEST_CASE("messages on cuda: a sent tensor is the sender's own again at once") {
  install_accelerator();
  install_kernels();
  run_ranks(2, [](Communicator& world) {
    const int other = 1 - world.rank();
    Tensor mine = on_cuda(6, world.rank()), got = on_cuda(6, 5);
    world.send(mine, other, 3);
    mine.zero();
    world.recv(got, other, 3);
    CHECK(got.values() == on_cuda(6, other).values());
    Work sent = world.send_async(got, other), received = world.recv_async(mine, other);
    received.wait();
    sent.wait();
    CHECK(mine.values() == on_cuda(6, world.rank()).values());
  });
}
