// Lesson 24: the same attention on sequence shards by exchanges of q, k, v and o, and what it sends
// beside the ring.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/ulysses_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/core/random.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ulysses.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int64_t heads = 32, kv_heads = 8;
};
constexpr int64_t T = 8192, d = 128;

Tensor numbers(Shape shape, const char* name) {
  Tensor x = Tensor::empty(std::move(shape), DType::f64);
  const Random random(24, name);
  for (uint64_t i = 0; double& value : x.span<double>()) value = random.normal(i++);
  return x;
}

void same_outputs(Lesson& lesson) {
  lesson.section("48 tokens, 8 heads, 4 ranks: serial, ring, Ulysses");
  const Tensor q = numbers({1, 48, 8, 4}, "q"), k = numbers({1, 48, 4, 4}, "k");
  const Tensor serial = flash_attention(q, k, k).o;
  run_ranks(4, [&](Communicator& cp) {
    const Tensor mine_q = context_shard(q, cp), mine_k = context_shard(k, cp);
    UlyssesSaved saved;
    const Tensor a = context_gather(ring_attention(mine_q, mine_k, mine_k, cp).o, cp);
    const Tensor b = context_gather(ulysses_attention(mine_q, mine_k, mine_k, cp, saved), cp);
    if (cp.rank() != 0) return;
    lesson.say("{:<17} {:>8}  {:>8}  {:>8}", "", "one rank", "ring", "Ulysses");
    for (const int64_t token : {0, 20, 47})
      lesson.say("token {:>2}, head 5: {:8.5f}  {:8.5f}  {:8.5f}", token,
                 serial.item({0, token, 5, 0}), a.item({0, token, 5, 0}), b.item({0, token, 5, 0}));
    lesson.say("on rank 0 attention ran on heads 0 and 1 of {} tokens", saved.q.dim(1));
  });
}

// Attention forward on shapes without data, by the ring or by Ulysses.
Timed attention(const Cluster& machine, int ranks, int64_t tokens, const Sizes& sizes, bool ring) {
  return run_on(machine, ranks, [&](Communicator& cp) {
    const DeviceScope meta(Device::meta);
    const Tensor q = Tensor::empty({1, tokens / ranks, sizes.heads, d}, DType::bf16);
    const Tensor k = Tensor::empty({1, tokens / ranks, sizes.kv_heads, d}, DType::bf16);
    UlyssesSaved saved;
    if (ring)
      ring_attention(q, k, k, cp);
    else
      ulysses_attention(q, k, k, cp, saved);
  });
}

// Bytes that rank 0 sends, counted.
int64_t sent(int ranks, const Sizes& sizes, bool ring) {
  const Timed run = attention(ideal(ranks), ranks, T, sizes, ring);
  return run.reports[0].ledger().total_traffic().bytes_sent;
}

void bytes(Lesson& lesson, const Sizes& sizes) {
  lesson.section(
      fmt::format("Bytes a rank sends forward, bf16: {} tokens, {} heads, {} key heads of {}", T,
                  sizes.heads, sizes.kv_heads, d));
  for (const int ranks : {2, 4, 8, 16}) {
    const bool divides = sizes.kv_heads % ranks == 0 && sizes.heads % ranks == 0;
    lesson.say("{:>2} ranks:  ring {:>10}  Ulysses {:>10}", ranks,
               console::bytes(static_cast<double>(sent(ranks, sizes, true))),
               divides ? console::bytes(static_cast<double>(sent(ranks, sizes, false)))
                       : "cannot: too few key heads");
  }
}

// Which is faster? On H100s that reach each other over NVLink, or each over its network card.
void time_and_mfu(Lesson& lesson, const Sizes& sizes) {
  const Chip& chip = chip_named("h100");
  const double card = 1 / switched(chip, 16).levels[1].beta;
  lesson.section("Attention forward on 8 H100 in bf16: time and MFU");
  lesson.say("{:<8} {:>8} {:>21} {:>21}", "tokens", "GB/s", "ring", "Ulysses");
  for (const int64_t tokens : {8192, 32768, 131072})
    for (const double bandwidth : {card, chip.link}) {
      const double latency = bandwidth == card ? 5e-6 : 1e-6;
      const Cluster machine{"h100", chip, {{"all", 8, latency, 1 / bandwidth}}, {}};
      std::string line = fmt::format("{:<8} {:>8.0f}", tokens, 1e-9 * bandwidth);
      for (const bool ring : {true, false}) {
        if (!ring && sizes.kv_heads % 8 != 0) continue;
        const Timed run = attention(machine, 8, tokens, sizes, ring);
        const double flops = run.reports[0].ledger().op("flash_attention").flops;
        line += fmt::format(" {:>11.3f} ms {:>5.1f}%", 1e3 * run.seconds(),
                            100 * flops / run.seconds() / chip.bf16);
      }
      lesson.say("{}", line);
    }
}

void draw(Lesson& lesson) {
  std::ofstream("ulysses.svg") << ulysses_svg();
  lesson.say("drawn in ulysses.svg");
}

void too_few_heads(Lesson& lesson) {
  lesson.section("Mistake: more ranks than key heads");
  run_ranks(4, [&](Communicator& cp) {
    try {
      to_heads(Tensor::zeros({1, 12, 2, 4}), cp);
    } catch (const std::exception& error) {
      if (cp.rank() == 0) lesson.say("{}", error.what());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t drawn = 0;
  return run_lesson(
      argc, argv, {"24", "Ulysses", "attention on sequence shards by exchanging tokens for heads"},
      [&](Lesson& lesson) {
        if (sizes.heads % sizes.kv_heads != 0)
          fail(Where::current(), "{} heads cannot share {} key heads evenly", sizes.heads,
               sizes.kv_heads);
        if (drawn != 0) draw(lesson);
        same_outputs(lesson);
        bytes(lesson, sizes);
        time_and_mfu(lesson, sizes);
        too_few_heads(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 24");
      },
      {{"heads", "query heads", &sizes.heads, 1, 1024},
       {"kv-heads", "key and value heads", &sizes.kv_heads, 1, 1024},
       {"draw", "1: write ulysses.svg into this folder", &drawn, 0, 1}});
}
