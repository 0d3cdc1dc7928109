#include "yotta/model/files/hugging_face_names.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

using namespace yotta;
using namespace yotta_test;

namespace {
Tensor counting(Shape shape, float first) {
  Tensor made = Tensor::empty(std::move(shape));
  for (float& each : made.span<float>()) each = first++;
  return made;
}
}  // namespace

TEST_CASE("GPT-2's q, k and v become one matrix, transposed, and come back as they were") {
  const HuggingFaceTensor item{"c_attn.weight", {"q", "k", "v"}, true};
  const std::vector<Tensor> ours = {counting({2, 3}, 0), counting({2, 3}, 100),
                                    counting({2, 3}, 200)};
  CHECK(hugging_face_shape(item, ours) == Shape{3, 6});
  const Tensor theirs = to_hugging_face(item, ours);
  CHECK(theirs.shape() == Shape{3, 6});
  CHECK(theirs.item({0, 0}) == 0);    // q row 0, column 0
  CHECK(theirs.item({2, 1}) == 5);    // q row 1, column 2
  CHECK(theirs.item({1, 2}) == 101);  // k row 0, column 1
  CHECK(theirs.item({0, 5}) == 203);  // v row 1, column 0
  const std::vector<Tensor> back = from_hugging_face(item, theirs, ours);
  for (size_t i = 0; i < ours.size(); ++i) CHECK(back[i].values() == ours[i].values());
}

TEST_CASE("a tensor that is the same in both is not copied") {
  const std::vector<Tensor> ours = {counting({4}, 0)};
  CHECK(to_hugging_face({"ln_f.weight", {"norm.weight"}, false}, ours).shares_memory(ours[0]));
}

TEST_CASE("every parameter is in exactly one tensor, in both dialects, tied and untied") {
  for (const bool tied : {true, false}) {
    TransformerConfig gpt2 = gpt2_config(2, 8, 2, 4, 16);
    TransformerConfig llama = llama_config(2, 8, 24, 2, 1, 4, 16);
    gpt2.tied = llama.tied = tied;
    // embeddings, per layer, final norm, head: ours and theirs
    size_t ours = 0;
    for (const HuggingFaceTensor& item : hugging_face_tensors(gpt2)) ours += item.parts.size();
    CHECK(ours == 2 + 2 * 16 + 2 + (tied ? 0 : 1));
    CHECK(hugging_face_tensors(gpt2).size() == 2 + 2 * 12 + 2 + (tied ? 0u : 1u));
    CHECK(hugging_face_tensors(llama).size() == 1 + 2 * 9 + 1 + (tied ? 0u : 1u));
    CHECK(is_ignored_tensor("lm_head.weight", llama) == tied);
  }
  CHECK(is_ignored_tensor("h.0.attn.masked_bias", gpt2_config(2, 8, 2, 4, 16)));
  CHECK_FALSE(is_ignored_tensor("h.0.attn.c_attn.bias", gpt2_config(2, 8, 2, 4, 16)));
}

TEST_CASE("theirs are made of ours of the same meaning") {
  const auto parts_of = [](const TransformerConfig& config, const std::string& theirs) {
    for (const HuggingFaceTensor& item : hugging_face_tensors(config))
      if (item.name == theirs) return item.parts;
    return std::vector<std::string>{};
  };
  using Names = std::vector<std::string>;
  const TransformerConfig gpt2 = gpt2_config(2, 8, 2, 4, 16);
  const TransformerConfig llama = llama_config(2, 8, 24, 2, 1, 4, 16);
  CHECK(parts_of(gpt2, "transformer.h.1.attn.c_attn.bias") == Names{"layers.1.attention.q.bias",
                                                                    "layers.1.attention.k.bias",
                                                                    "layers.1.attention.v.bias"});
  for (const char* kind : {"gate", "up", "down"})
    CHECK(parts_of(llama, fmt::format("model.layers.1.mlp.{}_proj.weight", kind)) ==
          Names{fmt::format("layers.1.mlp.{}.weight", kind)});
}

TEST_CASE("a model with another parameter is refused by its name") {
  const TransformerConfig config = gpt2_config(1, 8, 2, 4, 16);
  std::vector<NamedTensor> weights;
  for (const HuggingFaceTensor& item : hugging_face_tensors(config))
    for (const std::string& part : item.parts) weights.push_back({part, Tensor::zeros({1})});
  expect_model_names(config, weights, Where::current());
  weights.back().name = "norm.bios";
  const std::string message =
      message_of([&] { expect_model_names(config, weights, Where::current()); });
  CHECK(contains(message, "norm.bi"));
  CHECK(contains(message, "the model in memory"));
}
