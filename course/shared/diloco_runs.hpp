// Training a small transformer on cities in several ways: the loss of each step, and what had been sent and how much
// time had passed by then. For lesson 31 and for bench/diloco_curves.cpp.
#pragma once

#include <string>
#include <vector>

#include "yotta/model/config.hpp"
#include "yotta/parallel/diloco.hpp"

namespace yotta {

// How the workers agree.
struct DilocoWay {
  std::string name;
  enum Kind { ddp, diloco, gossip, async } kind = diloco;
  DilocoOptions options = {};  // gossip, async: its H
};

struct DilocoCurve {
  std::string name;
  std::vector<double> loss;  // mean over the workers, before each step
  // Sent by rank 0, and passed on the machine, until each step has ended; and then, the last number, until all workers
  // have the same weights.
  std::vector<double> bytes, seconds;
};

struct DilocoRun {
  TransformerConfig model = gpt2_config(2, 64, 2, 64, 256);
  int workers = 4;
  int64_t batch = 8, steps = 20;  // sequences of all workers together
  double learning_rate = 1e-3;
};

// DDP; DiLoCo with H = 10 and 50; streaming with 4 bits; gossip; asynchronous, with a server in a city of its own.
std::vector<DilocoWay> diloco_ways();

// Each worker is a chip of a city of its own (machine/cluster.hpp).
DilocoCurve run_diloco(const DilocoWay& way, const DilocoRun& run, const std::string& text);

}  // namespace yotta
