// The bodies of parallel/'s data parallelism: DDP, ZeRO, FSDP.
#include "yotta/parallel/ddp.hpp"
#include "yotta/parallel/diloco.hpp"
#include "yotta/parallel/fsdp.hpp"
#include "yotta/parallel/hsdp.hpp"
#include "yotta/parallel/hsdp_cost.hpp"
#include "yotta/parallel/naive_fsdp.hpp"
#include "yotta/parallel/tied_parameters.hpp"
#include "yotta/parallel/zero.hpp"
