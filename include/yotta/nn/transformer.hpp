// The transformer: a stack of layers, from token ids to a logit for every token that may come next.
//
//     ids (B, T) ─> embedding ─> x (B, T, C) ─> layers.0 ─> ... ─> layers.L-1 ─> head ─> (B, T, V)
//
//     a block    x ──┬─────────────────────> + ──┬───────────────> + ──> y          (B, T, C)
//                    └─> norm1 ─> attention ─┘   └─> norm2 ─> mlp ─┘
//
//     attention  x ─┬─> q ─> (B, T, H, d) ─> rope ─┐
//                   ├─> k ─> (B, T, K, d) ─> rope ─┼─> core ─> (B, T, H d) ─> o ─> dropout
//                   └─> v ─> (B, T, K, d) ─────────┘
//
//     mlp        x ──> up ──> h ──> gelu ──> down ──> dropout               GPT-2, 2 C F weights
//                x ─┬> gate ─> silu ─┐
//                   └> up ───> h ────*──> down ──> dropout                  Llama, 3 C F weights
//
// Attention is where a token looks at itself and those before it; all else works on each token
// alone. Both halves of a block add to the residual stream x, which itself is never normalised
// (pre-norm): that is why deep stacks train. Backward, a sum hands its dy to both arms.
//
// A Layer has three passes (layer.hpp), F, I and W in the sketches below:
//     F  forward(x, saved) -> y             keeps in saved what I and W read
//     I  backward_input(dy, saved) -> dx    takes most of it, keeps dy for W
//     W  backward_weight(saved)             takes x and dy, adds to the gradients
// each once, in this order; I goes from the last layer to the first. saved.get reads, saved.take
// reads and forgets. A Composite is a layer of parts(): run(part, x, saved) and
// run_back(part, dy, saved) are F and I of a part, with its own child of saved; W and the list of
// parameters go through parts().
//
// Cost:  FLOPs                          forward     backward
//     a matrix weight, per token        2           4
//     the core, per head and sequence   2 T^2 d     5 T^2 d     the masked half is not computed
// Kept for the backward pass, numbers per token of a GPT-2 block: x, norm1's y, q, k, v, o, h and
// norm2's y (8 C), mlp's h and down's input (2 F): 16 C in all; with PlainCore H T more. In a bf16
// model the stream is bf16, too.
//
// Contract: a slice, entries [first, last) of the stack, is a model of its own. Its initial values
// are those it has in the whole stack, since they depend on the seed and the parameter's name
// alone. A tied table is one parameter with two uses where embedding and head are in one slice. A
// slice with the head alone has a copy that starts equal: the caller adds up the gradients of both
// copies before each update (lesson 18), or they part.
//
//     Transformer model(gpt2_config(6, 384, 6, 256, 128));  // L, C, H, T at most, V
//     Saved saved(position);                                // a BatchPosition
//     Tensor logits = forward(model.stack(), ids, saved);   // (B, T, V)
//     backward(model.stack(), dlogits, saved);              // I, then W, the last layer first
//
// Nothing here talks to other ranks. Some parts can be a part of a whole: a range of the table's
// rows, of the heads. Later lessons cut them, and replace parts, which are public pointers.
// Letters: B batch, T sequence, C width, H heads, K key/value heads, d numbers per head, F
// feed-forward width, V vocabulary, L layers.
// References: Vaswani et al. 2017; Radford et al. 2019 (GPT-2); Touvron et al. 2023 (Llama).
#pragma once

#include <cmath>

#include "yotta/nn/activations.hpp"
#include "yotta/nn/attention_core.hpp"
#include "yotta/nn/dropout_layer.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/embedding.hpp"
#include "yotta/nn/flex_core.hpp"
#include "yotta/nn/latent_attention.hpp"
#include "yotta/nn/norm_layer.hpp"
#include "yotta/nn/readers.hpp"
#include "yotta/nn/rope.hpp"
#include "yotta/nn/transformer_config.hpp"

namespace yotta {

// ---- attention ---------------------------------------------------------------------------------
// The formula as it is written, with dropout on the probabilities. Keeps q, k, v, all probabilities
// (B, H, T, T), and with dropout their mask.
class PlainCore : public AttentionCore {
 public:
  PlainCore(std::string layer, double dropout) : layer_(std::move(layer)), dropout_(dropout) {}

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, Saved& saved) override {
    const BatchPosition& place = saved.position();
    const PlainAttention out = attention_plain(q, k, v,
                                               {.p = place.training ? dropout_ : 0,
                                                .random = mask_random(place, layer_),
                                                .first_sequence = place.first_sequence,
                                                .first_head = first_head,
                                                .heads = all_heads});
    saved.keep("q", q);
    saved.keep("k", k);
    saved.keep("v", v);
    saved.keep("probabilities", out.probabilities);
    if (out.mask.defined()) saved.keep("mask", out.mask);
    return out.o;
  }
  AttentionGradients backward(const Tensor& dout, Saved& saved) override {
    const Tensor q = saved.take("q"), k = saved.take("k"), v = saved.take("v");
    PlainAttention out{{}, saved.take("probabilities"), {}};
    if (!saved.has("mask")) return attention_plain_backward(dout, q, k, v, out);
    out.mask = saved.take("mask");
    return attention_plain_backward(dout, q, k, v, out, dropout_);
  }

  // Masks are drawn for all heads of the layer. Where only some are here (tensor parallelism): the
  // first one's number, and how many there are on all ranks; all_heads 0: all are here.
  int64_t first_head = 0, all_heads = 0;

 private:
  std::string layer_;
  double dropout_;
};

inline ParameterOptions parameter_options(const TransformerConfig& c) { return {c.seed, c.dtype}; }
// Of weights whose product is added to the stream (o, down): 2 L such terms are summed.
inline Initial added_to_stream(const TransformerConfig& c) {
  return normal(c.deviation / std::sqrt(2 * static_cast<double>(c.layers)));
}

// Keeps x, what its core keeps, and o's input.
//     I  dy -> dropout -> o -> core: dq, dk, dv -> rope back (dq, dk) -> dx, the sum of three
class Attention : public Composite {
 public:
  Attention(std::string name, const TransformerConfig& c)
      : Composite(std::move(name)), dropout(make_dropout(c)), config_(c) {
    const auto linear = [&](const char* part, int64_t inputs, int64_t outputs, Initial initial) {
      const LinearOptions options{inputs, outputs, c.has_bias(), initial};
      return std::make_unique<Linear>(this->name() + part, options, parameter_options(c));
    };
    if (c.has_latent()) {
      qkv = std::make_unique<LatentReaders>(this->name(), c);
    } else {
      qkv->add(linear(".q", c.width, c.width, normal(c.deviation)));
      qkv->add(linear(".k", c.width, c.kv_width(), normal(c.deviation)));
      qkv->add(linear(".v", c.width, c.kv_width(), normal(c.deviation)));
    }
    o = linear(".o", c.has_latent() ? c.heads * c.value_size() : c.width, c.width,
               added_to_stream(c));
    if (c.attention == AttentionKind::plain)
      core = std::make_unique<PlainCore>(this->name(), c.attention_dropout);
    if (c.attention == AttentionKind::flex) core = std::make_unique<FlexCore>(c.mask, c.heads);
  }

  // x (B, T, C) -> (B, T, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const std::vector<Tensor> read = qkv->forward(x, saved);
    const Tensor q = turned(read[0], saved), k = turned(read[1], saved), v = in_heads(read[2]);
    const Tensor out = core->forward(q, k, v, saved);  // (B, T, H, d)
    return run(*dropout, run(*o, flat(values(out)), saved), saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dout = run_back(*o, run_back(*dropout, dy, saved), saved);  // (B, T, H d)
    AttentionGradients d = core->backward(values_back(dout), saved);
    if (has_rope()) {
      d.dq = rope_backward(d.dq, saved.position().positions, frequencies());
      d.dk = rope_backward(d.dk, saved.position().positions, frequencies());
    }
    return qkv->backward_input({flat(d.dq), flat(d.dk), flat(d.dv)}, saved);
  }
  // By way of Readers, which may be replaced.
  void backward_weight(Saved& saved) override {
    o->backward_weight(saved.child(o->name()));
    qkv->backward_weight(saved);
  }

  const TransformerConfig& config() const { return config_; }

  // The parts, which may be replaced.
  std::unique_ptr<Readers> qkv = std::make_unique<Readers>();
  std::unique_ptr<AttentionCore> core = std::make_unique<BlockwiseCore>();
  std::unique_ptr<Linear> o;
  std::unique_ptr<Dropout> dropout;

 protected:
  std::vector<Layer*> parts() override {
    std::vector<Layer*> all;
    qkv->add_layers(all);
    all.push_back(o.get()), all.push_back(dropout.get());
    return all;
  }

 private:
  std::unique_ptr<Dropout> make_dropout(const TransformerConfig& c) const {
    return std::make_unique<Dropout>(name() + ".dropout", c.dropout);
  }
  // (B, T, heads d) -> (B, T, heads, d), however many heads are here
  Tensor in_heads(const Tensor& x) const {
    const int64_t d = config_.head_size();
    return x.reshape({x.dim(0), x.dim(1), x.dim(2) / d, d});
  }
  // The way back
  static Tensor flat(const Tensor& x) { return x.reshape({x.dim(0), x.dim(1), -1}); }
  // (B, T, heads d) -> (B, T, heads, d); with rope each head is turned by its token's position.
  Tensor turned(const Tensor& x, const Saved& saved) const {
    if (!has_rope()) return in_heads(x);
    return rope(in_heads(x), saved.position().positions, frequencies());
  }
  // Of latent attention the first numbers of each head, as many as its value has; and the way back,
  // with zeros for those that were left out.
  Tensor values(const Tensor& out) const { return narrow(out, 3, 0, config_.value_size()); }
  Tensor values_back(const Tensor& dout) const {
    const int64_t held = config_.value_size();
    return filled_heads(dout.reshape({dout.dim(0), dout.dim(1), dout.dim(2) / held, held}),
                        config_.head_size());
  }
  // ALiBi's distances take rope's place. Latent attention turns q and k itself.
  bool has_rope() const {
    return config_.dialect == Dialect::llama && !config_.mask.alibi && !config_.has_latent();
  }
  RopeFrequencies frequencies() const { return {config_.rope_theta, config_.rope_scaling}; }

  TransformerConfig config_;
};

// ---- the feed-forward half: every token alone, twice through a matrix --------------------------
enum class MlpKind : uint8_t { gelu, swiglu };

struct MlpOptions {
  MlpKind kind = MlpKind::gelu;
  int64_t width = 1, hidden = 4;  // C, F
  bool bias = true;
  double dropout = 0;
  Initial initial = normal(0.02);
  Initial initial_down = normal(0.02);
};
inline MlpOptions mlp_options(const TransformerConfig& c) {
  const MlpKind kind = c.dialect == Dialect::llama ? MlpKind::swiglu : MlpKind::gelu;
  return {kind,
          c.width,
          c.feed_forward,
          c.has_bias(),
          c.dropout,
          normal(c.deviation),
          added_to_stream(c)};
}

// Keeps x, h (and gate's output), down's input.
class Mlp : public Composite {
 public:
  Mlp(std::string name, const MlpOptions& m, const ParameterOptions& init = {})
      : Composite(std::move(name)),
        down(linear(".down", {m.hidden, m.width, m.bias, m.initial_down}, init)),
        dropout(std::make_unique<Dropout>(this->name() + ".dropout", m.dropout)) {
    in->add(linear(".up", {m.width, m.hidden, m.bias, m.initial}, init));
    if (m.kind == MlpKind::swiglu)
      in->add(linear(".gate", {m.width, m.hidden, m.bias, m.initial}, init));
  }

  // x (..., C) -> (..., C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    const std::vector<Tensor> read = in->forward(x, saved);  // (..., F)
    saved.keep("h", read[0]);
    if (is_gated()) saved.keep("gate", read[1]);
    return run(*dropout, run(*down, active(saved), saved), saved);
  }
  // What goes into down: the activation of what is kept.
  Tensor active(const Saved& saved) const {
    const Tensor& h = saved.get("h");
    return is_gated() ? swiglu(saved.get("gate"), h) : gelu(h);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dactive = run_back(*down, run_back(*dropout, dy, saved), saved);  // (..., F)
    const Tensor h = saved.take("h");
    if (!is_gated()) return in->backward_input({gelu_backward(dactive, h)}, saved);
    const SwigluGradients d = swiglu_backward(dactive, saved.take("gate"), h);
    return in->backward_input({d.dup, d.dgate}, saved);
  }
  void backward_weight(Saved& saved) override {
    down->backward_weight(saved.child(down->name()));
    in->backward_weight(saved);
  }

  // The parts, which may be replaced.
  std::unique_ptr<Readers> in = std::make_unique<Readers>();  // [0] up; of swiglu [1] gate
  std::unique_ptr<Linear> down;
  std::unique_ptr<Dropout> dropout;

 protected:
  std::vector<Layer*> parts() override {
    if (!is_gated()) return {&(*in)[0], down.get(), dropout.get()};
    return {&(*in)[1], &(*in)[0], down.get(), dropout.get()};
  }

 private:
  std::unique_ptr<Linear> linear(const char* part, const LinearOptions& options,
                                 const ParameterOptions& init) const {
    return std::make_unique<Linear>(name() + part, options, init);
  }
  bool is_gated() const { return in->size() == 2; }
};

// Where a mixture of experts is configured, until lesson 25 has put one here.
class MissingExperts : public Layer {
 public:
  using Layer::Layer;
  Tensor forward(const Tensor&, Saved&) override {
    fail(Where::current(),
         "{}: the configuration has a mixture of experts, which is not part of the serial "
         "transformer; put it there with mix_experts(model) (parallel/expert_parallel.hpp)",
         name());
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override { return forward(dy, saved); }
  void backward_weight(Saved&) override {}
  void add_parameters(std::vector<ParameterPtr>&) override {}
};

// ---- a block -----------------------------------------------------------------------------------
inline NormOptions norm_options(const TransformerConfig& c) {
  const bool gpt2 = c.dialect == Dialect::gpt2;
  return {gpt2 ? NormKind::layernorm : NormKind::rmsnorm, c.width, c.norm_epsilon};
}

//     F  h = x + attention(norm1(x))      I  dh = dy + the way back of norm2 and mlp
//        y = h + mlp(norm2(h))               dx = dh + the way back of norm1 and attention
//
// The sums are made in place: what a layer returns is its caller's to overwrite, so no layer keeps
// its own y, or writes into dy.
class Block : public Composite {
 public:
  Block(std::string name, const TransformerConfig& c)
      : Composite(std::move(name)),
        norm1(this->name() + ".norm1", norm_options(c), parameter_options(c)),
        attention(this->name() + ".attention", c),
        norm2(this->name() + ".norm2", norm_options(c), parameter_options(c)) {
    if (c.mixture.experts == 0)
      mlp = std::make_unique<Mlp>(this->name() + ".mlp", mlp_options(c), parameter_options(c));
    else
      mlp = std::make_unique<MissingExperts>(this->name() + ".mlp");
  }

  // x (B, T, C) -> (B, T, C)
  Tensor forward(const Tensor& x, Saved& saved) override {
    Tensor h = run(attention, run(norm1, x, saved), saved);
    add_into(h, x);
    Tensor y = run(*mlp, run(norm2, h, saved), saved);
    add_into(y, h);
    return y;
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    Tensor dh = run_back(norm2, run_back(*mlp, dy, saved), saved);
    add_into(dh, dy);
    Tensor dx = run_back(norm1, run_back(attention, dh, saved), saved);
    add_into(dx, dh);
    return dx;
  }

  Norm norm1;
  Attention attention;
  Norm norm2;
  LayerPtr mlp;  // may be replaced

 protected:
  std::vector<Layer*> parts() override { return {&norm1, &attention, &norm2, mlp.get()}; }
};

// ---- the first entry of the stack --------------------------------------------------------------
//    ids (B, T) i32 ──> row of the table per id ──> + row of its position ──> dropout ──> (B, T, C)
//                           (V, C)                      (T max, C), GPT-2
//
//    F   keeps the ids        I   nothing below needs a gradient: returns an undefined tensor
//    W   adds each dy to its token's row and its position's row

// Rows of a table (V, C); serial, all of it. An id whose row is elsewhere gives zeros. ids (B, T)
// -> (B, T, C)
class Embedding : public Layer {
 public:
  Embedding(std::string name, ParameterPtr table)
      : Layer(std::move(name)), table_(std::move(table)) {}
  explicit Embedding(Embedding&& other) : Layer(other.name()), table_(std::move(other.table_)) {}
  const ParameterPtr& table() const { return table_.parameter(); }

  Tensor forward(const Tensor& ids, Saved& saved) override {
    saved.keep("ids", ids.reshape({ids.numel()}));
    const Tensor rows = embedding_shard(saved.get("ids"), table()->value, first(), all());
    return rows.reshape({ids.dim(0), ids.dim(1), rows.dim(1)});
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    saved.keep("dy", as_rows(dy));
    return {};
  }
  void backward_weight(Saved& saved) override {
    const Tensor ids = saved.take("ids"), dy = saved.take("dy");
    embedding_shard_backward(dy, ids, table_.grad(), first(), all());
    table_.mark_grad_ready();
  }
  void add_parameters(std::vector<ParameterPtr>& to) override { to.push_back(table()); }

 protected:
  // The first row that is here, and the rows of the whole table, V.
  int64_t first() const { return table()->range.first_row; }
  int64_t all() const { return table()->range.all_rows(); }
  Use table_;
};

// Learned positions (T max, C). What it keeps is in the Saved of the layer that it stands in.
class PositionTable {
 public:
  explicit PositionTable(ParameterPtr table) : table_(std::move(table)) {}
  PositionTable(PositionTable&&) = default;
  virtual ~PositionTable() = default;
  const ParameterPtr& table() const { return table_.parameter(); }

  // x (B, T, C) += the row of each token's position. A part of a batch may have no tokens.
  virtual void add_to(Tensor& x, Saved& saved) {
    Tensor rows = as_rows(x);
    if (x.numel() > 0) add_positions(rows, table()->value, x.dim(1), saved.position().positions);
  }
  virtual void backward_weight(const Tensor& dy, Saved& saved) {
    if (dy.numel() > 0)
      positions_backward(as_rows(dy), table_.grad(), dy.dim(1), saved.position().positions);
    table_.mark_grad_ready();
  }

 protected:
  Use table_;
};

class TokenEmbedding : public Layer {
 public:
  TokenEmbedding(std::string name, const TransformerConfig& c) : Layer(std::move(name)) {
    const auto table = [&](const char* part, int64_t rows) {
      return make_parameter(this->name() + part, {rows, c.width}, true, normal(c.deviation), c.seed,
                            c.dtype);
    };
    tokens =
        std::make_unique<Embedding>(this->name() + ".token", table(".token.weight", c.vocabulary));
    if (c.dialect == Dialect::gpt2)
      positions = std::make_unique<PositionTable>(table(".position.weight", c.context));
    dropout = std::make_unique<Dropout>(this->name() + ".dropout", c.dropout);
  }

  // ids (B, T) -> (B, T, C)
  Tensor forward(const Tensor& ids, Saved& saved) override {
    if (ids.ndim() != 2)
      fail(Where::current(), "{}: ids are {}, expected (B, T) i32", name(), ids.describe());
    Tensor x = tokens->forward(ids, saved.child(tokens->name()));
    if (positions) positions->add_to(x, saved);
    return dropout->forward(x, saved.child(dropout->name()));
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dx = dropout->backward_input(dy, saved.child(dropout->name()));
    if (positions) saved.keep("dy", dx);
    return tokens->backward_input(dx, saved.child(tokens->name()));
  }
  void backward_weight(Saved& saved) override {
    tokens->backward_weight(saved.child(tokens->name()));
    if (positions) positions->backward_weight(saved.take("dy"), saved);
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    tokens->add_parameters(to);
    if (positions) to.push_back(positions->table());
  }

  // The parts, which may be replaced.
  std::unique_ptr<Embedding> tokens;
  std::unique_ptr<PositionTable> positions;  // none: rope
  std::unique_ptr<Dropout> dropout;
};

// The name of TokenEmbedding's table, which a tied head uses, too.
inline constexpr const char* tied_table = "embedding.token.weight";

// ---- the last entry of the stack: x (B, T, C) ──> norm ──> (V, C) matrix ──> logits (B, T, V) ---
class Head : public Composite {
 public:
  // `tied`: the embedding's table, if it is in the same slice.
  explicit Head(const TransformerConfig& c, const ParameterPtr& tied = nullptr)
      : Composite("head"), norm("norm", norm_options(c), parameter_options(c)) {
    const Initial initial = normal(c.deviation);
    if (tied)
      out->add(std::make_unique<Linear>("head", tied));
    else if (c.tied)
      out->add(std::make_unique<Linear>("head", make_parameter(tied_table, {c.vocabulary, c.width},
                                                               true, initial, c.seed, c.dtype)));
    else
      out->add(std::make_unique<Linear>(
          "head", LinearOptions{c.width, c.vocabulary, false, initial}, parameter_options(c)));
  }

  // x (B, T, C) -> logits (B, T, V)
  Tensor forward(const Tensor& x, Saved& saved) override {
    return out->forward(run(norm, x, saved), saved)[0];
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    return run_back(norm, out->backward_input({dy}, saved), saved);
  }
  void backward_weight(Saved& saved) override {
    out->backward_weight(saved);
    norm.backward_weight(saved.child(norm.name()));
  }

  Norm norm;
  std::unique_ptr<Readers> out = std::make_unique<Readers>();  // one; may be replaced

 protected:
  std::vector<Layer*> parts() override { return {&norm, &(*out)[0]}; }
};

// ---- the stack ---------------------------------------------------------------------------------
class Transformer {
 public:
  // Entries of the whole stack: embedding, blocks, head.
  static constexpr int64_t entries(const TransformerConfig& config) { return config.layers + 2; }

  explicit Transformer(const TransformerConfig& config, Where where = Where::current())
      : Transformer(config, 0, entries(config), where) {}
  // Entries [first, last) of the stack.
  Transformer(const TransformerConfig& config, int64_t first, int64_t last,
              Where where = Where::current())
      : config_(config) {
    config.check(where);
    if (first < 0 || last < first || last > entries(config))
      fail(where, "entries {} to {} of a stack of {}", first, last, entries(config));
    for (int64_t i = first; i < last; ++i) layers_.push_back(make(i));
  }

  const TransformerConfig& config() const { return config_; }
  Layers stack() const { return layers_; }

  // The entries by kind: null or fewer, where a slice does not have them.
  TokenEmbedding* embedding() const {
    return layers_.empty() ? nullptr : dynamic_cast<TokenEmbedding*>(layers_.front().get());
  }
  std::vector<Block*> blocks() const {
    std::vector<Block*> all;
    for (const LayerPtr& each : layers_)
      if (auto* const block = dynamic_cast<Block*>(each.get())) all.push_back(block);
    return all;
  }
  Head* head() const {
    return layers_.empty() ? nullptr : dynamic_cast<Head*>(layers_.back().get());
  }

 private:
  LayerPtr make(int64_t entry) const {
    if (entry == 0) return std::make_unique<TokenEmbedding>("embedding", config_);
    if (entry <= config_.layers) {
      const bool is_dense = entry <= config_.mixture.dense_layers;
      return std::make_unique<Block>("layers." + std::to_string(entry - 1),
                                     is_dense ? dense_config(config_) : config_);
    }
    const bool shares = config_.tied && embedding() != nullptr;
    return std::make_unique<Head>(config_, shares ? embedding()->tokens->table() : nullptr);
  }

  TransformerConfig config_;
  std::vector<LayerPtr> layers_;
};

}  // namespace yotta
