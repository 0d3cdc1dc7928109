#error "not in Yotta's emulator: Thrust. Use cudaMalloc and kernels, or compile the program with nvcc"
