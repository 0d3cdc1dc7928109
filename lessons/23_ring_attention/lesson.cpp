// Lesson 23: one sequence on several ranks. The same losses, who computes what, and what travels
// meanwhile.
#include <fstream>

#include "course/lesson/lesson.hpp"
#include "course/pictures/ring_picture.hpp"
#include "yotta/comm/run_on.hpp"
#include "yotta/machine/pictures/timeline.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/flex_ring.hpp"

using namespace yotta;

namespace {

struct Sizes {
  int ranks = 4;
  int64_t tokens = 8192;  // of the sequence, in what is only counted and timed
  int64_t waits = 0;      // 1: rings wait for each hop before they compute
};

// ---- the same losses ----

// A text that never changes, so that the numbers in the lesson do not either.
const std::string text = [] {
  std::string all;
  for (int i = 0; i < 40; ++i)
    all +=
        "Each rank holds a part of the sequence. Keys and values go round the ring, and every rank "
        "takes "
        "from each visitor what its own queries may see. ";
  return all;
}();

std::vector<double> train(Communicator& cp) {
  const TransformerConfig config = llama_config(2, 32, 64, 4, 2, 48, 256);
  Transformer model(config);
  ring_attention(model, cp);
  const std::vector<ParameterPtr> all = parameters(model.stack());
  Sgd optimizer(all);
  TrainHooks hooks;
  hooks.after_backward = [&] { reduce_gradients(all, cp, ReduceOp::sum); };
  hooks.sum_over_ranks = [&](double loss) { return sum_over(cp, loss, "loss"); };
  hooks.world = cp;
  Trainer trainer(model.stack(), optimizer, {.schedule = {0.5, 0.5, 0, 3}}, hooks);
  const Batches batches(text, config.context, 1);
  std::vector<double> losses;
  for (int64_t step = 0; step < 3; ++step) {
    const Batch batch = batches.draw(step, 0, 4);
    const auto mine =
        microbatches(context_shard(batch.inputs, cp), context_shard(batch.targets, cp), 1, 0,
                     context_positions(config.context, cp));
    losses.push_back(trainer.step(step, mine, 4 * config.context).loss);
  }
  return losses;
}

void same_losses(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("The same losses on 1 rank and on {}", sizes.ranks));
  std::vector<double> one, many;
  run_ranks(1, [&](Communicator& cp) { one = train(cp); });
  run_ranks(sizes.ranks, [&](Communicator& cp) {
    const std::vector<double> losses = train(cp);
    if (cp.rank() == 0) many = losses;
  });
  for (size_t step = 0; step < one.size(); ++step)
    lesson.say("step {}: loss {:.3f} on 1 rank, {:.3f} on {} ranks", step, one[step], many[step],
               sizes.ranks);
  lesson.numbers("loss.serial", one);
  lesson.numbers("loss.parallel", many);
}

// ---- the merge ----

void merge_by_hand(Lesson& lesson) {
  lesson.section("Two parts of one query's sum");
  const double scores[] = {1, 3, 2, 4}, values[] = {10, 20, 30, 40};
  const auto attend = [&](int begin, int end, double& L) {
    double sum = 0, o = 0;
    for (int i = begin; i < end; ++i)
      sum += std::exp(scores[i]), o += std::exp(scores[i]) * values[i];
    L = std::log(sum);
    return o / sum;
  };
  double La, Lb, L;
  const double a = attend(0, 2, La), b = attend(2, 4, Lb), whole = attend(0, 4, L);
  const MergeWeights<double> w = merge_weights(La, Lb);
  lesson.say("keys 0, 1:  o {:.3f}  log-sum-exp {:.3f}  weight {:.3f}", a, La, w.first);
  lesson.say("keys 2, 3:  o {:.3f}  log-sum-exp {:.3f}  weight {:.3f}", b, Lb, w.second);
  lesson.say("merged:     o {:.3f}  log-sum-exp {:.3f}", w.first * a + w.second * b, w.log_sum_exp);
  lesson.say("all four:   o {:.3f}  log-sum-exp {:.3f}", whole, L);
  lesson.say("averaged:   o {:.3f}, which is wrong", (a + b) / 2);
}

// ---- who computes what ----

// ring_attention as it would be with hop.arrive() before the blocks: the same numbers, and nothing
// overlaps.
void ring_that_waits(const Tensor& q, Tensor k, Tensor v, const Communicator& cp,
                     ChunkOrder order) {
  const int64_t chunks = chunks_each(cp.size());
  const Ring here{cp, cp.size(), cp.rank(), q.dim(1) / chunks, order};
  const int left = wrap(cp.rank() - 1, cp.size()), right = wrap(cp.rank() + 1, cp.size());
  std::vector<FlashAttention> sums(static_cast<size_t>(chunks));
  for (int step = 0; step < cp.size(); ++step) {
    Tensor next_k = Tensor::empty(k.shape(), k.dtype());
    Tensor next_v = Tensor::empty(v.shape(), v.dtype());
    if (step + 1 < cp.size()) {
      cp.send_recv(k, right, next_k, left);
      cp.send_recv(v, right, next_v, left);
    }
    for (int64_t i = 0; i < chunks; ++i)
      for (int64_t j = 0; j < chunks; ++j) {
        const AttentionBlock block = here.block(i, here.source(step), j);
        if (block.ahead >= 0) merge(sums[static_cast<size_t>(i)], attention_block(q, k, v, block));
      }
    k = next_k, v = next_v;
  }
}

// Ring attention on shapes without data: one sequence, 4 heads and 1 key head of 128 numbers.
Timed ring(const Cluster& machine, int ranks, int64_t tokens, ChunkOrder order,
           bool waits = false) {
  return run_on(machine, ranks, [&](Communicator& cp) {
    const DeviceScope meta(Device::meta);
    const Tensor q = Tensor::empty({1, tokens / ranks, 4, 128}, DType::bf16);
    const Tensor k = Tensor::empty({1, tokens / ranks, 1, 128}, DType::bf16);
    const Tensor v = Tensor::empty({1, tokens / ranks, 1, 128}, DType::bf16);
    context().ledger.reset();
    if (waits)
      ring_that_waits(q, k, v, cp, order);
    else
      ring_attention(q, k, v, cp, order);
  });
}

void who_computes(Lesson& lesson, const Sizes& sizes) {
  lesson.section("Who computes how much, counted");
  for (const ChunkOrder order : {ChunkOrder::zigzag, ChunkOrder::contiguous}) {
    const bool zigzag = order == ChunkOrder::zigzag;
    const Timed run = ring(ideal(sizes.ranks), sizes.ranks, sizes.tokens, order);
    double all = 0;
    const auto flops = [&](int rank) {
      return run.reports[static_cast<size_t>(rank)].ledger().op("flash_attention").flops;
    };
    for (int rank = 0; rank < sizes.ranks; ++rank) all += flops(rank);
    for (int rank = 0; rank < sizes.ranks; ++rank) {
      std::string chunks;
      for (int64_t i = 0; i < chunks_each(sizes.ranks); ++i)
        chunks += fmt::format("{}{}", i > 0 ? ", " : "", chunk_of(sizes.ranks, rank, i, order));
      lesson.say("{:<11} rank {}: chunks {:<7} {:5.1f}% of the FLOPs, {:.2f} times rank 0's",
                 zigzag ? "zig-zag" : "contiguous", rank, chunks, 100 * flops(rank) / all,
                 flops(rank) / flops(0));
    }
  }
}

// ---- what travels meanwhile ----

void timeline(Lesson& lesson, const Sizes& sizes) {
  lesson.section("The ring in time, on a machine where a hop takes two thirds of a step");
  const int64_t each = sizes.tokens / sizes.ranks;
  const double rate = 1e12, bandwidth = 1.5 * rate * 2 * 1 / static_cast<double>(4 * each);
  const Cluster machine = ideal(sizes.ranks, rate, bandwidth);
  const bool waits = sizes.waits != 0;
  const Timed run = ring(machine, sizes.ranks, sizes.tokens, ChunkOrder::zigzag, waits);
  lesson.show(timeline_text(make_timeline(run.trace, 2), 64, false));
  const Timed contiguous = ring(machine, sizes.ranks, sizes.tokens, ChunkOrder::contiguous, waits);
  lesson.say("zig-zag {:.3g} s, contiguous {:.3g} s: {:.2f} times as long; (2cp-1)/cp = {:.2f}",
             run.seconds(), contiguous.seconds(), contiguous.seconds() / run.seconds(),
             (2.0 * sizes.ranks - 1) / sizes.ranks);
  lesson.number("zigzag.seconds", run.seconds());
  lesson.number("contiguous.seconds", contiguous.seconds());
}

// ---- who breaks first ----

struct Network {
  const char* name;
  Chip chip;
  double bandwidth;  // of a hop, bytes/s
};
std::vector<Network> networks() {
  const Chip h100 = chip_named("h100"), v5p = chip_named("v5p");
  const double card = 1 / switched(h100, 16).levels[1].beta;
  Chip faster = h100;
  faster.bf16 *= 8, faster.bandwidth *= 8, faster.launch_overhead /= 8;
  return {{"H100, a card", h100, card},
          {"H100, NVLink", h100, h100.link},
          {"v5p, a link", v5p, v5p.link},
          {"8 x H100, a card", faster, card}};
}

void who_breaks_first(Lesson& lesson, const Sizes& sizes) {
  lesson.section(
      "Who breaks first: from how many tokens on a rank is a hop hidden? 4 heads, 1 key head");
  const std::vector<Network> all = networks();
  lesson.say("{:<16}  {:>8}  {:>19}  {:>13}", "chip, link", "W", "P / W", "hidden from");
  for (const Network& each : all) {
    const double tokens = ring_hidden_tokens(each.chip.bf16, each.bandwidth, 2, 4, 1);
    lesson.say("{:<16}  {:>3.0f} GB/s  {:>6.0f} FLOPs per byte  {:>6.0f} tokens", each.name,
               1e-9 * each.bandwidth, each.chip.bf16 / each.bandwidth, tokens);
    lesson.number(fmt::format("hidden.{}", each.name), tokens);
  }
  std::string header = fmt::format("{:>6}", "tokens");
  for (const Network& each : all) header += fmt::format("  {:>25}", each.name);
  lesson.section(fmt::format("Attention forward on {} ranks: time, MFU, waiting", sizes.ranks));
  lesson.say("{}", header);
  std::string columns = fmt::format("{:>6}", "a rank");
  for (size_t i = 0; i < all.size(); ++i)
    columns += fmt::format("  {:>10}{:>7}{:>8}", "time", "MFU", "waits");
  lesson.say("{}", columns);
  for (const int64_t tokens : {1024, 4096, 8192, 16384, 32768}) {
    std::string line = fmt::format("{:>6}", tokens);
    for (const Network& each : all) {
      const Cluster machine{each.name, each.chip, {{"all", 1024, 5e-6, 1 / each.bandwidth}}, {}};
      const Timed run =
          ring(machine, sizes.ranks, tokens * sizes.ranks, ChunkOrder::zigzag, sizes.waits != 0);
      const double flops = run.reports[0].ledger().op("flash_attention").flops;
      line += fmt::format("  {:>7.3f} ms{:>6.1f}%{:>7.1f}%", 1e3 * run.seconds(),
                          100 * flops / run.seconds() / each.chip.bf16, 100 * run.idle_share(0));
    }
    lesson.say("{}", line);
  }
}

void memory(Lesson& lesson, const Sizes& sizes) {
  lesson.section(fmt::format("Memory of one attention on {} tokens, a rank", sizes.tokens));
  for (const int ranks : {1, 2, 4, 8, 16}) {
    if (sizes.tokens % (2 * ranks) != 0) continue;
    const Timed run = ring(ideal(ranks), ranks, sizes.tokens, ChunkOrder::zigzag);
    const auto peak = static_cast<double>(run.reports[0].ledger().memory()->peak());
    lesson.say("on {:>2}: {:>9} at the peak, q, k, v and what travels included", ranks,
               console::bytes(peak));
    lesson.number(fmt::format("peak.{}", ranks), peak);
  }
}

// The tiles of each rank if four ranks cut a sequence of four documents, in three ways.
void documents(Lesson& lesson) {
  const int T = 4096, ranks = 4;
  const MaskOptions mask{.document = true};
  std::vector<int32_t> document;
  for (int32_t which = 0; const int length : {1500, 300, 1900, 396})
    document.insert(document.end(), length, which++);
  const Packing whole = packing_of(document, T);
  lesson.section("Four documents in 4096 tokens: non-empty tiles of 64 x 64 of each rank");
  lesson.say("{:<12}{:>8}{:>8}{:>8}{:>8}{:>14}", "", "rank 0", "rank 1", "rank 2", "rank 3",
             "most to mean");
  const auto row = [&](const char* name, const auto& places_of) {
    std::vector<int64_t> tiles;
    for (int rank = 0; rank < ranks; ++rank)
      tiles.push_back(count_tiles(
          TextTiles(mask, document, T, places_of(rank), whole.places, Where::current()).tiles()));
    const auto most = static_cast<double>(*std::max_element(tiles.begin(), tiles.end()));
    const double all = std::accumulate(tiles.begin(), tiles.end(), 0.0);
    lesson.say("{:<12}{:>8}{:>8}{:>8}{:>8}{:>14.2f}", name, tiles[0], tiles[1], tiles[2], tiles[3],
               most * ranks / all);
  };
  const auto chunks = [&](ChunkOrder order) {
    return [=](int rank) {
      const Positions at = context_positions(T, ranks, rank, order);
      std::vector<int32_t> places;
      for (int64_t t = 0; t < T / ranks; ++t)
        places.push_back(static_cast<int32_t>(at.of(t, T / ranks)));
      return places;
    };
  };
  row("contiguous", chunks(ChunkOrder::contiguous));
  row("zig-zag", chunks(ChunkOrder::zigzag));
  const ContextDeal deal = deal_context(mask, document, T, ranks);
  row("dealt", [&](int rank) { return deal.places[rank]; });
}

void draw(Lesson& lesson) {
  std::ofstream("ring_attention.svg") << ring_attention_svg();
  lesson.say("drawn in ring_attention.svg");
}

void forgotten_positions(Lesson& lesson) {
  lesson.section("Mistake: the microbatch does not say which positions it has");
  run_ranks(2, [&](Communicator& cp) {
    Transformer model(llama_config(1, 32, 64, 4, 2, 48, 256));
    ring_attention(model, cp);
    Saved saved;
    try {
      forward(model.stack(), Tensor::zeros({1, 24}, DType::i32), saved);
    } catch (const std::exception& error) {
      if (cp.rank() == 0) lesson.say("{}", error.what());
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  Sizes sizes;
  int64_t ranks = sizes.ranks, drawn = 0;
  return run_lesson(
      argc, argv,
      {"23", "Ring attention", "one sequence on several ranks: losses, work, time and memory"},
      [&](Lesson& lesson) {
        sizes.ranks = static_cast<int>(ranks);
        expect_chunks(sizes.tokens, sizes.ranks, Where::current());
        if (drawn != 0) draw(lesson);
        same_losses(lesson, sizes);
        merge_by_hand(lesson);
        who_computes(lesson, sizes);
        documents(lesson);
        timeline(lesson, sizes);
        who_breaks_first(lesson, sizes);
        memory(lesson, sizes);
        forgotten_positions(lesson);
        lesson.say("\nNext: write it yourself, ./yotta check 23");
      },
      {{"ranks", "ranks that share the sequence", &ranks, 1, 8},
       {"tokens", "of the sequence, where it is only counted and timed", &sizes.tokens, 16,
        1 << 22},
       {"waits", "1: timed rings wait for each hop before they compute", &sizes.waits, 0, 1},
       {"draw", "1: write ring_attention.svg into this folder", &drawn, 0, 1}});
}
