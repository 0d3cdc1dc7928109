# What nvcc makes of the course, and what a GPU makes of that. Included by tests/CMakeLists.txt.
#
#     nvcc_headers     the headers that nvcc compiles, in one file
#     nvcc_<file>      every .cu file
#     nvcc_registers_<file>_<arch>
#                      registers, spills and occupancy of its kernels, against registers.tsv
#     nvcc_gpu_tests   the tests whose kernels also run on a GPU, joined into one program of cases:
#                      gpu_tests
#     nvcc_gpu_code    for which GPUs it has code
#     gpu_tests        that program on a GPU; gpu_memcheck and its like: under compute-sanitizer's
#                      tools
#
# Compiling needs no GPU. Where there is none, the last say "not run". With one, bench/gpu_session
# does all of it and the benchmarks by one command; that it works is tested here with programs that
# only play a GPU, and that a packed one runs alone with the emulator's.

find_program(NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
set(no_nvcc "nvcc is not installed (it comes with the CUDA Toolkit)")
set(gpu_flags -std=c++20 --expt-relaxed-constexpr -diag-suppress 1675,2810,20208
              -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/tests -I${PROJECT_SOURCE_DIR} -DFMT_HEADER_ONLY)
# A100, H100 and H200; what is neither compiles the PTX when it starts: L40, Blackwell.
set(gpu_code -gencode=arch=compute_80,code=[sm_80,compute_80] -gencode=arch=compute_90a,code=sm_90a)

set(nvcc_headers device/atomics device/block_cluster device/cooperative_groups device/counted device/cp_async device/cp_async_bulk device/cp_async_bulk_tensor device/cuda_pipeline device/device_memory
    device/flash_attention_rungs device/fp8 device/graphs device/half device/kernel device/ldmatrix device/matmul_kernels
    device/matmul_pipelined device/matmul_register_tiles device/matmul_rungs device/mbarrier device/mma device/occupancy device/roofline_matmul
    device/streams device/tensor_cores_cuda_pipeline device/tensor_cores_rungs device/tensor_cores_hopper_rungs device/tensor_map device/vector_types device/warp_groups device/wgmma device/cuda/body_kernels device/cuda/cuda_accelerator
    device/cuda/strided_matmul device/cuda/wgmma_instructions device/emulator/cuda_builtins nn/cpu/body nn/cuda/block_mask_on_device nn/cuda/cuda_kernels parallel/cuda/parallel_kernels)
list(TRANSFORM nvcc_headers REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/include/yotta/\\1.hpp")
set(nvcc_tests device/atomics device/block_cluster device/cooperative_groups device/counted device/cp_async device/cp_async_bulk
    device/cp_async_bulk_tensor device/cuda/body_kernels device/cuda/strided_matmul device/cuda/wgmma_instructions device/cuda_pipeline
    device/device_memory device/emulator/cuda_builtins device/flash_attention_backward device/flash_attention_decoding device/flash_attention_mma
    device/flash_attention_tile device/flash_attention_unfused device/flash_attention_warp device/flex_attention_kernel device/fp8 device/graphs
    device/half device/kernel device/ldmatrix device/matmul_kernels device/matmul_pipelined device/matmul_register_tiles device/matmul_rungs
    device/mbarrier device/mma device/mma_fragments device/roofline_matmul device/streams device/tensor_cores device/tensor_cores_cluster
    device/tensor_cores_cuda_pipeline device/tensor_cores_hopper device/tensor_cores_hopper_rungs device/tensor_cores_persistent
    device/tensor_cores_pipeline device/tensor_cores_rungs device/tensor_cores_tile device/tensor_cores_tma device/tensor_cores_wgmma
    device/vector_types device/warp_groups device/wgmma device/wgmma_types)
# One unit: all kernels of nn/ are compiled for it.
set(nvcc_nn_tests nn/cuda/attention_f32 nn/cuda/attention_tiles nn/cuda/cuda_kernels)
list(TRANSFORM nvcc_nn_tests APPEND _test.cpp OUTPUT_VARIABLE includes)
list(TRANSFORM includes REPLACE "(.+)" "#include \"\\1\"")
list(JOIN includes "\n" includes)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gpu/nn_tests.cu CONTENT "${includes}\n")
file(GLOB nvcc_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests/*/*.cu
     ${PROJECT_SOURCE_DIR}/tests/device/unchanged/programs/*.cu
     ${PROJECT_SOURCE_DIR}/bench/*.cu ${PROJECT_SOURCE_DIR}/lessons/*/*.cu)
yotta_add_test(bench_gpu_session ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu_session_test ${PROJECT_SOURCE_DIR}/bench/gpu_session
               ${PROJECT_BINARY_DIR}/lessons/lesson_02_roofline)
# The same with real programs, of the emulator, in an empty root folder. emulated_gpu_tests: the
# cases of gpu_tests.
if(TARGET test_device AND TARGET test_nn AND TARGET emulated_bench_gpu_matmul)
  list(JOIN nvcc_tests "|" device_objects)
  list(JOIN nvcc_nn_tests "|" nn_objects)
  yotta_program(emulated_gpu_tests "$<FILTER:$<TARGET_OBJECTS:test_device>,INCLUDE,/(${device_objects})_test[.]cpp>"
                "$<FILTER:$<TARGET_OBJECTS:test_nn>,INCLUDE,/(${nn_objects})_test[.]cpp>")
  target_link_libraries(emulated_gpu_tests PRIVATE test_main)
  set_target_properties(emulated_gpu_tests PROPERTIES LINKER_LANGUAGE CXX)
  yotta_add_test(bench_gpu_session_alone ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu_session_alone_test
                 ${PROJECT_SOURCE_DIR}/bench/gpu_session ${PROJECT_BINARY_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/course/ncu_sample.csv)
  yotta_long(TESTS bench_gpu_session_alone
             PROGRAMS emulated_gpu_tests emulated_bench_gpu_matmul emulated_bench_gpu_attention emulated_bench_gpu_launch)
else()
  yotta_not_run(bench_gpu_session_alone "it needs the benchmarks, built for the emulator")
endif()
yotta_add_test(gpu_registers ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu_registers_test ${PROJECT_SOURCE_DIR}/bench/gpu_registers)
if(NOT NVCC)
  foreach(name nvcc_headers nvcc_gpu_tests nvcc_gpu_code ${nvcc_files})
    yotta_not_run(${name} ${no_nvcc})
  endforeach()
else()
  set(includes ${nvcc_headers})
  list(TRANSFORM includes REPLACE "(.+)" "#include \"\\1\"")
  list(JOIN includes "\n" includes)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/gpu/nvcc_headers.cu CONTENT "${includes}\n")
  yotta_add_test(nvcc_headers ${NVCC} ${gpu_flags} ${gpu_code} -c -o /dev/null ${CMAKE_CURRENT_BINARY_DIR}/gpu/nvcc_headers.cu)
  set_tests_properties(nvcc_headers PROPERTIES COST 50)
  yotta_long(TESTS nvcc_headers)
  foreach(file ${nvcc_files})
    set(code ${gpu_code})
    if(file MATCHES "/hopper_")
      set(code -arch=sm_90a)
    endif()
    yotta_add_test(nvcc_${file} ${NVCC} ${gpu_flags} ${code} -c -o /dev/null ${PROJECT_SOURCE_DIR}/${file})
    yotta_long(TESTS nvcc_${file})
  endforeach()

  # Registers, spills and occupancy are not worse than in the table.
  foreach(file device/matmul device/tensor_cores device/tensor_cores_hopper device/flash_attention device/flex_attention_kernel nn/attention_f32
               ../course/training/cuda ../lessons/02_roofline/gpu ../bench/gpu_matmul ../bench/gpu_counters ../bench/gpu_launch)
    get_filename_component(stem ${file} NAME)
    foreach(arch sm_80 sm_90a)
      if(stem STREQUAL tensor_cores_hopper AND arch STREQUAL sm_80)
        continue()
      endif()
      yotta_add_test(nvcc_registers_${stem}_${arch} ${PROJECT_SOURCE_DIR}/bench/gpu_registers --arch ${arch} --table
                     ${CMAKE_CURRENT_SOURCE_DIR}/device/registers.tsv ${CMAKE_CURRENT_SOURCE_DIR}/${file}.cu)
      if(NOT stem STREQUAL matmul)
        yotta_long(TESTS nvcc_registers_${stem}_${arch})
      endif()
    endforeach()
  endforeach()

  # All of its libraries are within it, so that it can be carried to a machine with a GPU and little
  # else. nvcc takes some eight seconds for each test.
  set(gpu_tests ${CMAKE_CURRENT_BINARY_DIR}/gpu/gpu_tests)
  set(objects)
  list(TRANSFORM nvcc_tests REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1_test.cpp")
  foreach(test ${nvcc_tests} ${CMAKE_CURRENT_BINARY_DIR}/gpu/nn_tests.cu ${CMAKE_CURRENT_SOURCE_DIR}/support/main.cpp)
    file(RELATIVE_PATH object ${CMAKE_CURRENT_SOURCE_DIR} ${test})
    string(MAKE_C_IDENTIFIER ${object} name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/gpu/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${test} DEPFILE ${object}.d
                       COMMAND ${NVCC} ${gpu_flags} ${gpu_code} -O1 -lineinfo -x cu -MD -MT ${object} -MF ${object}.d -c -o ${object} ${test}
                       COMMENT "nvcc: ${name}")
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(OUTPUT ${gpu_tests} DEPENDS ${objects} COMMAND ${NVCC} -o ${gpu_tests} ${objects}
                     COMMENT "nvcc: gpu_tests")
  add_custom_target(gpu_tests DEPENDS ${gpu_tests})
  add_dependencies(long_programs gpu_tests)
  yotta_add_test(nvcc_gpu_tests ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target gpu_tests)
  set_tests_properties(nvcc_gpu_tests PROPERTIES RUN_SERIAL ON TIMEOUT 900 FIXTURES_SETUP gpu_tests)
  find_program(CUOBJDUMP cuobjdump HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(CUOBJDUMP)
    yotta_add_test(nvcc_gpu_code ${CMAKE_CURRENT_SOURCE_DIR}/device/gpu_code_test ${CUOBJDUMP} ${gpu_tests})
    set_tests_properties(nvcc_gpu_code PROPERTIES FIXTURES_REQUIRED gpu_tests)
  else()
    yotta_not_run(nvcc_gpu_code "cuobjdump is not installed (it comes with the CUDA Toolkit)")
  endif()
  yotta_long(TESTS nvcc_gpu_code)
  foreach(tool tests memcheck racecheck initcheck synccheck)
    yotta_add_test(gpu_${tool} ${CMAKE_CURRENT_SOURCE_DIR}/device/on_gpu ${tool} ${gpu_tests})
    set_tests_properties(gpu_${tool} PROPERTIES RUN_SERIAL ON TIMEOUT 900 FIXTURES_REQUIRED gpu_tests)
    yotta_long(TESTS nvcc_gpu_tests gpu_${tool})
  endforeach()
endif()
