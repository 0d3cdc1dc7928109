// The bodies of model/, but for model/files, which needs nlohmann/json (model_json.cpp).
#include "yotta/model/described_step.hpp"
#include "yotta/model/generate.hpp"
#include "yotta/model/gradient_groups.hpp"
#include "yotta/model/loader.hpp"
#include "yotta/model/nd_parallel.hpp"
#include "yotta/model/rerouted_model.hpp"
#include "yotta/model/text.hpp"
#include "yotta/model/tokenizer.hpp"
