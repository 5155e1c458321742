# Every third-party library, as an imported target. Debian packages come with their own configs. libtorch, CUDA and
# NCCL come from the virtual environment that deploy/setup.sh makes.

find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(yaml-cpp CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
# The TLS of libmicrohttpd.
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
find_package(ZLIB REQUIRED)

# Debian does not package the googleapis protos (google.rpc). proto/google/rpc has the messages that are used.

find_library(LONGHAUL_XXHASH xxhash REQUIRED)
add_library(longhaul_xxhash INTERFACE)
target_link_libraries(longhaul_xxhash INTERFACE ${LONGHAUL_XXHASH})

# CRC32C for TensorBoard's files.
find_library(LONGHAUL_ISAL isal REQUIRED)
add_library(longhaul_isal INTERFACE)
target_link_libraries(longhaul_isal INTERFACE ${LONGHAUL_ISAL})

if(LONGHAUL_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
  find_package(benchmark CONFIG REQUIRED)
endif()

if(NOT LONGHAUL_WORKER)
  return()
endif()

# --- the pinned wheels ----------------------------------------------------------------------------------------------
if(NOT LONGHAUL_VENV)
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/deploy/setup.sh --print-venv
                  OUTPUT_VARIABLE LONGHAUL_VENV OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
endif()
set(LONGHAUL_VENV ${LONGHAUL_VENV} CACHE PATH "Virtual environment with torch and the CUDA toolkit wheels")
file(GLOB LONGHAUL_SITE ${LONGHAUL_VENV}/lib/python3*/site-packages)
set(LONGHAUL_TORCH ${LONGHAUL_SITE}/torch)
if(NOT EXISTS ${LONGHAUL_TORCH}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No libtorch in ${LONGHAUL_VENV}: run deploy/setup.sh first")
endif()
set(LONGHAUL_CUDA_ROOT ${LONGHAUL_SITE}/nvidia/cu13)
set(LONGHAUL_NCCL_ROOT ${LONGHAUL_SITE}/nvidia/nccl)

# libtorch for CPU code. Only worker/{engine,lm,model,optim,trainer} may link it, since the wheel has its own old
# protobuf headers. It is defined by hand, since with CMake 3.25 find_package(Torch) needs a GPU, and it adds global
# flags.
add_library(longhaul_torch INTERFACE)
target_include_directories(longhaul_torch SYSTEM INTERFACE ${LONGHAUL_TORCH}/include
                           ${LONGHAUL_TORCH}/include/torch/csrc/api/include)
# Else TensorOperators.h brings the headers of all 2,300 operators.
target_compile_definitions(longhaul_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_libraries(longhaul_torch INTERFACE ${LONGHAUL_TORCH}/lib/libtorch_cpu.so ${LONGHAUL_TORCH}/lib/libc10.so)

# libgloo. libtorch_cpu also exports 310 of its names. So every executable that links both names gloo first
# (longhaul_binary and longhaul_test do so, with GLOO), and checks at its start which library the calls reach.
find_library(LONGHAUL_GLOO gloo REQUIRED)
add_library(longhaul_gloo INTERFACE)
target_link_libraries(longhaul_gloo INTERFACE ${LONGHAUL_GLOO} Threads::Threads)

if(LONGHAUL_CUDA)
  set(CMAKE_CUDA_COMPILER ${LONGHAUL_CUDA_ROOT}/bin/nvcc)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  if(LONGHAUL_LIGHTLY)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  # CMake 3.25 does not know an nvcc after version 11.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  add_library(longhaul_cudart INTERFACE)
  target_include_directories(longhaul_cudart SYSTEM INTERFACE ${LONGHAUL_CUDA_ROOT}/include)
  target_link_libraries(longhaul_cudart INTERFACE ${LONGHAUL_CUDA_ROOT}/lib/libcudart.so)
  add_library(longhaul_nccl INTERFACE)
  target_include_directories(longhaul_nccl SYSTEM INTERFACE ${LONGHAUL_NCCL_ROOT}/include)
  target_link_libraries(longhaul_nccl INTERFACE ${LONGHAUL_NCCL_ROOT}/lib/libnccl.so.2 longhaul_cudart)
  add_library(longhaul_torch_cuda INTERFACE)
  target_link_libraries(longhaul_torch_cuda INTERFACE ${LONGHAUL_TORCH}/lib/libtorch_cuda.so
                        ${LONGHAUL_TORCH}/lib/libc10_cuda.so longhaul_torch longhaul_cudart)
endif()
