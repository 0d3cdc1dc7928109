// What chips.md compares: five GPUs from 2006 to 2022, an SM beside a core of a CPU, and four
// makers' accelerators. Every figure with what prints it; rates are units x FLOPs a clock x clock.
#pragma once

#include "course/lesson/lesson.hpp"
#include "yotta/machine/chip.hpp"

namespace yotta::chips_page {

struct Gpu {
  const char* name;
  int year;
  double lanes, hertz;  // f32: a multiply-add a lane and clock
  double tensor;        // dense 16-bit FLOP/s of its tensor cores; 0: none
  double bandwidth;     // bytes/s of memory
  double billion;       // transistors
  const char* source;
};
constexpr Gpu gpus[] = {
    {"8800 GTX", 2006, 128, 1.35e9, 0, 86.4e9, 0.681,
     "NVIDIA, GeForce 8800 GPU architecture overview, 2006"},
    {"K40", 2013, 2880, 0.875e9, 0, 288e9, 7.1,
     "NVIDIA, board specification BD-06902-001, 2013; Kepler GK110 whitepaper"},
    {"V100", 2017, 5120, 1.53e9, 125e12, 900e9, 21.1, "NVIDIA, Volta whitepaper WP-08608, 2017"},
    {"A100", 2020, 6912, 1.41e9, 312e12, 2.0e12, 54.2, "NVIDIA, Ampere whitepaper, 2020; 80 GB"},
    {"H100", 2022, 16896, 1.98e9, 989.4e12, 3.35e12, 80, "NVIDIA, Hopper whitepaper, 2022; SXM"},
};
constexpr double f32_peak(const Gpu& gpu) { return gpu.lanes * 2 * gpu.hertz; }

inline void five_gpus(Lesson& lesson) {
  lesson.section("Five GPUs in sixteen years");
  lesson.say("{:<10}{:>6}{:>13}{:>8}{:>7}{:>13}{:>15}{:>7}{:>15}", "", "year", "transistors",
             "lanes", "GHz", "f32, TFLOP/s", "16-bit, tensor", "TB/s", "FLOPs per byte");
  for (const Gpu& gpu : gpus) {
    const double f32 = f32_peak(gpu), most = gpu.tensor > 0 ? gpu.tensor : f32;
    lesson.say("{:<10}{:>6}{:>9.1f} 1e9{:>8.0f}{:>7.2f}{:>13.2f}{:>15}{:>7.3f}{:>15.0f}", gpu.name,
               gpu.year, gpu.billion, gpu.lanes, gpu.hertz / 1e9, f32 / 1e12,
               gpu.tensor > 0 ? fmt::format("{:.0f}", gpu.tensor / 1e12) : "-",
               gpu.bandwidth / 1e12, most / gpu.bandwidth);
  }
  const Gpu &first = gpus[0], &last = gpus[4];
  lesson.say(
      "in 16 years: transistors {:.0f}x, clock {:.1f}x, memory {:.0f}x, f32 {:.0f}x, matmul "
      "{:.0f}x",
      last.billion / first.billion, last.hertz / first.hertz, last.bandwidth / first.bandwidth,
      f32_peak(last) / f32_peak(first), last.tensor / f32_peak(first));
}

// An H100's SM (Hopper whitepaper) and a core of an EPYC 9654 (AMD, EPYC 9004 architecture
// overview, 2022; x86's 32 vector registers of 64 bytes, which programs see).
inline void core_and_sm(Lesson& lesson) {
  constexpr double sm_registers = 256, sm_fast = 256, sm_threads = 2048, sm_flops = 256;
  constexpr double core_registers = 2, core_fast = 32, core_threads = 2, core_flops = 32;
  lesson.section("An SM of an H100 beside a core of an EPYC 9654");
  lesson.say("{:<40}{:>10}{:>10}", "", "a core", "an SM");
  const auto row = [&](const char* what, double core, double sm) {
    lesson.say("{:<40}{:>10.0f}{:>10.0f}", what, core, sm);
  };
  row("on the chip", 96, 132);
  row("threads that wait in it, ready to go on", core_threads, sm_threads);
  row("their registers, KiB", core_threads * core_registers, sm_registers);
  row("fastest memory beside them, KiB", core_fast, sm_fast);
  row("f32 FLOPs a clock", core_flops, sm_flops);
  row("16-bit FLOPs a clock, matrix units", 0, 4096);
  lesson.say("registers of a thread: {:.0f} bytes against {:.0f}", 1024 * core_registers,
             1024 * sm_registers / sm_threads);
}

// Independent matrix units, the dense 16-bit FLOPs that each does a clock, and the chip's peak.
struct Design {
  const char* name;
  double units, flops, peak, memory, bandwidth;
  const char* source;
};
constexpr Design designs[] = {
    {"H100", 528, 1024, 989.4e12, 80e9, 3.35e12, "NVIDIA, Hopper whitepaper and datasheet"},
    {"MI300X", 1216, 512, 1307.4e12, 192e9, 5.3e12,
     "AMD, Instinct MI300X data sheet, 2023: 304 compute units of 4 matrix cores, 2.1 GHz"},
    {"TPU v5p", 8, 2 * 128 * 128, 459e12, 95e9, 2.765e12,
     "Google Cloud, TPU v5p and system architecture: 2 cores of 4 arrays of 128 x 128"},
    {"Trainium2", 8, 2 * 128 * 128, 667e12, 96 * 1.073741824e9, 2.9e12,
     "AWS Neuron documentation, Trainium2: 8 cores with an array of 128 x 128 each"},
};

inline void four_designs(Lesson& lesson) {
  lesson.section("Four makers: how many matrix units, and how large");
  lesson.say("{:<11}{:>14}{:>21}{:>10}{:>17}{:>12}{:>16}", "", "matrix units",
             "FLOPs a clock, each", "all", "16-bit TFLOP/s", "memory, GB", "FLOPs per byte");
  for (const Design& each : designs)
    lesson.say("{:<11}{:>14.0f}{:>21.0f}{:>10.0f}{:>17.0f}{:>12.0f}{:>16.0f}", each.name,
               each.units, each.flops, each.units * each.flops, each.peak / 1e12, each.memory / 1e9,
               each.peak / each.bandwidth);
}

}  // namespace yotta::chips_page
