// What the graded cases of exercise 02 call. adapter.cpp fills it with one solution.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "course/cases/launch_matmul.hpp"
#include "course/cases/own_stack.hpp"
#include "yotta/core/exercise.hpp"
#include "yotta/device/kernel.hpp"
#include "yotta/machine/roofline.hpp"

namespace exercise {

// As RooflineReading.
struct Reading {
  double intensity, rate;
  bool memory_bound;
  double of_roof;
};

// As KernelStep and Fusion.
struct Step {
  double flops, bytes, passes_on;
};
struct Fusion {
  double apart, fused;
};

struct Solution {
  yotta::MatmulKernel tile_22, tile_32;  // on blocks of 22 x 22 and 32 x 32 threads
  Call<yotta::Roofline(double tflops, bool asterisk, double tb_per_s)> dense_roofline;
  // {FLOPs, bytes, seconds}
  Call<std::array<double, 3>(int64_t m, int64_t n, int64_t k, int64_t T, int64_t bytes_per_number,
                             const yotta::Roofline& roof)>
      predict;
  Call<int64_t(int64_t m, int64_t n, int64_t k, int64_t bytes_per_number,
               const yotta::Roofline& roof, int64_t largest)>
      smallest_tile;
  Call<Reading(double flops, double bytes, double seconds, const yotta::Roofline& roof)>
      read_measurement;
  Call<Fusion(std::span<const Step> steps, const yotta::Roofline& roof)> fuse;
};
extern const Solution solution;

}  // namespace exercise
