#include "yotta/comm/mpi/mpi_library.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

TEST_CASE("an error of MPI becomes an exception with its text") {
  const MpiComm comm = MpiComm::duplicate(MPI_COMM_WORLD, Where::current());
  int x = 0;
  const int code = MPI_Send(&x, 1, MPI_INT, 1000, 0, comm.get());
  CHECK(
      contains(message_of([&] { expect_mpi(code, "MPI_Send", Where::current()); }), "MPI_Send: "));
  CHECK_NOTHROW(expect_mpi(MPI_SUCCESS, "MPI_Send", Where::current()));
  CHECK(expect_mpi_started(Where::current()));
}

TEST_CASE("a run longer than one call may take is one element of a type that covers it") {
  for (const int64_t count : {0, 1, 10, 11, 20, 25, 1000}) {
    const MpiRun run(count, DType::f32, 10);
    int size = 0;
    MPI_Type_size(run.type(), &size);
    CAPTURE(count);
    CHECK(int64_t{size} * run.count() == 4 * count);
    CHECK(run.count() == (count <= 10 ? count : 1));
  }
}

TEST_CASE(
    "MPI adds what it knows, and we what it does not: every type and operation, NaN included") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32,
                            DType::fp8_e5m2, DType::fp8_e4m3, DType::u8})
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod}) {
      const bool integer = dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8;
      std::vector<double> a = {1, 2, 3, 2}, b = {3, 2, 1, 4};
      if (!integer) a[3] = nan;
      Tensor ours = Tensor::from(a, {4}).to(dtype), theirs = ours.clone();
      const Tensor other = Tensor::from(b, {4}).to(dtype);
      reduce_into(ours, other, op);
      const auto [type, mpi_op] = mpi_reduction(dtype, op);
      MPI_Reduce_local(other.raw(), theirs.raw(), 4, type, mpi_op);
      CAPTURE(std::string(name(dtype)));
      CAPTURE(std::string(name(op)));
      for (size_t i = 0; i < 3; ++i) CHECK(theirs.values()[i] == ours.values()[i]);
      CHECK(std::isnan(theirs.values()[3]) == !integer);
    }
}
