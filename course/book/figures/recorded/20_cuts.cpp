// A feed-forward layer on several ranks, with its matrices cut in three ways.
#include <algorithm>
#include <cmath>

#include "course/book/figures/recorded/record.hpp"
#include "yotta/comm/run_ranks.hpp"
#include "yotta/core/random.hpp"
#include "yotta/nn/linear_ops.hpp"
#include "yotta/parallel/tensor_parallel.hpp"

namespace book {
namespace {

using yotta::DType;
using yotta::Tensor;

constexpr int64_t tokens = 4, width = 8, hidden = 32;
enum Cut { columns_rows, rows_columns, rows_sum_first };

// g, which shows what this rank has before the sum.
class ShownBorder : public yotta::Border {
 public:
  ShownBorder(const yotta::Communicator& tp, Tensor& part) : Border(tp), part_(part) {}
  Tensor leave(Tensor y) const override {
    part_ = y.clone();
    return Border::leave(std::move(y));
  }

 private:
  Tensor& part_;
};

Tensor input() {
  Tensor x = Tensor::empty({tokens, width}, DType::f64);
  const yotta::Random random(20, "x");
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<double>()[i] = random.normal(static_cast<uint64_t>(i));
  return x;
}
yotta::Mlp layer() {
  const yotta::Initial wide = yotta::normal(0.35);
  return {"mlp", {yotta::MlpKind::gelu, width, hidden, false, 0, wide, wide}, {20, DType::f64}};
}

// Columns of x or of a weight: a rank's part of `parts`.
Tensor columns_of(const Tensor& x, int64_t part, int64_t parts) {
  const int64_t rows = x.dim(0), all = x.dim(1), each = all / parts;
  Tensor held = Tensor::empty({rows, each}, DType::f64);
  yotta::take_shard(x, {rows, each, 0, part * each, rows, all}, held);
  return held;
}

// What a rank has before the last sum, and Y.
struct Parts {
  Tensor part, y;
};
Parts by_columns(const yotta::Communicator& tp) {
  Parts made;
  yotta::Mlp mlp = layer();
  yotta::tensor_parallel(mlp, std::make_shared<const ShownBorder>(tp, made.part));
  yotta::Saved saved;
  made.y = mlp.forward(input(), saved);
  return made;
}
// A by rows: each rank has a part of every sum in front of gelu. B is whole on each rank.
Parts by_rows(const yotta::Communicator& tp, bool sum_first) {
  yotta::Mlp mlp = layer();
  const Tensor& A = (*mlp.in)[0].weight_parameter().value;  // a row for each output
  const Tensor& B = mlp.down->weight_parameter().value;
  Tensor h =
      yotta::linear(columns_of(input(), tp.rank(), tp.size()), columns_of(A, tp.rank(), tp.size()));
  Parts made;
  if (!sum_first) h = yotta::gelu(h);
  made.part = yotta::linear(sum_first ? yotta::gelu(h) : h, B);
  tp.all_reduce(h, yotta::ReduceOp::sum, {.label = "tp.forward"});
  made.y = yotta::linear(sum_first ? yotta::gelu(h) : h, B);
  return made;
}

Row grid(const char* name, const Tensor& x) {
  Row row{name};
  for (int64_t i = 0; i < x.numel(); ++i)  // it is drawn: three digits
    row.values.push_back(std::round(x.data<double>()[i] * 1e3) / 1e3);
  return row;
}

Data data(const std::vector<double>& at) {
  const int ranks = static_cast<int>(at[1]), shown = static_cast<int>(at[2]) % ranks;
  const Cut cut = static_cast<Cut>(at[0]);
  Parts parts;
  const auto reports = yotta::run_ranks(ranks, [&](yotta::Communicator& tp) {
    Parts mine = cut == columns_rows ? by_columns(tp) : by_rows(tp, cut == rows_sum_first);
    if (tp.rank() == shown) parts = std::move(mine);
  });
  yotta::Saved saved;
  yotta::Mlp serial = layer();
  const Tensor y = serial.forward(input(), saved);
  double most = 0;
  for (int64_t i = 0; i < y.numel(); ++i)
    most = std::max(most, std::abs(parts.y.data<double>()[i] - y.data<double>()[i]));
  const double whole = width * hidden;
  Data made;
  made.numbers = {
      {"Y differs from one rank's by", "", most < 1e-12 ? 0 : most},
      {"this rank sends", "bytes",
       static_cast<double>(
           reports[static_cast<size_t>(shown)].ledger().traffic("tp.forward").bytes_sent),
       6},
      {"weights of a rank", "% of all",
       50 * ((1 / double(ranks)) + (cut == columns_rows ? 1 / double(ranks) : 1))}};
  made.rows = {{"sizes", {tokens, width, hidden, double(ranks), double(shown), at[0], whole}, {}},
               grid("part", parts.part),
               grid("Y", parts.y),
               grid("serial", y)};
  const char* const codes[] = {
      "yotta::tensor_parallel(mlp, std::make_shared<const yotta::Border>(tp));\n"
      "const yotta::Tensor y = mlp.forward(x, saved);",
      "yotta::Tensor a = yotta::gelu(yotta::linear(x_r, A_r));  // a part of every sum: too early\n"
      "tp.all_reduce(a);\n"
      "const yotta::Tensor y = yotta::linear(a, B);",
      "yotta::Tensor h = yotta::linear(x_r, A_r);\n"
      "tp.all_reduce(h);\n"
      "const yotta::Tensor y = yotta::linear(yotta::gelu(h), B);"};
  made.code = codes[cut];
  return made;
}

}  // namespace

Figure cuts_figure() {
  return {"20_cuts",
          "Y = gelu(X A) B on several ranks. Which cut of the two matrices gives the same Y as one "
          "rank, with the fewest bytes? Each setting was run when this page was made.",
          {choice("cut", {"A by columns, B by rows", "A by rows, gelu before the sum",
                          "A by rows, gelu after the sum"}),
           {"tp, ranks", "", {1, 2, 4, 8}, 1},
           {"look at rank", "", counted(0, 7), 0}},
          data};
}

}  // namespace book
