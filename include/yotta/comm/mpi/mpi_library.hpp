// What the transport needs of MPI itself: errors as exceptions, communicators that are freed, our
// types and operations as MPI's, and counts that an int cannot hold.
//
//     DType        moved as           reduced by MPI as       reduced by reduce_into as
//     f64 f32      8, 4 bytes         DOUBLE, FLOAT           max and min, so that a NaN survives
//     i64 i32 u8   8, 4, 1 bytes      INT64_T, INT32_T, ...
//     bf16 f16     2 bytes                                    all: MPI has no such types
//     fp8          1 byte                                     all
//
// MPI 3.1 counts in ints. A longer run travels as one element of a type made for it: whole pieces,
// and the rest:
//
//     |<- max_count ->|<- max_count ->|<- rest ->|   one MPI_Send of 1 element, whatever its length
//
// Reference: MPI: A Message-Passing Interface Standard, version 3.1, sections 4.1, 5.9 and 8.3.
#pragma once

#ifdef YOTTA_HAVE_MPI

#include <mpi.h>

#include <array>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "yotta/comm/data.hpp"
#include "yotta/comm/failures.hpp"

namespace yotta {

// Throws MPI's error message. `call` is the name of the function that returned `code`.
inline void expect_mpi(int code, const char* call, Where where) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail_as<CommError>(where, "{}: {}", call, std::string_view(text, static_cast<size_t>(length)));
}

// The class of an error code: MPI_ERR_TRUNCATE, ...
inline int mpi_error_class(int code) {
  int kind = MPI_SUCCESS;
  MPI_Error_class(code, &kind);
  return kind;
}

// May threads of this process call MPI at the same time? Errors: MPI has not been started, or not
// for this thread.
inline bool expect_mpi_started(Where where) {
  int started = 0, level = 0, main_thread = 0;
  MPI_Initialized(&started);
  if (started == 0)
    fail(where, "MPI has not been started; call MPI_Init_thread first, under mpirun");
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&main_thread);
  if (level < MPI_THREAD_FUNNELED || (level == MPI_THREAD_FUNNELED && main_thread == 0))
    fail(where,
         "MPI was started for fewer threads than this program has; ask MPI_Init_thread for "
         "MPI_THREAD_MULTIPLE");
  return level == MPI_THREAD_MULTIPLE;
}

// Waits for the operation that `start(&request)` begins. Sleeps between tests and calls look().
// Returns the code of start, or of the test. (MPI's own waiting keeps the core busy, which may be
// another rank's.)
template <class Start, class Look>
int wait_sleeping(Start start, Look look) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = start(&request);
  for (int done = 0, nap = 1; code == MPI_SUCCESS; nap = std::min(2 * nap, 500)) {
    code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) break;
    look();
    std::this_thread::sleep_for(std::chrono::microseconds(nap));
  }
  return code;
}
template <class Start>
int wait_sleeping(Start start) {
  return wait_sleeping(start, [] {});
}

// Polls done(), and sleeps in between, for so many seconds at max_count.
template <class Done>
void poll_until(Done done, double seconds = 1e9) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done()) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (passed.count() > seconds) return;
    std::this_thread::sleep_for(std::chrono::microseconds(passed.count() < 0.01 ? 20 : 500));
  }
}

// An MPI communicator that reports errors to us instead of ending the program.
class MpiComm {
 public:
  explicit MpiComm(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    for (const MPI_Comm asked :
         {MPI_COMM_WORLD, MPI_COMM_SELF})  // some MPIs ask these for requests
      MPI_Comm_set_errhandler(asked, MPI_ERRORS_RETURN);
  }
  static MpiComm duplicate(MPI_Comm of, Where where) {
    MPI_Comm comm = MPI_COMM_NULL;
    const auto start = [&](MPI_Request* request) { return MPI_Comm_idup(of, &comm, request); };
    expect_mpi(wait_sleeping(start), "MPI_Comm_idup", where);
    return MpiComm(comm);
  }
  MpiComm(MpiComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  MpiComm& operator=(MpiComm&&) = delete;
  ~MpiComm() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (comm_ != MPI_COMM_NULL && finalized == 0) MPI_Comm_free(&comm_);
  }
  MPI_Comm get() const { return comm_; }
  // Never frees it: something may still be in flight on it.
  void abandon() { comm_ = MPI_COMM_NULL; }

 private:
  MPI_Comm comm_;
};

// A type of the same width, for data that is moved and not reduced.
inline MPI_Datatype mpi_bits(DType dtype) {
  switch (bytes_of(dtype)) {
    case 8: return MPI_INT64_T;
    case 4: return MPI_INT32_T;
    case 2: return MPI_INT16_T;
    default: return MPI_INT8_T;
  }
}
// The number type that MPI can add; MPI_DATATYPE_NULL for types that it does not know.
inline MPI_Datatype mpi_number(DType dtype) {
  switch (dtype) {
    case DType::f64: return MPI_DOUBLE;
    case DType::f32: return MPI_FLOAT;
    case DType::i64: return MPI_INT64_T;
    case DType::i32: return MPI_INT32_T;
    case DType::u8: return MPI_UINT8_T;
    default: return MPI_DATATYPE_NULL;
  }
}

namespace detail {
inline constexpr size_t dtype_count = 9, op_count = 5;

// reduce_into as MPI calls it: inout = in (op) inout.
template <int number>
void reduce_for_mpi(void* in, void* inout, int* count, MPI_Datatype*) {
  constexpr auto dtype = static_cast<DType>(number / int{op_count});
  constexpr auto op = static_cast<ReduceOp>(number % int{op_count});
  reduce_into(Data(static_cast<std::byte*>(inout), *count, dtype),
              ConstData(static_cast<const std::byte*>(in), *count, dtype), op);
}
template <int... number>
constexpr auto reductions(std::integer_sequence<int, number...>) {
  return std::array<MPI_User_function*, sizeof...(number)>{reduce_for_mpi<number>...};
}
// The MPI operation that calls our reduce_into, made at its first use. It lives as long as MPI
// does.
inline MPI_Op own_op(DType dtype, ReduceOp op) {
  constexpr size_t number_of_ops = dtype_count * op_count;
  constexpr auto functions = reductions(std::make_integer_sequence<int, int{number_of_ops}>());
  static std::array<MPI_Op, number_of_ops> ops = {};
  static std::array<bool, number_of_ops> made = {};
  const size_t number = static_cast<size_t>(dtype) * op_count + static_cast<size_t>(op);
  if (!std::exchange(made[number], true))
    MPI_Op_create(functions[number], /*commute=*/1, &ops[number]);
  return ops[number];
}
}  // namespace detail

// The two arguments that describe a reduction to MPI.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};
inline MpiReduction mpi_reduction(DType dtype, ReduceOp op) {
  const MPI_Datatype type = mpi_number(dtype);
  const bool integer = dtype == DType::i64 || dtype == DType::i32 || dtype == DType::u8;
  if (type != MPI_DATATYPE_NULL && (op == ReduceOp::sum || op == ReduceOp::mean))
    return {type, MPI_SUM};
  if (type != MPI_DATATYPE_NULL && op == ReduceOp::prod) return {type, MPI_PROD};
  if (integer) return {type, op == ReduceOp::max ? MPI_MAX : MPI_MIN};
  return {mpi_bits(dtype), detail::own_op(dtype, op)};
}

// A run of `count` numbers as MPI wants it: an int and a type. Runs longer than `max_count` get a
// type of their own.
class MpiRun {
 public:
  MpiRun(int64_t count, DType dtype, int64_t max_count) : type_(mpi_bits(dtype)) {
    if (count <= max_count) {
      count_ = static_cast<int>(count);
      return;
    }
    const int64_t pieces = count / max_count;  // at most 2^32 of 2^31 - 1: more than any memory
    int lengths[] = {static_cast<int>(pieces), static_cast<int>(count % max_count)};
    MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(pieces * max_count * bytes_of(dtype))};
    MPI_Datatype types[] = {MPI_DATATYPE_NULL, type_};
    MPI_Type_contiguous(static_cast<int>(max_count), type_, &types[0]);
    MPI_Type_create_struct(2, lengths, offsets, types, &type_);
    MPI_Type_commit(&type_);
    MPI_Type_free(&types[0]);
    made_ = true;
  }
  MpiRun(const MpiRun&) = delete;
  MpiRun& operator=(const MpiRun&) = delete;
  ~MpiRun() {
    if (made_) MPI_Type_free(&type_);  // MPI keeps it for what is in flight
  }
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 1;
  MPI_Datatype type_;
  bool made_ = false;
};

// How many numbers of this type a message held.
inline int64_t numbers_in(const MPI_Status& status, DType dtype) {
  MPI_Count count = 0;
  MPI_Get_elements_x(&status, mpi_bits(dtype), &count);
  return count;
}

}  // namespace yotta

#endif  // YOTTA_HAVE_MPI
