#error "not in Yotta's emulator: cuBLAS. Write the product as a kernel (mma.h), or compile the program with nvcc"
