// Golden checkpoints and logits come from Hugging Face's transformers: golden/README.md says how,
// and how to let transformers open what we write (YOTTA_KEEP_CHECKPOINTS).
#include "yotta/model/files/checkpoint.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/message_of.hpp"
#include "support/not_run.hpp"
#include "support/temporary_folder.hpp"
#include "yotta/core/files/json.hpp"
#include "yotta/core/system/files.hpp"
#include "yotta/model/files/hugging_face.hpp"
#include "yotta/model/files/safetensors.hpp"
#include "yotta/model/text.hpp"
#include "yotta/nn/adamw.hpp"
#include "yotta/nn/cross_entropy.hpp"
#include "yotta/nn/linear.hpp"
#include "yotta/nn/sgd.hpp"
#include "yotta/parallel/expert_parallel.hpp"

using namespace yotta;
using namespace yotta_test;
namespace fs = std::filesystem;

namespace {
const fs::path golden = fs::path(YOTTA_SOURCE_DIR) / "tests/model/golden";

std::vector<NamedTensor> weights(const Transformer& model) {
  return named_values(parameters(model.stack()));
}

// Every weight random: at their initial values biases and norms would hide mistakes.
void randomize(const Transformer& model, uint64_t seed) {
  for (NamedTensor each : weights(model)) {
    fill_initial(each.value, {1, each.value.numel()}, normal(0.4), seed, each.name);
  }
}

Tensor logits_of(const Transformer& model, const Tensor& ids) {
  Saved saved;
  return forward(model.stack(), ids, saved);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  const std::vector<double> x = a.values(), y = b.values();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i)
    if (!(std::abs(x[i] - y[i]) <= largest)) largest = std::abs(x[i] - y[i]);
  return largest;
}

bool same_bits(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].name == b[i].name && a[i].value.describe() == b[i].value.describe() &&
           std::memcmp(a[i].value.raw(), b[i].value.raw(),
                       static_cast<size_t>(a[i].value.nbytes())) == 0;
  return same;
}

TransformerConfig tiny(Dialect dialect, bool tied, DType dtype = DType::f32) {
  TransformerConfig config =
      dialect == Dialect::gpt2 ? gpt2_config(2, 8, 2, 7, 11) : llama_config(2, 16, 20, 4, 2, 7, 11);
  config.feed_forward = 20;
  config.tied = tied;
  config.dtype = dtype;
  config.norm_epsilon = 1e-3;
  config.rope_theta = 100;
  return config;
}
}  // namespace

TEST_CASE("checkpoints that transformers wrote give transformers' logits") {
  for (const char* name : {"gpt2", "llama", "mixtral"}) {
    CAPTURE(std::string(name));
    SafetensorsFile expected(golden / name / "expected.safetensors");
    const Tensor ids = expected.read("input_ids");  // (2, 6)
    TransformerConfig config = load_config(golden / name);
    for (const AttentionKind attention : {AttentionKind::plain, AttentionKind::blockwise}) {
      config.attention = attention;
      const Transformer model = serial_model(config);
      CHECK(largest_difference(logits_of(model, ids), expected.read("logits")) > 0.1);
      load_weights(golden / name, config, weights(model));
      CHECK(largest_difference(logits_of(model, ids), expected.read("logits")) <= 1e-5);
    }
    config.dtype = DType::f64;  // the same weights in a wider model
    const Transformer wide = serial_model(config);
    load_weights(golden / name, config, weights(wide));
    CHECK(largest_difference(logits_of(wide, ids), expected.read("logits")) <= 1e-5);
  }
}

TEST_CASE("what is saved is loaded, bit for bit, in every dialect and type") {
  const TemporaryFolder temporary;
  const char* keep = std::getenv("YOTTA_KEEP_CHECKPOINTS");
  const fs::path folder = keep != nullptr ? fs::path(keep) : temporary.path();
  for (const Dialect dialect : {Dialect::gpt2, Dialect::llama})
    for (const bool tied : {true, false})
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
        const TransformerConfig config = tiny(dialect, tied, dtype);
        const fs::path where =
            folder / fmt::format("{}_{}_{}", name(dialect), tied ? "tied" : "untied", name(dtype));
        const Transformer model(config), again(config);
        randomize(model, 5);
        save_checkpoint(where, config, weights(model));
        CHECK_FALSE(same_bits(weights(again), weights(model)));
        load_weights(where, load_config(where), weights(again));
        CHECK(same_bits(weights(again), weights(model)));
        const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 10, 0, 5, 7, 7, 9, 4}, {2, 5});
        save_safetensors(where / "expected.safetensors",
                         {{"input_ids", ids}, {"logits", logits_of(model, ids).to(DType::f32)}});
      }
}

TEST_CASE("a mixture is saved in Mixtral's form and loaded, bit for bit") {
  const TemporaryFolder temporary;
  const char* keep = std::getenv("YOTTA_KEEP_CHECKPOINTS");
  const fs::path folder = keep != nullptr ? fs::path(keep) : temporary.path();
  for (const int64_t k : {2, 3})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      TransformerConfig config = tiny(Dialect::llama, false, dtype);
      config.mixture.experts = 5, config.mixture.top_k = k;
      const fs::path where = folder / fmt::format("mixtral_top_{}_{}", k, name(dtype));
      const Transformer model = serial_model(config), again = serial_model(config);
      randomize(model, 5);
      save_checkpoint(where, config, weights(model));
      load_weights(where, load_config(where), weights(again));
      CHECK(same_bits(weights(again), weights(model)));
      const Tensor ids = Tensor::from<int32_t>({1, 2, 3, 10, 0, 5, 7, 7, 9, 4}, {2, 5});
      save_safetensors(where / "expected.safetensors",
                       {{"input_ids", ids}, {"logits", logits_of(model, ids).to(DType::f32)}});
      config.mixture.top_k = 4;
      CHECK(contains(
          message_of([&] { load_weights(where, config, weights(again)); }),
          fmt::format("holds a model of 5 experts, {} for each token; expected 5 experts, 4 "
                      "for each token",
                      k)));
      config.mixture.shared = 1;
      CHECK(contains(message_of([&] { save_checkpoint(where, config, weights(model)); }),
                     "a mixture with a shared expert cannot be kept in files"));
    }
}

TEST_CASE("our files have transformers' names and shapes") {
  const TemporaryFolder folder;
  for (const char* name : {"gpt2", "llama", "mixtral"}) {
    const TransformerConfig config = load_config(golden / name);
    const Transformer model = serial_model(config);
    save_checkpoint(folder / name, config, weights(model));
    const WeightsFolder ours(folder / name), theirs(golden / name);
    REQUIRE(ours.tensors().size() == theirs.tensors().size());
    for (const auto& [tensor, file] : theirs.tensors()) {
      REQUIRE(ours.tensors().contains(tensor));
      CHECK(ours.entry(tensor).shape == theirs.entry(tensor).shape);
    }
    CHECK(ours.metadata().at("format") == "pt");
  }
}

TEST_CASE("older GPT-2 files without prefix and with masks are read") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> theirs;
  for (const NamedTensor& each : load_safetensors(golden / "gpt2/model.safetensors"))
    theirs.push_back({each.name.substr(std::string("transformer.").size()), each.value});
  theirs.push_back({"h.0.attn.bias", Tensor::zeros({1, 1, 7, 7}, DType::u8)});
  theirs.push_back({"h.0.attn.masked_bias", Tensor::full({}, -10000)});
  fs::copy_file(golden / "gpt2/config.json", folder / "config.json");
  save_safetensors(folder / "model.safetensors", theirs);
  std::string bytes = read_file(folder / "model.safetensors");  // a type that is none of ours
  bytes.replace(bytes.find("\"U8\""), 4, "\"B\" ");
  write_file(folder / "model.safetensors", bytes);
  const TransformerConfig config = load_config(folder.path());
  const Transformer model(config), expected(config);
  CHECK(load_weights(folder.path(), config, weights(model)) ==
        std::vector<std::string>{"h.0.attn.bias", "h.0.attn.masked_bias"});
  CHECK(load_weights(golden / "gpt2", config, weights(expected)).empty());
  CHECK(same_bits(weights(model), weights(expected)));
}

TEST_CASE("a tied table is loaded under either name, or under both if they are the same") {
  const TemporaryFolder folder;
  const TransformerConfig config = tiny(Dialect::llama, true);
  const Transformer saved(config);
  randomize(saved, 3);
  save_checkpoint(folder.path(), config, weights(saved));
  const std::vector<NamedTensor> theirs = load_safetensors(folder / "model.safetensors");
  const std::string table = "model.embed_tokens.weight";
  // The file with its table under these names, the last time with another number in it.
  const auto loading = [&](std::vector<std::string> names, double added) {
    std::vector<NamedTensor> tensors;
    for (const NamedTensor& each : theirs) {
      if (each.name != table) tensors.push_back(each);
      for (const std::string& name : names)
        if (each.name == table) tensors.push_back({name, each.value.clone()});
    }
    for (NamedTensor& each : tensors)
      if (each.name == "lm_head.weight") each.value.data<float>()[5] += static_cast<float>(added);
    save_safetensors(folder / "model.safetensors", tensors);
    const Transformer loaded(config);
    const std::string text =
        message_of([&] { load_weights(folder.path(), config, weights(loaded)); });
    return text == "nothing was thrown" && !same_bits(weights(loaded), weights(saved)) ? "other"
                                                                                       : text;
  };
  CHECK(loading({table}, 0) == "nothing was thrown");
  CHECK(loading({"lm_head.weight"}, 0) == "nothing was thrown");
  CHECK(loading({table, "lm_head.weight"}, 0) == "nothing was thrown");
  const std::string text = loading({table, "lm_head.weight"}, 1e-3);
  CHECK(contains(text,
                 "'model.embed_tokens.weight' and 'lm_head.weight' differ; set "
                 "tie_word_embeddings to false"));
}

TEST_CASE("what a model came with goes out again, but for what has changed") {
  const TemporaryFolder folder;
  const TransformerConfig config = tiny(Dialect::llama, false);
  const Transformer model(config);
  save_checkpoint(folder / "in", config, weights(model));
  std::string text = read_file(folder / "in/config.json");
  text.replace(text.find("\"bos_token_id\": null"), 20, "\"bos_token_id\": 7, \"use_cache\": true");
  write_file(folder / "in/config.json", text);
  write_file(folder / "in/generation_config.json", "{\"top_p\": 0.9}");
  write_file(folder / "in/tokenizer_config.json", "{}");
  const KeptFiles kept = read_kept_files(folder / "in");
  CHECK(kept.size() == 3);
  save_checkpoint(folder / "out", config, weights(model), nullptr, kept);
  CHECK(read_kept_files(folder / "out").at("generation_config.json") == "{\"top_p\": 0.9}");
  CHECK(nlohmann::json::parse(read_file(folder / "out/config.json")) ==
        nlohmann::json::parse(text));

  TransformerConfig longer = config;
  longer.context = 14;
  auto expected = nlohmann::json::parse(text);
  expected["max_position_embeddings"] = 14;
  CHECK(nlohmann::json::parse(hugging_face_config(longer, text)) == expected);
}

TEST_CASE("another model is refused by name and the weights stay as they were") {
  const TemporaryFolder folder;
  const TransformerConfig config = tiny(Dialect::gpt2, true);
  const Transformer model(config), before(config);
  save_checkpoint(folder.path(), config, weights(model));
  const auto loading = [&](const TransformerConfig& asked) {
    const Transformer other(asked);
    return message_of([&] { load_weights(folder.path(), asked, weights(other)); });
  };
  const auto with = [&](auto change) {
    TransformerConfig asked = config;
    change(asked);
    return loading(asked);
  };
  CHECK(
      contains(loading(tiny(Dialect::llama, true)), "holds a gpt2 model; expected a llama model"));
  CHECK(contains(with([](auto& c) { c.layers = 3; }), "layers = 2; expected 3"));
  CHECK(contains(with([](auto& c) { c.width = 16; }), "width = 8; expected 16"));
  CHECK(contains(with([](auto& c) { c.context = 8; }), "context = 7; expected 8"));
  CHECK(contains(with([](auto& c) { c.tied = false; }), "tied to the token table"));

  // A file that does not fit its config.json.
  const std::vector<NamedTensor> good = load_safetensors(folder / "model.safetensors");
  const auto file_of = [&](std::vector<NamedTensor> tensors) {
    save_safetensors(folder / "model.safetensors", tensors);
    return message_of([&] { load_weights(folder.path(), config, weights(model)); });
  };
  std::vector<NamedTensor> fewer = good, more = good, wrong = good, integer = good, nan = good;
  fewer.erase(fewer.begin());
  more.push_back({"transformer.h.2.ln_1.weight", Tensor::zeros({8})});
  wrong.back().value = Tensor::zeros({11, 9});
  integer.back().value = Tensor::zeros({11, 8}, DType::i32);
  nan.back().value = Tensor::full({11, 8}, NAN);
  CHECK(contains(file_of(fewer), "lacks 1 tensors of this model (" + good[0].name + ")"));
  CHECK(contains(file_of(more),
                 "1 tensors that this model does not have (transformer.h.2.ln_1.weight)"));
  CHECK(contains(file_of(wrong), "'transformer.wte.weight' is (11, 9) f32, expected (11, 8) f32"));
  CHECK(contains(file_of(integer), "is (11, 8) i32, expected (11, 8) f32"));
  CHECK(
      contains(file_of(nan), folder.path().string() + ": 'transformer.wte.weight' is not finite"));
  CHECK(same_bits(weights(model), weights(before)));
  CHECK(file_of(good) == "nothing was thrown");

  const std::vector<NamedTensor> few(good.begin(), good.begin() + 1);
  CHECK(contains(message_of([&] { save_checkpoint(folder.path(), config, few); }),
                 "the model in memory lacks"));
  CHECK(contains(message_of([&] { load_config(folder / "nowhere"); }),
                 "nowhere/config.json is missing"));
  write_file(folder / "file", "");
  CHECK(contains(message_of([&] { save_checkpoint(folder / "file", config, weights(model)); }),
                 "cannot be made"));
}

TEST_CASE("a damaged file changes no weight") {
  const TemporaryFolder folder;
  const TransformerConfig config = tiny(Dialect::llama, false);
  const Transformer model(config), before(config);
  save_checkpoint(folder.path(), config, weights(model));
  const std::string good = read_file(folder / "model.safetensors");
  const Random random(2, "fuzz");
  int refused = 0;
  for (uint32_t trial = 0; trial < 200; ++trial) {
    std::string bytes = good;
    bytes.resize(random.below(3 * trial, static_cast<uint32_t>(good.size())));
    if (trial % 2 == 0) {
      bytes = good;
      bytes[random.below(3 * trial + 1, 2000)] =
          static_cast<char>(random.below(3 * trial + 2, 256));
    }
    std::ofstream(folder / "model.safetensors", std::ios::binary) << bytes;
    try {
      load_weights(folder.path(), config, weights(model));
      if (bytes == good) ++refused;
    } catch (const Error&) {
      ++refused;
      REQUIRE(same_bits(weights(model), weights(before)));
    }
  }
  CHECK(refused > 150);
}

namespace {
// A run on random bytes: losses of steps [first, last).
struct Run {
  explicit Run(const TransformerConfig& config)
      : model(config), parameters(yotta::parameters(model.stack())), adam(parameters) {
    for (int i = 0; i < 500; ++i) text += static_cast<char>(Random(1, "text").below(i, 11));
  }
  std::vector<double> train(int64_t first, int64_t last) {
    const Batches batches(text, 7, seed);
    std::vector<double> losses;
    for (int64_t step = first; step < last; ++step) {
      const Batch batch = batches.draw(step, 0, 3);
      Saved saved(BatchPosition{seed, step, 0, 0, true});
      const Tensor logits = as_rows(forward(model.stack(), batch.inputs, saved));  // (21, 11)
      const Tensor targets = batch.targets.reshape({-1});
      const double scale = 1.0 / static_cast<double>(targets.numel());
      const CrossEntropy result = cross_entropy(logits, targets, scale);
      losses.push_back(result.loss);
      const Tensor dlogits =
          cross_entropy_backward(logits, targets, result.log_sum_exp, scale);  // (21, 11)
      backward(model.stack(), dlogits.reshape({3, 7, 11}), saved);
      adam.step(0.01);
      zero_gradients(model.stack());
    }
    return losses;
  }
  static constexpr uint64_t seed = 9;
  Transformer model;
  std::vector<ParameterPtr> parameters;
  AdamW adam;
  std::string text;
};
}  // namespace

TEST_CASE("a run that is continued has the losses of one that never stopped, bit for bit") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TransformerConfig config = tiny(Dialect::gpt2, true, dtype);
    config.dropout = 0.1;
    Run whole(config), first(config), second(config);
    const std::vector<double> losses = whole.train(0, 6);
    first.train(0, 3);
    const TrainingState saving = training_state(first.adam, 3, Run::seed, {{"batch", "3"}});
    save_checkpoint(folder.path(), config, named_values(first.parameters), &saving);

    load_weights(folder.path(), config, named_values(second.parameters));
    const TrainingState state = load_training_state(folder.path());
    restore_optimizer(state, second.adam);
    CHECK(state.step == 3);
    CHECK(state.seed == Run::seed);
    CHECK(second.train(3, 6) == std::vector<double>(losses.begin() + 3, losses.end()));
  }
}

namespace {
constexpr const char* saved_files[] = {"config.json", "model.safetensors", "training_state.json",
                                       "training_state.safetensors"};

// Every name in a folder, and what its file holds.
std::map<std::string, std::string> all_of(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const fs::directory_entry& each : fs::directory_iterator(folder))
    all[each.path().filename().string()] = each.is_regular_file() ? read_file(each.path()) : "";
  return all;
}

std::string saving(const fs::path& folder, Run& run) {
  return message_of([&] {
    const TrainingState state = training_state(run.adam, 2, 0);
    save_checkpoint(folder.string(), run.model.config(), named_values(run.parameters), &state);
  });
}
}  // namespace

TEST_CASE("saving follows no planted link, loading changes nothing in a folder") {
  const TemporaryFolder folder, elsewhere;
  Run run(tiny(Dialect::gpt2, true));
  for (const char* name : {"config.json", "model.safetensors", "training_state.json",
                           "training_state.safetensors", "commit.list"}) {
    write_file(elsewhere / name, "foreign");
    fs::create_symlink(elsewhere / name, folder / (std::string(name) + ".partial"));
  }
  CHECK(saving(folder.path(), run) == "nothing was thrown");
  for (const auto& [name, text] : all_of(elsewhere.path())) CHECK(text == "foreign");

  // A save that was cut short when it had been decided; and a link that waits for a lock.
  for (const char* name : saved_files) {
    fs::rename(folder / name, folder / (std::string(name) + ".partial"));
    write_file(folder / commit_list,
               "config.json\nmodel.safetensors\ntraining_state.json\n"
               "training_state.safetensors\n");
  }
  write_file(elsewhere / "locked", "foreign");
  fs::create_symlink(elsewhere / "locked", folder / ".lock");
  const auto before = all_of(folder.path());
  const std::vector<ParameterPtr> loaded = parameters(Transformer(run.model.config()).stack());
  load_weights(folder.path(), run.model.config(), named_values(loaded));
  CHECK(same_bits(named_values(loaded), named_values(run.parameters)));
  CHECK(load_training_state(folder.path()).step == 2);
  CHECK(all_of(folder.path()) == before);
  CHECK(read_file(elsewhere / "locked") == "foreign");
}

TEST_CASE("what is not a plain file under a checkpoint's name is refused by name at once") {
  const TemporaryFolder folder;
  Run run(tiny(Dialect::gpt2, true));
  for (const char* name : saved_files) {
    REQUIRE(saving(folder.path(), run) == "nothing was thrown");
    const auto loading = [&] {
      return message_of([&] {
        load_weights(folder.path(), run.model.config(), named_values(run.parameters));
        load_training_state(folder.path());
      });
    };
    fs::remove(folder / name);
    REQUIRE(mkfifo((folder / name).c_str(), 0600) == 0);
    CHECK(contains(saving(folder.path(), run), std::string(name) + ": this is not a plain file"));
    CHECK(contains(loading(), std::string(name) + ": this is not a plain file"));
    fs::remove(folder / name);
    fs::create_symlink("/dev/zero", folder / name);
    CHECK(contains(saving(folder.path(), run), std::string(name) + ": this is not a plain file"));
    CHECK(contains(loading(), std::string(name) + ": this is not a plain file"));
    fs::remove(folder / name);
    fs::create_symlink(name, folder / name);
    CHECK(contains(saving(folder.path(), run), std::string(name) + ": its links lead in a circle"));
    CHECK(contains(loading(), std::string(name) + ": its links lead in a circle"));
    fs::remove(folder / name);
    fs::create_directory(folder / name);
    CHECK(contains(saving(folder.path(), run), std::string(name) + ": this is a folder"));
    CHECK(contains(loading(), std::string(name) + ": this is a folder"));
    fs::remove(folder / name);
  }
}

TEST_CASE("files of different steps are never mixed") {
  const TemporaryFolder folder;
  Run run(tiny(Dialect::gpt2, true));
  const auto save = [&](const char* name, int64_t step) {
    const TrainingState state = training_state(run.adam, step, 0);
    save_checkpoint(folder / name, run.model.config(), named_values(run.parameters), &state);
  };
  const auto loading = [&](const char* name) {
    return message_of([&] { load_training_state(folder / name); });
  };
  save("old", 10);
  save("new", 20);
  CHECK(loading("old") == "nothing was thrown");
  for (const char* file : {"model.safetensors", "training_state.safetensors"}) {
    save("old", 10);
    fs::copy_file(folder / "new" / file, folder / "old" / file,
                  fs::copy_options::overwrite_existing);
    CHECK(contains(loading("old"), "the files are of different steps, 10 and 20"));
  }
  save_checkpoint(folder / "old", run.model.config(), named_values(run.parameters));
  CHECK(contains(loading("old"), "the files are of different steps, 10 and none"));
  fs::remove(folder / "new/training_state.json");
  CHECK(contains(loading("new"), "no run that could be continued"));
}

namespace {
ParameterPtr weight(const char* name, DType dtype, int64_t rows = 3) {
  return make_parameter(name, {rows, 5}, true, normal(1), 1, dtype);
}
// One step of something to learn, different in every step.
void train(const std::vector<ParameterPtr>& parameters, Optimizer& optimizer, int64_t step) {
  for (const ParameterPtr& each : parameters) {
    Tensor& gradient = each->gradient();
    const Random random(3, each->name);
    for (int64_t i = 0; i < gradient.numel(); ++i)
      gradient.data<float>()[i] = static_cast<float>(random.normal(1000 * step + i));
  }
  optimizer.step(0.01);
}
std::vector<double> values(const std::vector<ParameterPtr>& parameters) {
  std::vector<double> all;
  for (const ParameterPtr& each : parameters)
    for (const double value : each->value.values()) all.push_back(value);
  return all;
}
}  // namespace

TEST_CASE("a continued run has the bits of one that never stopped") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto fresh = [&] { return std::vector{weight("a", dtype), weight("b", dtype)}; };
    const std::vector<ParameterPtr> whole = fresh(), first = fresh(), second = fresh();
    AdamW whole_adam(whole), first_adam(first);
    for (int64_t step = 0; step < 6; ++step) train(whole, whole_adam, step);
    for (int64_t step = 0; step < 3; ++step) train(first, first_adam, step);

    const TrainingState state = training_state(first_adam, 3, 42, {{"batch", "8"}});
    write_file(folder / "state.json", training_state_json(state));
    save_safetensors(folder / "state.safetensors", state.tensors);
    save_safetensors(folder / "weights", named_values(first));

    TrainingState read = parse_training_state(read_file(folder / "state.json"), "state.json");
    read.tensors = load_safetensors(folder / "state.safetensors");
    CHECK(read.step == 3);
    CHECK(read.seed == 42);
    CHECK(read.options == state.options);
    CHECK(read.tensors.size() == (dtype == DType::bf16 ? 6 : 4));
    assign_all(named_values(second), load_safetensors(folder / "weights"), "weights");
    AdamW second_adam(second);
    restore_optimizer(read, second_adam);
    for (int64_t step = read.step; step < 6; ++step) train(second, second_adam, step);
    CHECK(values(second) == values(whole));
  }
}

TEST_CASE("the state of another optimizer or model is refused and nothing is changed") {
  const std::vector<ParameterPtr> one{weight("a", DType::f32)};
  AdamW adam(one);
  train(one, adam, 0);
  const TrainingState state = training_state(adam, 1, 0);
  const auto restoring = [&](Optimizer& into) {
    const std::string message = message_of([&] { restore_optimizer(state, into); });
    CHECK(into.steps() == 0);
    return message;
  };
  Sgd sgd(one, {.momentum = 0.9});
  CHECK(contains(restoring(sgd), "lacks 1 tensors of this model (momentum_buffer.a)"));
  AdamW renamed({weight("b", DType::f32)});
  CHECK(contains(restoring(renamed), "exp_avg.b"));
  AdamW larger({weight("a", DType::f32, 4)});
  CHECK(contains(restoring(larger), "'exp_avg.a' is (3, 5) f32, expected (4, 5) f32"));
  AdamW narrow({weight("a", DType::bf16)});
  CHECK(contains(restoring(narrow), "lacks 1 tensors of this model (master.a)"));
}

TEST_CASE("a run is continued with the options it was started with") {
  TrainingState state;
  state.options = {{"batch", "8"}, {"lr", "0.001"}};
  CHECK(message_of([&] { expect_same_options(state, state.options); }) == "nothing was thrown");
  CHECK(contains(message_of([&] {
                   expect_same_options(state, {{"batch", "8"}, {"lr", "0.1"}});
                 }),
                 "was started with lr 0.001, and is continued with 0.1"));
  CHECK(contains(message_of([&] {
                   expect_same_options(state, {{"lr", "0.001"}});
                 }),
                 "batch 8, and is continued with none"));
  state.options.erase("batch");
  CHECK(contains(message_of([&] {
                   expect_same_options(state, {{"batch", "8"}, {"lr", "0.001"}});
                 }),
                 "the saved run does not say its batch, and 8 would continue it"));
}

TEST_CASE("a broken training_state.json is refused") {
  const auto parsing = [](const std::string& text) {
    return message_of([&] { parse_training_state(text, "state.json"); });
  };
  CHECK(contains(parsing("{"), "state.json is not a training state"));
  CHECK(contains(parsing("{}"), "'step' not found"));
  for (const char* text : {"[]", "null", "5"})
    CHECK(parsing(text).ends_with("state.json is not a training state: 'step' not found"));
  CHECK(contains(parsing(R"({"step": "3", "seed": 1, "optimizer_steps": 1, "options": {}})"),
                 "state.json is not a training state"));
  for (const char* steps : {"-1", "4", "1000000000000000"})
    CHECK(
        contains(parsing(fmt::format(
                     R"({{"step": 3, "seed": 1, "optimizer_steps": {}, "options": {{}}}})", steps)),
                 fmt::format("cannot have taken {} steps in a run of 3", steps)));
  CHECK(parsing(R"({"step": 3, "seed": 1, "optimizer_steps": 1, "options": {}})") ==
        "nothing was thrown");
}

TEST_CASE("a hostile training_state.json is refused by its name") {
  const auto parsing = [](const std::string& text) {
    return message_of([&] { parse_training_state(text, "state.json"); });
  };
  for (const auto& [text, expected] :
       {std::pair{std::string(200'000, '['), "nested more than 64 deep"},
        {"{\"step\": 1e400}", "number overflow parsing '1e400'"},
        {"{\"step\xFF\": 1}", "ill-formed UTF-8"},
        {"{\"step\": 1, \"step\": 2}", "the name 'step' appears twice"}}) {
    CHECK(contains(parsing(text), "state.json is not a training state"));
    CHECK(contains(parsing(text), expected));
  }
  TrainingState state;
  state.options = {{"text", "\xFF"}};
  CHECK(contains(message_of([&] { training_state_json(state); }), "'text' is not UTF-8"));
}

TEST_CASE("numbers that no run has are refused in training_state.json") {
  const auto parsing = [](const char* key, const char* value) {
    std::map<std::string, std::string> numbers{
        {"step", "3"}, {"seed", "1"}, {"optimizer_steps", "1"}};
    numbers[key] = value;
    return message_of([&] {
      parse_training_state(
          fmt::format(R"({{"step": {}, "seed": {}, "optimizer_steps": {}, "options": {{}}}})",
                      numbers["step"], numbers["seed"], numbers["optimizer_steps"]),
          "state.json");
    });
  };
  for (const char* key : {"step", "seed", "optimizer_steps"})
    for (const char* value : {"3.9", "1e308", "1.0", "null", "true", "[]"}) {
      CHECK(contains(parsing(key, value), "state.json is not a training state"));
      CHECK(contains(parsing(key, value), fmt::format("{} is ", key)));
    }
  for (const char* key : {"step", "seed"})
    CHECK(contains(parsing(key, "-1"), fmt::format("{} is -1, expected a whole number", key)));
  for (const char* key : {"step", "optimizer_steps"})
    CHECK(contains(parsing(key, "9223372036854775807"), fmt::format("{} is 9223372036", key)));
  CHECK(parsing("seed", "18446744073709551615") == "nothing was thrown");
}

TEST_CASE("a damaged state of an optimizer is refused before anything is changed") {
  const TemporaryFolder folder;
  Run run(tiny(Dialect::gpt2, true));
  run.train(0, 1);
  const auto loading = [&](const std::string& kind, float value) {
    TrainingState state = training_state(run.adam, 1, 0);
    for (NamedTensor& each : state.tensors)
      if (each.name == kind + ".norm.bias") {
        each.value = each.value.clone();
        each.value.data<float>()[3] = value;
      }
    save_checkpoint(folder.path(), run.model.config(), named_values(run.parameters), &state);
    return message_of([&] { load_training_state(folder.path()); });
  };
  CHECK(loading("exp_avg", -1) == "nothing was thrown");
  for (const char* kind : {"exp_avg", "exp_avg_sq"})
    CHECK(contains(loading(kind, std::nanf("")),
                   fmt::format("training_state.safetensors: '{}.norm.bias' is not finite", kind)));
  CHECK(contains(loading("exp_avg_sq", -1e-9f),
                 "training_state.safetensors: 'exp_avg_sq.norm.bias' is below 0"));
}

TEST_CASE("a model that has only PyTorch's own files says how to convert them") {
  const TransformerConfig config = tiny(Dialect::llama, false);
  const Transformer model(config);
  for (const char* name :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"})
    for (const bool has_config : {true, false}) {
      const TemporaryFolder folder;
      save_checkpoint(folder.path(), config, weights(model));
      fs::rename(folder / "model.safetensors", folder / name);
      if (!has_config) fs::remove(folder / "config.json");
      const std::string first = message_of([&] { load_config(folder.path()); });
      const std::string then = message_of([&] { WeightsFolder{folder.path()}; });
      for (const std::string& message : {first, then}) {
        CHECK(contains(message, std::string(name) + ", and not in model.safetensors"));
        CHECK(contains(message, "convert"));
        CHECK(contains(message, ".save_pretrained('" + folder.path().string() + "')"));
      }
      save_checkpoint(folder.path(), config, weights(model));  // what is converted is loaded
      CHECK_NOTHROW(load_weights(folder.path(), load_config(folder.path()), weights(model)));
    }
}

TEST_CASE("a Llama 3.1 is saved and loaded, and computes with its scaled rope") {
  const TemporaryFolder folder;
  TransformerConfig config = tiny(Dialect::llama, false);
  config.rope_scaling = {8, 1, 4, 16};  // of two pairs in a head the slow one is scaled
  const Transformer saved(config);
  randomize(saved, 3);
  save_checkpoint(folder.path(), config, weights(saved));
  const Transformer loaded(load_config(folder.path()));
  load_weights(folder.path(), loaded.config(), weights(loaded));
  const Tensor ids = Tensor::from<int32_t>({3, 1, 4, 1, 5, 9}, {1, 6});
  CHECK(largest_difference(logits_of(loaded, ids), logits_of(saved, ids)) == 0);
  config.rope_scaling = {};
  const Transformer plain(config);
  assign_all(weights(plain), weights(saved), "the other");
  CHECK(largest_difference(logits_of(plain, ids), logits_of(saved, ids)) >= 1e-3);
}

TEST_CASE("a tokenizer.json is saved with the model, in the same step") {
  const TemporaryFolder folder;
  const TransformerConfig config = gpt2_config(1, 8, 2, 4, 11);
  const Transformer model(config);
  save_checkpoint(folder / "bytes", config, weights(model));
  CHECK_FALSE(std::filesystem::exists(folder / "bytes/tokenizer.json"));
  save_checkpoint(folder / "own", config, weights(model), nullptr,
                  {{"tokenizer.json", "{\"a\": 1}"}});
  CHECK(read_file(folder / "own/tokenizer.json") == "{\"a\": 1}");
  std::filesystem::create_directories(folder / "blocked/tokenizer.json");
  CHECK(contains(message_of([&] { expect_savable(folder / "blocked"); }), "this is a folder"));
}

TEST_CASE(
    "a process is killed at any time while it saves two models in turn: one of them is there, "
    "whole") {
  const TemporaryFolder folder;
  const std::string place = folder / "model";
  const TransformerConfig config = tiny(Dialect::llama, false);
  const Transformer some(config), other(config);
  randomize(some, 1);
  randomize(other, 2);
  save_checkpoint(place, config, weights(some));
  const Random delays(1, "kills");
  int of_other = 0;
  for (int kills = 0; kills < (long_form() ? 250 : 10); ++kills) {
    const pid_t saver = fork();
    REQUIRE(saver >= 0);
    if (saver == 0) alarm(10);  // it never outlives this test
    while (saver == 0) {
      save_checkpoint(place, config, weights(other));
      save_checkpoint(place, config, weights(some));
    }
    usleep(static_cast<useconds_t>(1000 + 29000 * delays.uniform(static_cast<uint64_t>(kills))));
    kill(saver, SIGKILL);
    waitpid(saver, nullptr, 0);
    const Transformer read(config);
    load_weights(place, config, weights(read));
    const bool is_some = same_bits(weights(read), weights(some));
    of_other += is_some ? 0 : 1;
    CHECK((is_some || same_bits(weights(read), weights(other))));
  }
  if (long_form()) CHECK(of_other > 0);  // it was killed after saves of each
}
