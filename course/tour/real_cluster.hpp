// What a model would need on a real cluster: the planner's answer, for the end of the tour.
#pragma once

#include "yotta/nn/transformer_config.hpp"

namespace yotta {

// The best layout of this model on a node, and of a larger one on two nodes.
void print_on_real_clusters(const TransformerConfig& model);

}  // namespace yotta
