#error "not in Yotta's emulator: the driver API. Use the runtime API, cuda_runtime.h"
