// Expert parallelism: each rank holds some of a layer's experts, and tokens travel to theirs.
//
// A mixture of experts has E feed-forward layers, too many weights for one rank, and a token runs
// through k of them. So the ranks of ep, which train on different sequences, share the experts out.
// The router of each rank chooses for the rank's own tokens, and rows go where their experts are:
//
//                       rank 0: experts 0, 1            rank 1: experts 2, 3
//     tokens            a b c                           d e f
//     router, k = 1     a>2  b>0  c>1                   d>2  e>3  f>1
//     by expert         b c | a                         f | d e
//                          └────────── dispatch, all_to_all_v ──────────┐
//     arrived           b c | f                         a | d e         from rank 0, from rank 1
//     by expert held    b | c f                         a d | e         experts compute
//                          └────────── combine, all_to_all_v ───────────┐
//     back              y_b y_c | y_a                   y_f | y_d y_e
//     y                 the weighted sum of each token's k rows
//
// How many rows come is known only when all routers have chosen. So the ranks first exchange
// counts, (ep, E) numbers, and dispatch_plan() derives all sizes from them. Each exchange is the
// other's backward: gradients of y travel as tokens did, gradients of rows as results did. The
// router's gradient comes from the weights of the sum.
//
// A shared expert, an Mlp that every token runs through, computes while rows are on their way. With
// tp each expert's F is cut as an Mlp's is; y is a partial sum until the border's leave() adds it
// up (tensor_parallel.hpp). With a SequenceBorder enter() gathers the tokens that tp shares out,
// and the router keeps all of them.
//
// Gradients: a rank has seen the rows of all ranks of ep for its experts. So an expert's gradient
// is summed over the ranks that hold the same expert, and not over ep. The router and the shared
// expert are whole on every rank, and summed over all that have other tokens.
//
// Cost per rank, forward, and backward again: two exchanges of n k rows, of which (ep-1)/ep leave
// the rank if experts are chosen equally often (expert_cost.hpp). The rank with the most rows sets
// the pace. Weights: E/ep experts.
// Contract: all ranks of ep make the same calls; n may differ; another type of x than the weights'
// is refused. Of E, ep and tp: expert_share.hpp.
// Letters: n tokens of this rank, C width, F hidden width of an expert, E experts, k experts of a
// token, ep ranks, m rows that leave, M rows that arrive.
// References: Lepikhin et al. (2020), GShard, section 3.2; DeepSeek-V3 (2024), section 3.2.
#pragma once

#include <memory>
#include <numeric>
#include <vector>

#include "yotta/comm/collectives_exchange.hpp"
#include "yotta/core/chunks.hpp"
#include "yotta/nn/elementwise.hpp"
#include "yotta/nn/narrow.hpp"
#include "yotta/parallel/expert_share.hpp"

namespace yotta {

namespace detail {

// Runs of rows, counts[a * size_b + b] each: from the order (a, b) to the order (b, a).
inline Tensor swap_order(const Tensor& rows, Counts counts, size_t size_a, size_t size_b) {
  if (size_a == 1 || size_b == 1) return rows;
  std::vector<Tensor> runs(counts.size());
  int64_t begin = 0;
  for (size_t i = 0; i < counts.size(); begin += counts[i++])
    runs[i % size_b * size_a + i / size_b] = rows.rows(begin, begin + counts[i]);
  return cat(runs, 0);
}

}  // namespace detail

// How many rows go where, as one rank of ep sees it. `held` experts are on this rank.
struct DispatchPlan {
  std::vector<int64_t> to;        // (ep): rows that leave for each rank
  std::vector<int64_t> from;      // (ep): rows that come from each rank
  std::vector<int64_t> arriving;  // (ep, held): rows that come from each rank for each expert held
  std::vector<int64_t> held;      // (held): rows of each expert held

  // rows (M, C) that have arrived rank by rank -> sorted by expert; and back.
  Tensor by_expert(const Tensor& rows) const {
    return detail::swap_order(rows, arriving, from.size(), held.size());
  }
  Tensor by_rank(const Tensor& rows) const {
    const std::vector<int64_t> leaving =
        transposed_counts(arriving, static_cast<int>(from.size()), static_cast<int>(held.size()));
    return detail::swap_order(rows, leaving, held.size(), from.size());
  }
};

namespace detail {

// of_rank's rows, by expert of for_rank.
inline Counts run_of(Counts counts, int ep, int of_rank, int for_rank) {
  const int64_t E = std::ssize(counts) / ep;
  return counts.subspan(static_cast<size_t>(of_rank * E + chunk_begin(E, ep, for_rank)),
                        static_cast<size_t>(chunk_count(E, ep, for_rank)));
}
inline int64_t sum_of(Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}
inline void add_counts(std::vector<int64_t>& sums, Counts counts) {
  sums.resize(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) sums[i] += counts[i];
}

}  // namespace detail

// `counts` (ep, E): rows that each rank has for each expert.
inline DispatchPlan dispatch_plan(Counts counts, int ep, int rank) {
  DispatchPlan plan;
  for (int r = 0; r < ep; ++r) {
    const Counts theirs = detail::run_of(counts, ep, r, rank);
    plan.to.push_back(detail::sum_of(detail::run_of(counts, ep, rank, r)));
    plan.from.push_back(detail::sum_of(theirs));
    plan.arriving.insert(plan.arriving.end(), theirs.begin(), theirs.end());
    detail::add_counts(plan.held, theirs);
  }
  return plan;
}

namespace detail {

// Counts of rows such as these, as counts of their numbers.
inline std::vector<int64_t> numbers_of(Counts counts, const Tensor& rows) {
  std::vector<int64_t> each(counts.begin(), counts.end());
  for (int64_t& count : each) count *= rows.dim(1);
  return each;
}
// Room for so many rows.
inline Tensor space_for(Counts counts, const Tensor& rows) {
  return empty_beside(rows, {sum_of(counts), rows.dim(1)}, rows.dtype(), Where::current());
}

}  // namespace detail

// Rows on their way between ranks.
class RowsInFlight {
 public:
  // rows (m, C), those for rank 0 first: to[r] leave for rank r, from[r] come from it.
  RowsInFlight(const Tensor& rows, Counts to, Counts from, const Communicator& ep,
               const CommOptions& comm)
      : leaving_(rows), arriving_(rows) {
    if (axis_size(ep) == 1) return;
    arriving_ = detail::space_for(from, rows);
    work_ = ep.all_to_all_v_async(arriving_, detail::numbers_of(from, rows), leaving_,
                                  detail::numbers_of(to, rows), comm);
  }

  // (M, C), in the order of the ranks that sent them
  Tensor wait() {
    work_.wait();
    leaving_ = {};
    return std::exchange(arriving_, {});
  }

 private:
  Tensor leaving_, arriving_;
  Work work_;
};

// A mixture of experts, where a block has an Mlp.
class MoeMlp : public Composite {
 public:
  MoeMlp(std::string name, const MoeOptions& options, const ParameterOptions& init = {},
         const MoeAxes& axes = {}, Where where = Where::current())
      : Composite(std::move(name)),
        options_(options),
        axes_(axes),
        router_(this->name() + ".router", options.router, init),
        experts_(this->name() + ".experts", held_experts(options, axes, this->name(), where), init),
        dropout_(std::make_unique<Dropout>(this->name() + ".dropout", options.dropout)) {
    if (options.shared_hidden != 0)
      shared_ =
          std::make_unique<Mlp>(this->name() + ".shared", shared_expert(options, where), init);
    if (shared_ && axes.border) tensor_parallel(*shared_, axes.border);
    const auto tokens = std::dynamic_pointer_cast<const SequenceBorder>(axes.border);
    if (tokens == nullptr) return;
    dropout_ = std::make_unique<SequenceDropout>(*dropout_, tokens);
    if (shared_) sequence_parallel(*shared_, tokens);
  }

  // Both (..., C) -> (..., C).
  Tensor forward(const Tensor& x, Saved& saved) override {
    expect_dtype(name().c_str(), "x", x, experts_.dtype(), Where::current());
    const Tensor whole = axes_.border ? axes_.border->enter(x) : x, tokens = as_rows(whole);
    const Routing routing =
        route_tokens(router_, tokens, axes_.all_routed(), saved.child(router_.name()));
    const ExpertRows rows = rows_within_capacity(routing.expert, options_, axes_.all_routed());
    Tensor shared;
    const Tensor results = through_experts(x, tokens, rows, shared, saved);
    saved.keep("results", results);
    saved.keep("assignment", rows.assignment);
    saved.keep("weight", routing.weight);
    Tensor y = with_leading_dims_of(whole, combine_rows(results, rows.assignment, routing.weight));
    if (axes_.border) y = axes_.border->leave(y);
    if (shared.defined()) add_into(y, shared);
    return run(*dropout_, y, saved);
  }
  Tensor backward_input(const Tensor& dy, Saved& saved) override {
    const Tensor dsum = run_back(*dropout_, dy, saved);
    const Tensor whole = axes_.border ? axes_.border->leave_back(dsum) : dsum;
    const DispatchPlan plan = planned(saved.take("counts"));
    const Tensor assignment = saved.take("assignment");
    CombineGradients d = combine_rows_backward(as_rows(whole), saved.take("results"), assignment,
                                               saved.take("weight"));
    Tensor dtokens, dshared;
    Tensor dx = gather_rows_backward(back_through_experts(d, plan, dsum, dtokens, dshared, saved),
                                     assignment, d.dweight.dim(0), options_.router.top_k);
    if (is_first_of_tp()) add_into(dx, dtokens);  // whole on each rank: once in enter_back's sum
    dx = with_leading_dims_of(whole, dx);
    if (axes_.border) dx = axes_.border->enter_back(dx);
    if (dshared.defined()) add_into(dx, dshared);
    return dx;
  }
  void backward_weight(Saved& saved) override {
    Composite::backward_weight(saved);
    experts_.backward_weight(saved.child(experts_.name()));
  }
  void add_parameters(std::vector<ParameterPtr>& to) override {
    Composite::add_parameters(to);
    experts_.add_parameters(to);
  }

 protected:
  // all but the experts
  std::vector<Layer*> parts() override {
    if (shared_ == nullptr) return {&router_, dropout_.get()};
    return {&router_, shared_.get(), dropout_.get()};
  }

 private:
  DispatchPlan planned(const Tensor& counts) const {
    return dispatch_plan(counts.span<int64_t>(), axis_size(axes_.ep), axis_rank(axes_.ep));
  }

  // Rows sorted by expert leave for its rank; what held experts have made goes back.
  RowsInFlight send(const Tensor& rows, const DispatchPlan& plan, const char* label) const {
    return {rows, plan.to, plan.from, axes_.ep, options_.comm.labelled(label)};
  }
  RowsInFlight send_back(const Tensor& rows, const DispatchPlan& plan, const char* label) const {
    return {plan.by_rank(rows), plan.from, plan.to, axes_.ep, options_.comm.labelled(label)};
  }

  // The held experts, on rows that have arrived rank by rank; their results are sorted by expert.
  Tensor run_experts(const Tensor& arrived, const DispatchPlan& plan, Saved& saved) {
    return experts_.forward(plan.by_expert(arrived), plan.held, saved.child(experts_.name()));
  }
  Tensor run_experts_back(const Tensor& arrived, const DispatchPlan& plan, Saved& saved) {
    return experts_.backward_input(plan.by_expert(arrived), saved.child(experts_.name()));
  }

  // The router's way back, once d.dweight is whole: with tp each rank has a part of a sum.
  Tensor run_router_back(CombineGradients& d, Saved& saved) {
    if (axes_.border)
      axes_.border->tp().all_reduce(d.dweight, ReduceOp::sum, {.label = "tp.router"});
    return run_back(router_, d.dweight, saved);
  }

  // The experts' results, in the order of `rows`. all_counts ("ep.counts"), kept as "counts";
  // gather_rows, send ("ep.dispatch"), the shared expert, whose result is `shared`, wait, the
  // experts, send_back ("ep.combine").
  Tensor through_experts(const Tensor& x, const Tensor& tokens, const ExpertRows& rows,
                         Tensor& shared, Saved& saved) {
    saved.keep("counts", all_counts(rows.counts, axes_.ep, "ep.counts"));
    const DispatchPlan plan = planned(saved.get("counts"));
    RowsInFlight there =
        send(gather_rows(tokens, rows.assignment, options_.router.top_k), plan, "ep.dispatch");
    if (shared_ != nullptr) shared = run(*shared_, x, saved);
    const Tensor made = run_experts(there.wait(), plan, saved);
    return send_back(made, plan, "ep.combine").wait();
  }
  // The gradients of those rows. d.drows travel as tokens did ("ep.combine_backward"), the shared
  // expert runs back meanwhile, from dsum to dshared; what experts return travels as results did
  // ("ep.dispatch_backward"), meanwhile the router runs back, to dtokens (n, C).
  Tensor back_through_experts(CombineGradients& d, const DispatchPlan& plan, const Tensor& dsum,
                              Tensor& dtokens, Tensor& dshared, Saved& saved) {
    RowsInFlight there = send(d.drows, plan, "ep.combine_backward");
    if (shared_ != nullptr) dshared = run_back(*shared_, dsum, saved);
    const Tensor darrived = run_experts_back(there.wait(), plan, saved);
    RowsInFlight back = send_back(darrived, plan, "ep.dispatch_backward");
    dtokens = run_router_back(d, saved);
    return back.wait();
  }

  bool is_first_of_tp() const { return !axes_.border || axes_.border->tp().rank() == 0; }

  MoeOptions options_;
  MoeAxes axes_;
  Router router_;
  Experts experts_;  // those held, F/tp of each
  std::unique_ptr<Mlp> shared_;
  std::unique_ptr<Dropout> dropout_;
};

// What a configuration says to the mixture of a block.
inline MoeOptions moe_options(const TransformerConfig& c) {
  const MixtureConfig& m = c.mixture;
  const MlpOptions mlp = mlp_options(c);
  MoeOptions options;
  options.router = {.width = c.width,
                    .experts = m.experts,
                    .top_k = m.top_k,
                    .score = m.score,
                    .renormalise = m.top_k > 1,
                    .balance_loss = m.balance_loss,
                    .z_loss = m.z_loss,
                    .bias_rate = m.bias_rate,
                    .initial = mlp.initial,
                    .groups = m.groups,
                    .top_groups = m.top_groups};
  options.experts = {.gated = mlp.kind == MlpKind::swiglu,
                     .hidden = mlp.hidden,
                     .initial = mlp.initial,
                     .initial_down = mlp.initial_down};
  options.shared_hidden = m.shared * mlp.hidden;
  options.capacity = m.capacity;
  options.dropout = mlp.dropout;
  return options;
}

// Puts what the configuration says in the place of each block's MLP: a mixture, as the rank has it.
inline void mix_experts(Transformer& model, const MoeAxes& axes = {}) {
  const TransformerConfig& c = model.config();
  for (Block* block : model.blocks())
    if (dynamic_cast<Mlp*>(block->mlp.get()) == nullptr)  // the first blocks may have none
      block->mlp = std::make_unique<MoeMlp>(block->name() + ".mlp", moe_options(c),
                                            parameter_options(c), axes);
  if (axes.border) count_copies(model.stack(), axes.border->tp());
}

// The serial model of a configuration, with a mixture if it has one.
inline Transformer serial_model(const TransformerConfig& config, Where where = Where::current()) {
  Transformer model(config, where);
  if (config.mixture.experts > 0) mix_experts(model);
  return model;
}

// Once a step: sums the gradients of experts over `copies`, the ranks with the same experts, and
// all others over `data`, all ranks with other tokens.
inline void reduce_moe_gradient(Parameter& parameter, const Communicator& copies,
                                const Communicator& data) {
  const Communicator& over = is_expert_parameter(parameter) ? copies : data;
  if (axis_size(over) > 1)
    over.all_reduce(parameter.gradient(), ReduceOp::sum, {.label = "ep.gradients"});
}
inline void reduce_moe_gradients(const std::vector<ParameterPtr>& parameters,
                                 const Communicator& copies, const Communicator& data) {
  for (const ParameterPtr& each : parameters) reduce_moe_gradient(*each, copies, data);
}

}  // namespace yotta
