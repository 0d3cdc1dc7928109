// The bodies of parallel/'s pipelines and of activation checkpointing.
#include "yotta/parallel/activation_checkpointing.hpp"
#include "yotta/parallel/pipeline.hpp"
#include "yotta/parallel/pipeline_kinds.hpp"
#include "yotta/parallel/pipeline_picture.hpp"
#include "yotta/parallel/rerouted_pipeline.hpp"
