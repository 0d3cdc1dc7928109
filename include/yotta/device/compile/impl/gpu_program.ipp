// The bodies of device/compile/gpu_program.hpp.
#pragma once

#include "yotta/device/compile/gpu_program.hpp"
//
#include <chrono>

#include "yotta/device/capture.hpp"
#include "yotta/device/compile/nvrtc.hpp"
#include "yotta/device/compile/shared_object.hpp"

namespace yotta {

namespace detail {

inline void check_driver(const GpuDriver& driver, int code, const char* call, Where where) {
  if (code == 0) return;
  const char* name = nullptr;
  driver.error_name(code, &name);
  fail(where, "{}: {} ({})", call, name == nullptr ? "an unknown error" : name, code);
}

struct OpenedDriver {
  std::unique_ptr<SharedObject> library;
  GpuDriver driver = {};
  std::string missing;
};

// The names are those that cuda.h's macros give: functions that have changed have a number.
inline void find_functions(OpenedDriver& opened) {
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(opened.library->function(name));
  };
  GpuDriver& driver = opened.driver;
  find(driver.init, "cuInit");
  find(driver.device_count, "cuDeviceGetCount");
  find(driver.device_name, "cuDeviceGetName");
  find(driver.attribute, "cuDeviceGetAttribute");
  find(driver.retain_context, "cuDevicePrimaryCtxRetain");
  find(driver.set_context, "cuCtxSetCurrent");
  find(driver.synchronize, "cuCtxSynchronize");
  find(driver.load_module, "cuModuleLoadData");
  find(driver.unload_module, "cuModuleUnload");
  find(driver.get_function, "cuModuleGetFunction");
  find(driver.allocate, "cuMemAlloc_v2");
  find(driver.release, "cuMemFree_v2");
  find(driver.copy_in, "cuMemcpyHtoD_v2");
  find(driver.copy_out, "cuMemcpyDtoH_v2");
  find(driver.launch, "cuLaunchKernel");
  find(driver.error_name, "cuGetErrorName");
}

inline OpenedDriver open_driver() {
  OpenedDriver opened;
  const Where here = Where::current();
  int count = 0;
  try {
    opened.library.reset(new SharedObject("libcuda.so.1", here));
    find_functions(opened);
  } catch (const Error&) {
    opened.missing = "there is no GPU here: its driver, libcuda.so.1, is not installed";
    return opened;
  }
  const int code = opened.driver.init(0);
  if (code != 0 || opened.driver.device_count(&count) != 0 || count == 0)
    opened.missing = fmt::format("there is no GPU here: its driver finds none (code {})", code);
  return opened;
}
// Never unloaded: it has threads of its own.
inline const OpenedDriver& opened_driver() {
  static const OpenedDriver& opened = *new OpenedDriver(open_driver());
  return opened;
}

}  // namespace detail

YOTTA_INLINE std::string why_no_gpu() { return detail::opened_driver().missing; }

YOTTA_INLINE const GpuDriver& gpu_driver(Where where) {
  const detail::OpenedDriver& opened = detail::opened_driver();
  if (!opened.missing.empty()) fail(where, "{}", opened.missing);
  return opened.driver;
}

YOTTA_INLINE GpuChip gpu_chip(const GpuDriver& driver) {
  constexpr int major_attribute = 75, minor_attribute = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_...
  const Where here = Where::current();
  int major = 0, minor = 0;
  char name[256] = "";
  detail::check_driver(driver, driver.attribute(&major, major_attribute, 0), "cuDeviceGetAttribute",
                       here);
  detail::check_driver(driver, driver.attribute(&minor, minor_attribute, 0), "cuDeviceGetAttribute",
                       here);
  detail::check_driver(driver, driver.device_name(name, sizeof name, 0), "cuDeviceGetName", here);
  return {name, fmt::format("sm_{}{}", major, minor)};
}

struct GpuProgram::Held {
  explicit Held(const GpuDriver& its_driver) : driver(its_driver) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    for (const auto& [n, address] : memory) driver.release(address);
    for (void* module : modules) driver.unload_module(module);
  }
  // What follows on this thread is for the first GPU.
  void use(Where where) const {
    detail::check_driver(driver, driver.set_context(context), "cuCtxSetCurrent", where);
  }
  const GpuDriver& driver;
  void* context = nullptr;
  std::vector<void*> modules, functions;
  std::map<int, unsigned long long> memory;  // of each value
};

YOTTA_INLINE GpuProgram::GpuProgram(const Graph& graph, std::vector<Launch> launches,
                                    const GpuDriver& driver, Where where)
    : graph_(graph),
      launches_(std::move(launches)),
      driver_(&driver),
      held_(std::make_shared<Held>(driver)) {
  const auto check = [&](int code, const char* call) {
    detail::check_driver(driver, code, call, where);
  };
  check(driver.retain_context(&held_->context, 0), "cuDevicePrimaryCtxRetain");
  held_->use(where);
  const auto allocate = [&](int n) {
    check(driver.allocate(&held_->memory[n], static_cast<size_t>(bytes_of(graph_, n))),
          "cuMemAlloc");
  };
  const std::string target = gpu_chip(driver).target;
  for (const int n : graph_.inputs()) allocate(n);
  for (const Launch& launch : launches_) {
    const Node& last = graph_.node(launch[0].nodes.back());
    if (stands_alone(last.op))
      fail(last.where, "a {} is no kernel by rows: a GpuProgram has none", info(last.op).name);
    for (const int n : values_of(launch).writes) allocate(n);
    const std::string code = compile_cuda(print_cuda(graph_, launch), target, where);
    check(driver.load_module(&held_->modules.emplace_back(), code.data()), "cuModuleLoadData");
    check(driver.get_function(&held_->functions.emplace_back(), held_->modules.back(), "fused"),
          "cuModuleGetFunction");
  }
}

// The kernel's one parameter is the struct of its arrays: what it reads, then what it writes.
YOTTA_INLINE void GpuProgram::launch_all(Where where) const {
  for (size_t l = 0; l < launches_.size(); ++l) {
    const LaunchValues values = values_of(launches_[l]);
    std::vector<unsigned long long> arrays;
    for (const int n : values.reads) arrays.push_back(held_->memory.at(n));
    if (values.reads.empty()) arrays.push_back(0);
    for (const int n : values.writes) arrays.push_back(held_->memory.at(n));
    void* parameters[] = {arrays.data()};
    const auto blocks = static_cast<unsigned>(tasks_of(graph_, launches_[l], cuda_kernel));
    detail::check_driver(*driver_,
                         driver_->launch(held_->functions[l], blocks, 1, 1, cuda_threads, 1, 1, 0,
                                         nullptr, parameters, nullptr),
                         "cuLaunchKernel", where);
  }
}

YOTTA_INLINE std::vector<Tensor> GpuProgram::operator()(const std::vector<Tensor>& arguments,
                                                        Where where) const {
  check_guards(graph_, arguments, where);
  held_->use(where);
  const auto check = [&](int code, const char* call) {
    detail::check_driver(*driver_, code, call, where);
  };
  const auto bytes = [&](int n) { return static_cast<size_t>(bytes_of(graph_, n)); };
  for (size_t i = 0; const int n : graph_.inputs())
    check(driver_->copy_in(held_->memory.at(n), arguments[i++].raw(), bytes(n)), "cuMemcpyHtoD");
  launch_all(where);
  std::vector<Tensor> results;
  for (const int n : graph_.outputs) {
    const Size size = graph_.node(n).size;
    results.push_back(Tensor::empty({size.rows, size.columns}, graph_.dtype, where));
    check(driver_->copy_out(results.back().raw(), held_->memory.at(n), bytes(n)), "cuMemcpyDtoH");
  }
  return results;
}

YOTTA_INLINE double GpuProgram::seconds(int times, Where where) const {
  const auto wait = [&] {
    detail::check_driver(*driver_, driver_->synchronize(), "cuCtxSynchronize", where);
  };
  held_->use(where);
  launch_all(where);
  wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) launch_all(where);
  wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

}  // namespace yotta
