// The bodies of model/layout_rules.hpp.
#pragma once

#include "yotta/model/layout_rules.hpp"

#include <fmt/format.h>

#include "yotta/parallel/tensor_parallel_sizes.hpp"

namespace yotta {

namespace detail {

// A model, a batch and how they are to be spread. Each rule is a question, and an error for a "no".
struct Setup {
  TransformerConfig config;
  MeshShape shape;
  int64_t batch;
  NdOptions options;

  bool divides() const {
    return config.heads % shape.tp == 0 && config.kv_heads % shape.tp == 0 &&
           config.feed_forward % shape.tp == 0 && config.mixture.dense_width % shape.tp == 0 &&
           config.vocabulary >= shape.tp;
  }
  bool has_chunks() const { return shape.cp == 1 || sequence() % (int64_t{2} * shape.cp) == 0; }
  bool has_tokens() const { return !options.shares_tokens() || sequence() / shape.cp >= shape.tp; }
  bool has_attention() const { return shape.cp == 1 || config.attention != AttentionKind::plain; }
  bool has_heads() const {
    return options.context != ContextParallel::ulysses ||
           (config.heads / shape.tp % shape.cp == 0 && config.kv_heads / shape.tp % shape.cp == 0);
  }
  bool has_attention_to_drop() const {
    return options.checkpoint.what != Recompute::attention ||
           config.attention == AttentionKind::plain;
  }
  bool has_stages() const {
    return why_no_pipeline().empty() && (stages() == 1 || stages() <= most_stages());
  }
  bool has_zero() const {
    const int stage = options.zero.stage;
    return stage == 0 ||
           ((stage == 1 || stage == 2) && shape.dp_shard == 1 && !options.naive_gradients);
  }
  bool has_experts() const { return shape.ep == 1 || shape.ep <= config.mixture.experts; }
  bool has_equal_experts() const {
    return shape.dp_shard == 1 || config.mixture.experts % shape.ep == 0;
  }
  bool has_token_order() const {
    return config.mixture.experts == 0 || config.mixture.capacity == 0 || shape.cp == 1;
  }
  // A whole batch's loads are known after all forward passes.
  bool has_loads() const {
    const bool pipelined = shape.pp > 1 || plan().chunks_of_rank() > 1;
    return !options.balance_over_batch || options.microbatches == 1 || !pipelined ||
           plan().kind == PipelineKind::gpipe;
  }
  bool has_sequences() const { return batch / data_ranks() >= least_sequences(); }
  // Ranks of a mixture communicate in each of their microbatches.
  bool has_equal_microbatches() const {
    return config.mixture.experts == 0 || batch % data_ranks() == 0 ||
           batch / data_ranks() >= options.microbatches;
  }
  bool has_loss() const {
    return options.loss_tokens == 0 || can_chunk_loss(shape, options.pieces);
  }
  bool works() const {
    return divides() && has_chunks() && has_tokens() && has_attention() && has_heads() &&
           has_attention_to_drop() && has_stages() && has_zero() && has_experts() &&
           has_equal_experts() && has_token_order() && has_loads() && has_sequences() &&
           has_equal_microbatches() && has_loss();
  }

  int64_t sequence() const { return options.tokens(config); }
  PipelinePlan plan() const { return options.pipeline(); }
  int64_t stages() const { return plan().stages(shape.pp); }
  int64_t most_stages() const { return config.layers + (options.ends_count ? 2 : 0); }
  std::string why_no_pipeline() const { return why_not(plan(), shape.pp, options.microbatches); }
  int64_t data_ranks() const { return shape.data_ranks(); }
  // Sequences that each data-parallel rank needs.
  int64_t least_sequences() const {
    const bool reduces_each =
        shape.dp_shard > 1 || (options.zero.stage == 2 && shape.dp_replicate * shape.ep > 1);
    return reduces_each || plan().counts_microbatches() ? options.microbatches : 1;
  }

  // The same with something changed.
  template <class Change>
  Setup with(Change change) const {
    Setup other = *this;
    change(other);
    return other;
  }
  template <class Change>
  bool works_with(Change change) const {
    return with(change).works();
  }
  // ". The nearest that works: cp 2", or one that keeps this rule, if others are broken too.
  template <class Keeps>
  std::string nearest_cp(Keeps keeps) const;
  std::string nearest_stages() const;

  void expect_divides(Where where) const;
  void expect_context(Where where) const;
  void expect_attention(Where where) const;
  void expect_stages(Where where) const;
  void expect_zero(Where where) const;
  void expect_experts(Where where) const;
  void expect_loads(Where where) const;
  void expect_sequences(Where where) const;
  void expect_loss(Where where) const;
};

inline void Setup::expect_divides(Where where) const {
  yotta::expect_divides(config, shape.tp, where,
                        [this](int tp) { return works_with([tp](Setup& s) { s.shape.tp = tp; }); });
  if (has_tokens()) return;
  const auto whole = [](Setup& s) { s.options.sequence_parallel = false, s.options.pieces = {}; };
  fail(where, "sequence parallelism cuts at least {} tokens among {} ranks of tp, not {}{}",
       shape.tp, shape.tp, sequence() / shape.cp, works_with(whole) ? ". Leave it out" : "");
}

template <class Keeps>
std::string Setup::nearest_cp(Keeps keeps) const {
  const auto with_cp = [this](int cp) { return with([cp](Setup& s) { s.shape.cp = cp; }); };
  for (int cp = shape.cp; cp >= 1; --cp)
    if (with_cp(cp).works()) return fmt::format(". The nearest that works: cp {}", cp);
  for (int cp = shape.cp; cp >= 1; --cp)
    if (keeps(with_cp(cp))) return fmt::format(". The nearest that keeps this rule: cp {}", cp);
  return "";
}

inline void Setup::expect_context(Where where) const {
  if (!has_chunks())
    fail(where,
         "context parallelism cuts a sequence into 2 chunks for each of {} ranks, but {} tokens "
         "are not divisible by {}{}",
         shape.cp, sequence(), int64_t{2} * shape.cp,
         nearest_cp([](const Setup& s) { return s.has_chunks(); }));
  if (!has_attention())
    fail(where, "context parallelism (cp {}) needs blockwise attention; plain works with cp 1",
         shape.cp);
  if (has_heads()) return;
  const int64_t heads = config.heads / shape.tp, kv_heads = config.kv_heads / shape.tp;
  const std::string nearest =
      nearest_cp([](const Setup& s) { return s.has_heads() && s.has_chunks(); });
  const bool ring = works_with([](Setup& s) { s.options.context = ContextParallel::ring; });
  fail(where,
       "Ulysses gives each of {} ranks of cp whole heads, but {} query and {} key/value heads (on "
       "a rank of tp) are not both divisible by {}{}{}",
       shape.cp, heads, kv_heads, shape.cp, nearest, ring ? ", or ring attention" : "");
}

inline void Setup::expect_attention(Where where) const {
  if (has_attention_to_drop()) return;
  fail(where,
       "recomputing attention drops its T x T probabilities, which {} attention never keeps: "
       "nothing would be saved{}",
       name(config.attention),
       nearest_of({{"plain attention", config.mask == MaskOptions{} && works_with([](Setup& s) {
                                         s.config.attention = AttentionKind::plain;
                                       })},
                   {"recomputing all",
                    works_with([](Setup& s) { s.options.checkpoint.what = Recompute::all; })}}));
}

// As many stages as there are blocks for: with fewer chunks, or on fewer ranks.
inline std::string Setup::nearest_stages() const {
  const PipelinePlan plan = this->plan();
  const int64_t most = most_stages();
  const int64_t least = plan.folds() ? plan.stages(1) : 1;  // of a rank
  const bool fewer_chunks = !plan.folds() && most / shape.pp > 0;
  const int64_t pp = fewer_chunks ? shape.pp : std::max<int64_t>(1, most / least);
  const int64_t chunks = fewer_chunks ? most / shape.pp : plan.folds() ? plan.chunks : 1;
  const bool tried = works_with([&](Setup& s) {
    s.shape.pp = static_cast<int>(pp), s.options.chunks = static_cast<int>(chunks);
  });
  if (least > most) return "1F1B has one stage per rank";
  const std::string of_rank = fmt::format("{} chunk{} per rank", chunks, chunks > 1 ? "s" : "");
  const std::string words = pp == shape.pp ? of_rank
                            : plan.folds() || plan.chunks == 1
                                ? fmt::format("pp {}", pp)
                                : fmt::format("pp {}, {}", pp, of_rank);
  return fmt::format("The nearest that {}: {}", tried ? "works" : "keeps this rule", words);
}

inline void Setup::expect_stages(Where where) const {
  const auto by = [this](PipelineKind kind, int chunks) {
    return works_with([&](Setup& s) { s.options.schedule = kind, s.options.chunks = chunks; });
  };
  const bool chunks = options.chunks > 1, folds = plan().folds();
  const int64_t least = int64_t{2} * shape.pp;  // microbatches of DualPipe
  if (const std::string why = why_no_pipeline(); !why.empty())
    fail(
        where, "{}{}", why,
        nearest_of({{folds ? "2 chunks" : "1 chunk", chunks && by(options.schedule, folds ? 2 : 1)},
                    {"interleaved 1F1B", chunks && by(PipelineKind::interleaved, options.chunks)},
                    {fmt::format("{} microbatches", least),
                     works_with([&](Setup& s) { s.options.microbatches = least; })},
                    {"1F1B", !chunks && by(PipelineKind::one_f_one_b, 1)}}));
  if (!has_stages())
    fail(where,
         "a pipeline of pp {} with {} stages per rank needs a block for each of {} stages, but the "
         "model has {} blocks. {}",
         shape.pp, plan().chunks_of_rank(), stages(), config.layers, nearest_stages());
}

inline void Setup::expect_zero(Where where) const {
  const int stage = options.zero.stage;
  if (has_zero()) return;
  if (stage != 1 && stage != 2)
    fail(where, "ZeRO stage {}: there are 1 and 2; stage 3 is FSDP, the axis fsdp", stage);
  if (shape.dp_shard > 1)
    fail(where,
         "FSDP over fsdp {} has already cut all that ZeRO-{} would cut, and the weights too{}",
         shape.dp_shard, stage,
         nearest_of({{"fsdp without ZeRO", works_with([](Setup& s) { s.options.zero.stage = 0; })},
                     {fmt::format("dp {} with it", shape.dp_shard * shape.dp_replicate),
                      works_with([](Setup& s) {
                        s.shape.dp_replicate *= s.shape.dp_shard;
                        s.shape.dp_shard = 1;
                      })}}));
  fail(where,
       "ZeRO-{} sums gradients in buckets and leaves each rank its part; one all_reduce per "
       "parameter is DDP's naive way{}",
       stage, nearest_of({{"gradients in buckets", works_with([](Setup& s) {
                             s.options.naive_gradients = false;
                           })}}));
}

inline void Setup::expect_experts(Where where) const {
  const int64_t experts = config.mixture.experts;
  const auto as_dp = [](Setup& s) { s.shape.dp_replicate *= s.shape.ep, s.shape.ep = 1; };
  int fewer = shape.ep;  // the nearest that divides the experts
  while (experts > 0 && experts % fewer != 0) --fewer;
  const std::string nearest =
      nearest_of({{fmt::format("ep {}", fewer),
                   experts > 0 && works_with([=](Setup& s) { s.shape.ep = fewer; })},
                  {fmt::format("dp {}", shape.ep * shape.dp_replicate), works_with(as_dp)}});
  if (!has_experts())
    fail(where, "ep shares out the experts of a mixture among {} ranks, but the model has {}{}",
         shape.ep, experts == 0 ? "none" : fmt::format("only {}", experts), nearest);
  if (!has_equal_experts())
    fail(where,
         "FSDP cuts a unit alike on all ranks of ep, which must have as many experts each: {} "
         "cannot be divided by ep {}{}",
         experts, shape.ep, nearest);
  if (!has_token_order())
    fail(
        where,
        "a capacity drops an expert's last tokens, but with cp {} a rank holds early and late "
        "ones{}",
        shape.cp,
        nearest_of({{"cp 1", works_with([](Setup& s) { s.shape.cp = 1; })},
                    {"no capacity", works_with([](Setup& s) { s.config.mixture.capacity = 0; })}}));
}

inline void Setup::expect_loads(Where where) const {
  if (has_loads()) return;
  fail(where,
       "the balance loss of the whole batch needs the loads of its {} microbatches before the "
       "first backward pass, and {} begins earlier{}",
       options.microbatches, name(plan().kind),
       nearest_of({{"GPipe", works_with([](Setup& s) {
                      s.options.schedule = PipelineKind::gpipe, s.options.chunks = 1;
                    })},
                   {"1 microbatch", works_with([](Setup& s) { s.options.microbatches = 1; })},
                   {"a balance loss of each microbatch",
                    works_with([](Setup& s) { s.options.balance_over_batch = false; })}}));
}

inline void Setup::expect_sequences(Where where) const {
  const int64_t least = least_sequences(), ranks = data_ranks();
  if (!has_sequences())
    fail(where,
         "a batch of {} sequences does not give each of {} data-parallel ranks {}; the nearest "
         "batch is {}",
         batch, ranks, least == 1 ? "one" : fmt::format("its {} microbatches", least),
         ranks * least);
  if (!has_equal_microbatches())
    fail(
        where,
        "ranks of a mixture of experts communicate in each microbatch, and a batch of {} sequences "
        "gives some of {} data-parallel ranks {} microbatches, others {}; the nearest batch is {}",
        batch, ranks, batch / ranks + 1, batch / ranks, (batch / ranks + 1) * ranks);
}

inline void Setup::expect_loss(Where where) const {
  if (has_loss()) return;
  const std::string nearest =
      nearest_of({{"the loss of all tokens at once",
                   works_with([](Setup& s) { s.options.loss_tokens = 0; })}});
  if (shape.dp_shard > 1)
    fail(where,
         "the loss of {} tokens at a time multiplies by the output matrix after the head's forward "
         "pass, when fsdp {} has dropped it{}",
         options.loss_tokens, shape.dp_shard, nearest);
  fail(where,
       "the loss of {} tokens at a time multiplies by the output matrix itself, and Async-TP "
       "multiplies by it while pieces of x arrive{}",
       options.loss_tokens, nearest);
}

}  // namespace detail

YOTTA_INLINE bool layout_works(const TransformerConfig& config, const MeshShape& shape,
                               int64_t batch, const NdOptions& options) {
  return detail::Setup{config, shape, batch, options}.works();
}

YOTTA_INLINE void expect_layout(const TransformerConfig& config, const MeshShape& shape,
                                int64_t batch, const NdOptions& options, Where where) {
  config.check(where);
  check_options(options, where);
  const detail::Setup spread{config, shape, batch, options};
  spread.expect_divides(where);
  spread.expect_context(where);
  spread.expect_attention(where);
  spread.expect_stages(where);
  spread.expect_zero(where);
  spread.expect_experts(where);
  spread.expect_loads(where);
  spread.expect_sequences(where);
  spread.expect_loss(where);
}

}  // namespace yotta
