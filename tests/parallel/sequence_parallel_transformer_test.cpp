// The whole transformer with the tokens cut over tp, against one rank: losses, every gradient, and
// the weights after three steps of AdamW with clipping. 27 tokens a batch, 9 a sequence: 2, 4 and 8
// ranks divide neither.
#include <doctest/doctest.h>

#include "parallel/tensor_parallel_runs.hpp"
#include "support/message_of.hpp"
#include "support/parts_check.hpp"
#include "support/rank_errors.hpp"
#include "yotta/comm/mesh.hpp"
#include "yotta/model/trainer.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/transformer.hpp"
#include "yotta/parallel/sequence_parallel.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {

// The vocabulary is padded.
constexpr RunText text = {3, 9, 23};
constexpr int64_t B = text.B, T = text.T;

// Forward and backward of one batch of B sequences of cut.T tokens, on 4 ranks.
std::vector<RankReport> four_ranks_once(const TransformerConfig& config, const TokenCut& cut) {
  return run_ranks(4, [&](Communicator& tp) {
    Transformer model(config);
    cut_model(model, tp, cut);
    const Microbatch batch = batch_of({B, cut.T, text.vocabulary}, 0);
    Saved saved;
    Tensor dlogits;
    vocab_parallel_loss(config.vocabulary, tp)(forward(model.stack(), batch.inputs, saved),
                                               batch.targets, 0.1, &dlogits);
    backward(model.stack(), dlogits, saved);
    CHECK(saved.bytes() == 0);
  });
}

}  // namespace

TEST_CASE(
    "both dialects, tied and untied, tp 2 to 8, gathered kept and dropped, in pieces: one rank's") {
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {true, false})
      for (const int ranks : {1, 2, 3, 4, 8}) {
        CAPTURE(std::string(name(dialect)));
        CAPTURE(tied);
        CAPTURE(ranks);
        const TransformerConfig config = config_for(text, dialect, ranks, tied);
        const RunOutcome whole = train(text, config);
        CHECK(whole.norms[0] > 0.1);              // it is clipped
        const bool keeps = tied == (ranks == 4);  // each on some
        for (const Pieces pieces : {Pieces::none, Pieces::one_way, Pieces::both_ways})
          run_ranks(ranks, [&](Communicator& tp) {
            check_outcome(train(text, config, tp, {T, keeps, pieces}, true), whole, ranks);
          });
      }
}

TEST_CASE("without the sum over tp only norms and positions are wrong, and they differ by rank") {
  const TransformerConfig config = config_for(text, Dialect::gpt2, 4, true);
  const RunOutcome whole = train(text, config);
  run_ranks(4, [&](Communicator& tp) {
    const RunOutcome part = train(text, config, tp, {T});
    for (const ParameterPtr& each : part.gradients) {
      const auto same = std::find_if(whole.gradients.begin(), whole.gradients.end(),
                                     [&](const auto& other) { return other->name == each->name; });
      Tensor expected = each->grad.clone();
      take_shard((*same)->grad, each->range, expected);
      CAPTURE(each->name);
      CHECK(compare(each->grad, expected, 1e-11).equal == !sees_own_tokens(*each));
    }
  });
}

TEST_CASE("messages: as many bytes as tensor parallelism alone, and one gather more for each g") {
  TransformerConfig config = config_for(text, Dialect::gpt2, 4, true);
  config.context = 8;  // the tokens divide
  const int64_t N = B * 8, L = config.layers;
  for (const bool keeps : {false, true}) {
    const std::vector<RankReport> reports = four_ranks_once(config, {8, keeps});
    const auto sent = [&](const char* label) {
      int64_t sum = 0;
      for (const RankReport& rank : reports) sum += rank.ledger().traffic(label).bytes_sent;
      return sum;
    };
    const int64_t one = sequence_parallel_bytes_sent_by_all(4, N, config.width, 8);
    CHECK(2 * one == tensor_parallel_bytes_sent_by_all(4, N * config.width, 8));
    CHECK(sent("sp.forward") == (4 * L + 2) * one);  // and the embedding, and the head
    CHECK(sent("sp.backward") == (4 * L + 2) * one);
    CHECK(sent("sp.again") == (keeps ? 0 : (2 * L + 1) * one));
    CHECK(sent("tp.forward") + sent("tp.backward") == 0);
  }
}

TEST_CASE("in pieces: the same bytes between two ranks, of all but the embedding one to one") {
  TransformerConfig config = config_for(text, Dialect::gpt2, 4, true);
  config.context = 8;
  const int64_t N = B * 8, L = config.layers;
  for (const Pieces pieces : {Pieces::one_way, Pieces::both_ways}) {
    const std::vector<RankReport> reports = four_ranks_once(config, {8, false, pieces});
    const int64_t one = sequence_parallel_bytes_sent_by_all(4, N, config.width, 8);
    Traffic whole, alone;
    for (const RankReport& rank : reports) {
      for (const char* label : {"sp.forward", "sp.backward", "sp.again"})
        whole += rank.ledger().traffic(label);
      alone += rank.ledger().traffic("send");
    }
    CHECK(whole.bytes_sent == 2 * one);  // the embedding has no matmul to hide behind
    CHECK(alone.bytes_sent == (4 * L + 1) * one + (4 * L + 1) * one + (2 * L + 1) * one);
    CHECK(alone.messages_sent == (10 * L + 3) * 4 * 3);
  }
}

TEST_CASE("a sequence of another length is refused, with both lengths") {
  const TransformerConfig config = config_for(text, Dialect::gpt2, 2, true);
  check_says(
      error_of<RankFailed>(
          2,
          [&](Communicator& tp) {
            Transformer model(config);
            cut_model(model, tp, {T});
            Saved saved;
            forward(model.stack(), batch_of({B, T - 1, text.vocabulary}, 0).inputs, saved);
          }),
      {"embedding: a sequence of 8 tokens", "sequence parallelism was made for sequences of 9"});
}
