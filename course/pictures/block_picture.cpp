#include "course/pictures/block_picture.hpp"

#include <algorithm>

#include "course/options/console.hpp"
#include "course/pictures/svg.hpp"
#include "yotta/nn/transformer.hpp"

namespace yotta {

namespace {

using svg::arrow;
using svg::box;
using svg::ink;
using svg::text;

constexpr const char *forward_fill = "#dbe9f7", *backward_fill = "#fbe0d6", *sum_fill = "#e4e4e4",
                     *kept_fill = "#bbcc33";
constexpr double forward_at = 64, forward_width = 190, kept_at = 304, backward_at = 622,
                 backward_width = 226, top = 112, pitch = 50, height = 36;
constexpr double pixels_per_mib = 50;

// One operation of the block: the layer that keeps something for it, and what it computes.
struct Op {
  const char *layer, *forward, *dgrad, *wgrad;
  bool is_sum() const { return layer[0] == '+'; }
};
constexpr Op ops[] = {
    {"norm1", "norm1", "dx, of the row", "dw, db"},
    {"attention.q", "q, k, v: x W' + b, three times", "dx = dq Wq + dk Wk + dv Wv",
     "dW = dy' x, db, three times"},
    {"attention", "attention: softmax(q k'/√d) v", "dq, dk, dv; P is made again from L", ""},
    {"attention.o", "o: x W' + b", "dx = dy W", "dW = dy' x, db"},
    {"+1", "h = x + what came", "dh = dy + what came, both ways", ""},
    {"norm2", "norm2", "dx, of the row", "dw, db"},
    {"mlp.up", "up: x W' + b, C to F", "dx = dy W", "dW = dy' x, db"},
    {"mlp", "gelu", "dx = dy gelu'(x)", ""},
    {"mlp.down", "down: x W' + b, F to C", "dx = dy W", "dW = dy' x, db"},
    {"+2", "y = h + what came", "dy goes both ways", ""}};

TransformerConfig counted_config() { return gpt2_config(4, 128, 4, 512, 256); }
constexpr int64_t sequences = 4;

double row_y(size_t row) { return top + pitch * static_cast<double>(row); }

// A slot's letter: x is the input of each operation, also of gelu, which the code calls h.
std::string letter_of(const std::string& slot) {
  return slot == "log_sum_exp" ? "L" : slot == "h" ? "x" : slot;
}

// "x, q 2.00 MiB": what is equally large is added up.
std::string kept_text(const KeptRow& row) {
  std::string all;
  for (size_t i = 0; i < row.slots.size(); ++i) {
    if (std::count(row.bytes.begin(), row.bytes.begin() + static_cast<std::ptrdiff_t>(i),
                   row.bytes[i]) > 0)
      continue;
    std::string names;
    int64_t sum = 0;
    for (size_t j = i; j < row.slots.size(); ++j) {
      if (row.bytes[j] != row.bytes[i]) continue;
      names += (names.empty() ? "" : ", ") + letter_of(row.slots[j]);
      sum += row.bytes[j];
    }
    all += fmt::format("{}{} {}", all.empty() ? "" : "; ", names,
                       console::bytes(static_cast<double>(sum)));
  }
  return all;
}

std::string kept_svg(const KeptRow& row, double middle) {
  if (row.slots.empty())
    return text(kept_at, middle + 4, "x: the same tensor as o above", "start", ink, 11);
  int64_t bytes = 0;
  for (const int64_t each : row.bytes) bytes += each;
  return text(kept_at, middle - 2, kept_text(row), "start", ink, 11) +
         box(kept_at, middle + 4, pixels_per_mib * static_cast<double>(bytes) / (1 << 20), 8,
             kept_fill);
}

std::string op_svg(const Op& op, size_t row, const KeptByBlock& kept) {
  const double y = row_y(row), middle = y + height / 2;
  const bool last = row + 1 == std::size(ops);
  std::string svg =
      box(forward_at, y, forward_width, height, op.is_sum() ? sum_fill : forward_fill) +
      text(forward_at + 10, middle + 4, op.forward);
  svg += box(backward_at, y, backward_width, height, op.is_sum() ? sum_fill : backward_fill);
  const bool both = op.wgrad[0] != 0;
  svg += text(backward_at + 10, middle + (both ? -3 : 4), fmt::format("I: {}", op.dgrad), "start",
              ink, 11);
  if (both)
    svg += text(backward_at + 10, middle + 12, fmt::format("W: {}", op.wgrad), "start", ink, 11);
  const double left = forward_at + forward_width / 2, right = backward_at + backward_width / 2;
  if (!last) {
    svg += arrow(left, y + height, left, y + pitch);
    svg += arrow(right, y + pitch, right, y + height);
  }
  for (const KeptRow& each : kept.rows) {
    if (each.layer != op.layer) continue;
    svg += arrow(forward_at + forward_width, middle, kept_at - 6, middle) + kept_svg(each, middle) +
           arrow(backward_at - 44, middle, backward_at, middle);
  }
  return svg;
}

// The path around each half of the block, from the stream above row `from` to the sum in row `to`.
std::string stream(size_t from, size_t to) {
  const double above = row_y(from) - 9, left = forward_at + forward_width / 2,
               right = backward_at + backward_width / 2, out = forward_at - 26,
               far = backward_at + backward_width + 26, at = row_y(to) + height / 2;
  const auto line = [](const std::string& points, const char* marker) {
    return fmt::format(
        "<path d=\"M{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
        "marker-end=\"url(#{})\"/>\n",
        points, svg::quiet, marker);
  };
  return line(fmt::format("{:.0f} {:.0f}H{:.0f}V{:.0f}H{:.0f}", left, above, out, at, forward_at),
              "tip") +
         line(fmt::format("{:.0f} {:.0f}H{:.0f}V{:.0f}H{:.0f}", backward_at + backward_width, at,
                          far, above, right),
              "tip");
}

std::string heads_and_ends() {
  const double left = forward_at + forward_width / 2, right = backward_at + backward_width / 2;
  const double bottom = row_y(std::size(ops) - 1) + height;
  return text(forward_at, 76, "F: forward, downwards", "start", ink, 13, true) +
         text(kept_at, 76, "kept in Saved", "start", ink, 13, true) +
         text(backward_at, 76, "I and W: backward, upwards", "start", ink, 13, true) +
         arrow(left, top - 24, left, top) +
         text(left + 8, top - 14, "x (B, T, C)", "start", ink, 11) +
         arrow(right, top, right, top - 24) +
         text(right + 8, top - 14, "dx = dh + what came", "start", ink, 11) +
         arrow(left, bottom, left, bottom + 24) +
         text(left + 8, bottom + 20, "y (B, T, C)", "start", ink, 11) +
         arrow(right, bottom + 24, right, bottom) +
         text(right + 8, bottom + 20, "dy (B, T, C)", "start", ink, 11);
}

// The tensors of the Saved of the layer whose name ends so.
void add_kept(Saved& saved, const std::string& layer, std::vector<Tensor>& seen, KeptRow& row) {
  saved.each([&](Saved& each) {
    if (each.name() != "layers.0." + layer) return;
    for (const char* slot : {"x", "mean", "rstd", "q", "k", "v", "o", "log_sum_exp", "h"}) {
      if (!each.has(slot)) continue;
      const Tensor& tensor = each.get(slot);
      const auto shares = [&](const Tensor& other) { return other.shares_memory(tensor); };
      if (std::any_of(seen.begin(), seen.end(), shares)) continue;
      seen.push_back(tensor);
      row.slots.push_back(slot);
      row.bytes.push_back(tensor.nbytes());
    }
  });
}

}  // namespace

KeptByBlock kept_by_block() {
  RankContext rank;
  const ContextScope scope(rank);
  const DeviceScope meta(Device::meta);
  const TransformerConfig config = counted_config();
  const Transformer model(config, 1, 2);  // entry 0 is the embedding
  Saved saved;
  const Tensor x = Tensor::empty({sequences, config.context, config.width});
  const Tensor y = forward(model.stack(), x, saved);
  KeptByBlock kept;
  kept.after_forward = saved.bytes();
  std::vector<Tensor> seen;
  for (const Op& op : ops) {
    if (op.is_sum()) continue;
    kept.rows.push_back({op.layer, {}, {}});
    add_kept(saved, op.layer, seen, kept.rows.back());
  }
  seen.clear();
  Layer& block = *model.stack()[0];
  block.backward_input(y, saved.child(block.name()));
  kept.after_dgrad = saved.bytes();
  return kept;
}

std::string block_svg() {
  const char* const title = "Forward and backward of one block";
  const KeptByBlock kept = kept_by_block();
  const TransformerConfig config = counted_config();
  std::string svg = svg::paper(900, 672, title);
  svg += text(20, 28, title, "start", ink, 15, true);
  svg +=
      text(20, 48,
           fmt::format("GPT-2 in f32, C {}, F {}, {} heads, {} sequences of {} tokens. x: the "
                       "row's input. Bars: bytes kept.",
                       config.width, config.feed_forward, config.heads, sequences, config.context));
  svg += heads_and_ends() + stream(0, 4) + stream(5, 9);
  for (size_t row = 0; row < std::size(ops); ++row) svg += op_svg(ops[row], row, kept);
  const auto size = [](int64_t bytes) { return console::bytes(static_cast<double>(bytes)); };
  svg += text(kept_at, row_y(9) + 14,
              fmt::format("In all {}. After every I and", size(kept.after_forward)));
  svg += text(kept_at, row_y(9) + 30,
              fmt::format("before any W: {}, x and dy", size(kept.after_dgrad)));
  const double y = row_y(9) + height + 50;
  svg += box(20, y - 10, 12, 12, forward_fill) + text(38, y, "an operation, forward") +
         box(190, y - 10, 12, 12, backward_fill) + text(208, y, "the same, backward") +
         box(350, y - 10, 12, 12, sum_fill) + text(368, y, "a sum of the residual stream") +
         box(560, y - 10, pixels_per_mib, 8, kept_fill) +
         text(568 + pixels_per_mib, y, "1 MiB kept") + text(714, y, "L: log-sum-exp of a row");
  return svg + "</svg>\n";
}

}  // namespace yotta
