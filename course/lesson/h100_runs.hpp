// Runs on a real H100 as their authors published them, for the roofline of lesson 02. None was
// measured by this course.
#pragma once

#include <string>
#include <vector>

#include "yotta/machine/pictures/roofline_picture.hpp"

namespace yotta {

struct PublishedRun {
  std::string name;
  Workload work;
  double rate;  // FLOP/s of the work above
  const char* source;
};

// A softmax along rows of f32: largest, subtract, exp, add, divide; each number is read once and
// written once.
constexpr Workload softmax_workload(double numbers) { return elementwise_workload(numbers, 5); }

// Attention of one head without a mask: two products of length d for each pair; Q, K, V and O cross
// the bus once.
constexpr Workload attention_workload(double tokens, double d, double bytes_per_element = 2) {
  return {4 * tokens * tokens * d, 4 * bytes_per_element * tokens * d};
}

inline std::vector<PublishedRun> published_h100_runs() {
  const Workload softmax = softmax_workload(16384.0 * 262'144),
                 square = matmul_workload(8192, 8192, 8192);
  const auto moved = [&](double bandwidth) { return softmax.intensity() * bandwidth; };
  const char* quack =
      "Guo, Zadouri, Dao 2025, \"Getting memory-bound kernels to speed-of-light\": rows of 262,144 "
      "f32, 3.01 and 1.89 TB/s";
  const char* worklog =
      "Shankhdhar 2024, \"Outperforming cuBLAS on H100: a worklog\": 8192 cubed, bf16, 798 and 32 "
      "TFLOP/s";
  return {{"softmax, QuACK", softmax, moved(3.01e12), quack},
          {"softmax, torch.compile", softmax, moved(1.89e12), quack},
          {"matmul of 8192, cuBLAS", square, 798e12, worklog},
          {"matmul of 8192, no tensor cores", square, 32e12, worklog},
          {"FlashAttention-3, forward", attention_workload(16384, 128), 648e12,
           "Shah et al. 2024, \"FlashAttention-3\": heads of 128, 16,384 tokens, no mask, fp16, "
           "648 TFLOP/s"}};
}

inline RooflinePicture h100_picture() {
  RooflinePicture picture{
      roofline_of(chip_named("h100")), {}, "H100 SXM: bf16 on tensor cores, HBM3"};
  for (const PublishedRun& run : published_h100_runs())
    picture.points.push_back({run.name, run.work.intensity(), run.rate});
  return picture;
}

}  // namespace yotta
