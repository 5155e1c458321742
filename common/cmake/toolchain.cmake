# Compiler cache, linker, warnings, sanitizers: what holds for every target.

find_program(LONGHAUL_CCACHE ccache)
if(LONGHAUL_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LONGHAUL_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LONGHAUL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${LONGHAUL_CCACHE})
endif()

find_program(LONGHAUL_MOLD mold)
if(LONGHAUL_MOLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()

# g++ contracts a*b+c to a fused multiply-add by default; codecs and reductions are defined without it, so that scalar,
# SIMD and CUDA give the same bits. Where an fma is meant it is written.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-parameter> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers> $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
include_directories(${CMAKE_SOURCE_DIR})

if(LONGHAUL_SANITIZE)
  add_compile_options(-fsanitize=${LONGHAUL_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${LONGHAUL_SANITIZE})
endif()

# The fuzz targets' build (tests/fuzz): our code is instrumented, Debian's libraries are not.
if(LONGHAUL_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "LONGHAUL_FUZZ needs clang, for its libFuzzer: cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
                      -g1)
  add_link_options(-fsanitize=address,undefined)
endif()

# A machine's own CUDA paths must not leak into the build (the compiler comes from the pinned wheels).
unset(ENV{CUDA_HOME})
unset(ENV{CUDA_PATH})
unset(ENV{LIBRARY_PATH})
unset(ENV{CPATH})

# Files that include torch headers take up to 2 GB each to compile.
set_property(GLOBAL PROPERTY JOB_POOLS torch_pool=2)
