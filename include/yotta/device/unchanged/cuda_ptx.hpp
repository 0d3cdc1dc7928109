// cuda::ptx on the CPU: libcu++'s names of PTX instructions, as far as kernels for Hopper use them.
// Each is a function of this library that is that PTX under nvcc; the types say what PTX says by
// dots:
//
//     mbarrier.arrive.release.cta.shared::cta.b64 state, [full];
//     ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full)
//
// What is not here says what to use instead, where it is used.
// Contract: that of mbarrier.hpp, cp_async_bulk.hpp, cp_async_bulk_tensor.hpp and
// block_cluster.hpp. Reference: libcu++ documentation, "PTX Instructions".
#pragma once

#if !defined(__CUDACC__)

#include <type_traits>

#include "yotta/device/block_cluster.hpp"
#include "yotta/device/cp_async_bulk_tensor.hpp"
#include "yotta/device/emulator/cuda_builtins.hpp"

namespace cuda {
inline namespace YOTTA_DEVICE_BUILD {
namespace ptx {

// ---- What stands between the dots ----
enum class dot_sem { acq_rel, acquire, relaxed, release, sc };
enum class dot_space { global, shared, cluster };
enum class dot_scope { cta, cluster, gpu, sys };
enum class dot_op { add, min, max, inc, dec, and_op, or_op, xor_op };
template <dot_sem sem>
using sem_t = std::integral_constant<dot_sem, sem>;
template <dot_space space>
using space_t = std::integral_constant<dot_space, space>;
template <dot_scope scope>
using scope_t = std::integral_constant<dot_scope, scope>;
template <dot_op op>
using op_t = std::integral_constant<dot_op, op>;
template <int n>
using n32_t = std::integral_constant<int, n>;
#define YOTTA_DOT(kind, value)                            \
  using kind##_##value##_t = kind##_t<dot_##kind::value>; \
  inline constexpr kind##_##value##_t kind##_##value{};
YOTTA_DOT(sem, acq_rel)
YOTTA_DOT(sem, acquire)
YOTTA_DOT(sem, relaxed)
YOTTA_DOT(sem, release)
YOTTA_DOT(sem, sc)
YOTTA_DOT(space, global)
YOTTA_DOT(space, shared)
YOTTA_DOT(space, cluster)
YOTTA_DOT(scope, cta)
YOTTA_DOT(scope, cluster)
YOTTA_DOT(scope, gpu)
YOTTA_DOT(scope, sys)
YOTTA_DOT(op, add)
YOTTA_DOT(op, min)
YOTTA_DOT(op, max)
YOTTA_DOT(op, inc)
YOTTA_DOT(op, dec)
YOTTA_DOT(op, and_op)
YOTTA_DOT(op, or_op)
YOTTA_DOT(op, xor_op)
#undef YOTTA_DOT

// ---- mbarriers ----
using yotta::mbarrier_init;
using yotta::mbarrier_inval;

inline uint64_t mbarrier_arrive(uint64_t* barrier, yotta::Where where = yotta::Where::current()) {
  return yotta::mbarrier_arrive(barrier, 1, where);
}
inline uint64_t mbarrier_arrive(uint64_t* barrier, const uint32_t& count,
                                yotta::Where where = yotta::Where::current()) {
  return yotta::mbarrier_arrive(barrier, count, where);
}
template <dot_scope scope>
uint64_t mbarrier_arrive(sem_release_t, scope_t<scope>, space_shared_t, uint64_t* barrier,
                         yotta::Where where = yotta::Where::current()) {
  return yotta::mbarrier_arrive(barrier, 1, where);
}
template <dot_scope scope>
uint64_t mbarrier_arrive(sem_release_t, scope_t<scope>, space_shared_t, uint64_t* barrier,
                         const uint32_t& count, yotta::Where where = yotta::Where::current()) {
  return yotta::mbarrier_arrive(barrier, count, where);
}
// Of any block of the cluster: its address as mapa() or map_shared_rank() returns it.
inline void mbarrier_arrive(sem_release_t, scope_cluster_t, space_cluster_t, uint64_t* barrier,
                            const uint32_t& count, yotta::Where where = yotta::Where::current()) {
  const auto at = yotta::emulator::owner_of_shared("mbarrier_arrive()", barrier, where);
  yotta::mbarrier_arrive_at(static_cast<uint64_t*>(at.mine), at.rank, count, where);
}
inline void mbarrier_arrive(sem_release_t sem, scope_cluster_t scope, space_cluster_t space,
                            uint64_t* barrier, yotta::Where where = yotta::Where::current()) {
  mbarrier_arrive(sem, scope, space, barrier, 1, where);
}
template <dot_scope scope>
uint64_t mbarrier_arrive_expect_tx(sem_release_t, scope_t<scope>, space_shared_t, uint64_t* barrier,
                                   const uint32_t& bytes,
                                   yotta::Where where = yotta::Where::current()) {
  return yotta::mbarrier_arrive_expect_tx(barrier, bytes, where);
}
template <dot_scope scope>
void mbarrier_expect_tx(sem_relaxed_t, scope_t<scope>, space_shared_t, uint64_t* barrier,
                        uint32_t bytes, yotta::Where where = yotta::Where::current()) {
  yotta::mbarrier_expect_tx(barrier, bytes, where);
}

// With a hint for how long the thread may sleep, and with what a wait acquires.
#define YOTTA_PTX_WAIT(word, Asked)                                               \
  inline bool word(uint64_t* barrier, const Asked& asked,                         \
                   yotta::Where where = yotta::Where::current()) {                \
    return yotta::word(barrier, asked, where);                                    \
  }                                                                               \
  template <dot_scope scope>                                                      \
  bool word(sem_acquire_t, scope_t<scope>, uint64_t* barrier, const Asked& asked, \
            yotta::Where where = yotta::Where::current()) {                       \
    return yotta::word(barrier, asked, where);                                    \
  }
#define YOTTA_PTX_SLEEP(word, Asked)                                                \
  inline bool word(uint64_t* barrier, const Asked& asked, const uint32_t& /*ns*/,   \
                   yotta::Where where = yotta::Where::current()) {                  \
    return yotta::word(barrier, asked, where);                                      \
  }                                                                                 \
  template <dot_scope scope>                                                        \
  bool word(sem_acquire_t, scope_t<scope>, uint64_t* barrier, const Asked& asked,   \
            const uint32_t& /*ns*/, yotta::Where where = yotta::Where::current()) { \
    return yotta::word(barrier, asked, where);                                      \
  }
YOTTA_PTX_WAIT(mbarrier_test_wait, uint64_t)
YOTTA_PTX_WAIT(mbarrier_test_wait_parity, uint32_t)
YOTTA_PTX_WAIT(mbarrier_try_wait, uint64_t)
YOTTA_PTX_WAIT(mbarrier_try_wait_parity, uint32_t)
YOTTA_PTX_SLEEP(mbarrier_try_wait, uint64_t)
YOTTA_PTX_SLEEP(mbarrier_try_wait_parity, uint32_t)
#undef YOTTA_PTX_SLEEP
#undef YOTTA_PTX_WAIT

// ---- Fences ----
template <dot_scope scope>
void fence(sem_acq_rel_t, scope_t<scope>) {
  scope == dot_scope::cta ? __threadfence_block() : __threadfence();
}
template <dot_scope scope>
void fence(sem_sc_t, scope_t<scope>) {
  fence(sem_acq_rel, scope_t<scope>{});
}
inline void fence_mbarrier_init(sem_release_t, scope_cluster_t,
                                yotta::Where where = yotta::Where::current()) {
  yotta::fence_mbarrier_init(where);
}
inline void fence_proxy_async(yotta::Where where = yotta::Where::current()) {
  yotta::fence_proxy_async(where);
}
// The emulator asks for none of global memory.
template <dot_space space>
void fence_proxy_async(space_t<space>, yotta::Where where = yotta::Where::current()) {
  if constexpr (space != dot_space::global) yotta::fence_proxy_async(where);
}

// ---- Bulk copies ----
inline void cp_async_bulk(space_cluster_t, space_global_t, void* to, const void* from,
                          const uint32_t& bytes, uint64_t* barrier,
                          yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk(to, from, bytes, barrier, where);
}
inline void cp_async_bulk(space_shared_t, space_global_t, void* to, const void* from,
                          const uint32_t& bytes, uint64_t* barrier,
                          yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk(to, from, bytes, barrier, where);
}
inline void cp_async_bulk(space_global_t, space_shared_t, void* to, const void* from,
                          const uint32_t& bytes, yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk(to, from, bytes, where);
}
using yotta::cp_async_bulk_commit_group;
template <int n>
void cp_async_bulk_wait_group(n32_t<n>, yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk_wait_group<n>(where);
}
template <int n>
void cp_async_bulk_wait_group_read(n32_t<n>, yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk_wait_group_read<n>(where);
}
template <int dims>
void cp_async_bulk_tensor(space_cluster_t, space_global_t, void* to, const void* map,
                          const int32_t (&at)[dims], uint64_t* barrier,
                          yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk_tensor(to, static_cast<const CUtensorMap*>(map), at, barrier, where);
}
template <int dims>
void cp_async_bulk_tensor(space_shared_t, space_global_t, void* to, const void* map,
                          const int32_t (&at)[dims], uint64_t* barrier,
                          yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk_tensor(to, static_cast<const CUtensorMap*>(map), at, barrier, where);
}
template <int dims>
void cp_async_bulk_tensor(space_cluster_t, space_global_t, void* to, const void* map,
                          const int32_t (&at)[dims], uint64_t* barrier, const uint16_t& blocks,
                          yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk_tensor_multicast(to, static_cast<const CUtensorMap*>(map), at, barrier,
                                        blocks, where);
}
template <int dims>
void cp_async_bulk_tensor(space_global_t, space_shared_t, const void* map,
                          const int32_t (&at)[dims], const void* from,
                          yotta::Where where = yotta::Where::current()) {
  yotta::cp_async_bulk_tensor(static_cast<const CUtensorMap*>(map), at, from, where);
}
template <int dims, dot_op op>
void cp_reduce_async_bulk_tensor(space_global_t, space_shared_t, op_t<op>, const void* map,
                                 const int32_t (&at)[dims], const void* from,
                                 yotta::Where where = yotta::Where::current()) {
  static_assert(op == dot_op::add, "of the reductions by a tensor map, the emulator has op_add");
  yotta::cp_reduce_async_bulk_tensor_add(static_cast<const CUtensorMap*>(map), at, from, where);
}

// ---- Clusters ----
inline void barrier_cluster_arrive(yotta::Where where = yotta::Where::current()) {
  yotta::cluster_arrive(where);
}
inline void barrier_cluster_arrive(sem_release_t, yotta::Where where = yotta::Where::current()) {
  yotta::cluster_arrive(where);
}
inline void barrier_cluster_wait(yotta::Where where = yotta::Where::current()) {
  yotta::cluster_wait(where);
}
inline void barrier_cluster_wait(sem_acquire_t, yotta::Where where = yotta::Where::current()) {
  yotta::cluster_wait(where);
}
template <class T>
T* mapa(space_cluster_t, const T* pointer, uint32_t rank,
        yotta::Where where = yotta::Where::current()) {
  return yotta::map_shared(const_cast<T*>(pointer), rank, where);
}
inline uint32_t getctarank(space_cluster_t, const void* pointer,
                           yotta::Where where = yotta::Where::current()) {
  return yotta::emulator::owner_of_shared("getctarank()", pointer, where).rank;
}
inline uint32_t get_sreg_cluster_ctarank(yotta::Where where = yotta::Where::current()) {
  return yotta::cluster_rank(where);
}
inline uint32_t get_sreg_cluster_nctarank(yotta::Where where = yotta::Where::current()) {
  return yotta::cluster_size(where);
}
inline uint32_t get_sreg_laneid(yotta::Where where = yotta::Where::current()) {
  return static_cast<uint32_t>(yotta::emulator::lane_index(where));
}

// ---- What is left out ----
#define YOTTA_PTX_LEFT_OUT(word, hint)                                                            \
  template <class... Arguments>                                                                   \
  __attribute__((unavailable("not in Yotta's emulator: cuda::ptx::" #word ": " hint))) void word( \
      Arguments&&...);
// Overloads of words that are here, by the types that name them.
#define YOTTA_PTX_KIND_LEFT_OUT(word, hint, ...)                                                  \
  template <class... Arguments>                                                                   \
  __attribute__((unavailable("not in Yotta's emulator: cuda::ptx::" #word ": " hint))) void word( \
      __VA_ARGS__, Arguments&&...);
YOTTA_PTX_KIND_LEFT_OUT(mbarrier_arrive, "it arrives with sem_release", sem_relaxed_t)
YOTTA_PTX_KIND_LEFT_OUT(mbarrier_arrive_expect_tx, "it arrives with sem_release", sem_relaxed_t)
YOTTA_PTX_KIND_LEFT_OUT(mbarrier_arrive_expect_tx,
                        "it arrives at an mbarrier of the own block, with space_shared",
                        sem_release_t, scope_cluster_t, space_cluster_t)
YOTTA_PTX_KIND_LEFT_OUT(barrier_cluster_arrive, "it arrives with sem_release", sem_relaxed_t)
YOTTA_PTX_KIND_LEFT_OUT(cp_async_bulk,
                        "copies between blocks: write through map_shared(), or load by multicast",
                        space_cluster_t, space_shared_t)
YOTTA_PTX_LEFT_OUT(mbarrier_arrive_no_complete, "mbarrier_arrive()")
YOTTA_PTX_LEFT_OUT(cp_async_mbarrier_arrive, "cp.async with mbarriers: use cp_async_bulk()")
YOTTA_PTX_LEFT_OUT(cp_async_mbarrier_arrive_noinc, "cp.async with mbarriers: use cp_async_bulk()")
YOTTA_PTX_LEFT_OUT(cp_async_bulk_cp_mask, "copies of some bytes: of Blackwell")
YOTTA_PTX_LEFT_OUT(cp_reduce_async_bulk, "use cp_reduce_async_bulk_tensor() with a tensor map")
YOTTA_PTX_LEFT_OUT(st_async, "write through map_shared(), then mbarrier_arrive_at()")
YOTTA_PTX_LEFT_OUT(red_async, "atomicAdd() through map_shared(), then mbarrier_arrive_at()")
YOTTA_PTX_LEFT_OUT(fence_proxy_alias, "no two addresses name one place here")
YOTTA_PTX_LEFT_OUT(fence_proxy_tensormap_generic, "make tensor maps on the host")
YOTTA_PTX_LEFT_OUT(multimem_red, "more than one device")
YOTTA_PTX_LEFT_OUT(multimem_st, "more than one device")
YOTTA_PTX_LEFT_OUT(tcgen05_mma, "Blackwell's tensor cores: wgmma() of yotta/device/wgmma.hpp")
YOTTA_PTX_LEFT_OUT(tcgen05_alloc, "Blackwell's tensor cores: wgmma() of yotta/device/wgmma.hpp")
#undef YOTTA_PTX_KIND_LEFT_OUT
#undef YOTTA_PTX_LEFT_OUT

}  // namespace ptx
}  // namespace YOTTA_DEVICE_BUILD
}  // namespace cuda

#endif
