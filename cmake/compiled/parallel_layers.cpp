// The bodies of parallel/'s layers: tensor and context parallelism.
#include "yotta/parallel/attention_layer.hpp"
#include "yotta/parallel/context_parallel.hpp"
#include "yotta/parallel/ring_attention.hpp"
#include "yotta/parallel/sequence_parallel.hpp"
#include "yotta/parallel/tensor_parallel.hpp"
#include "yotta/parallel/ulysses.hpp"
#include "yotta/parallel/vocab_parallel.hpp"
