# The parts of yotta::compiled. Each part after those that it needs.
set(yotta_parts core files clock machine device ranks comm sharding transports nn kernels parallel model resilience tokenizer plan planner)
set(yotta_needs_core)
set(yotta_needs_files core)
set(yotta_needs_clock core)
set(yotta_needs_machine clock files)
set(yotta_needs_device core)
set(yotta_needs_ranks clock)  # communicators, and ranks that are threads
set(yotta_needs_comm ranks machine)
set(yotta_needs_sharding comm)
set(yotta_needs_transports comm)
set(yotta_needs_nn core)
set(yotta_needs_kernels nn device)
set(yotta_needs_parallel comm nn)
set(yotta_needs_model parallel)
set(yotta_needs_resilience model)
set(yotta_needs_tokenizer model)
set(yotta_needs_plan machine)  # what reads timelines alone
set(yotta_needs_planner plan model)
