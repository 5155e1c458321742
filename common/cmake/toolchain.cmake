# Compiler cache, linker, warnings, sanitizers: settings of every target.

find_program(LONGHAUL_CCACHE ccache)
if(LONGHAUL_CCACHE)
  # It does not see into precompiled headers, unless it is told that the order of definitions does not matter. What a
  # source depends on it takes from the compiler's list, so that it need not preprocess what is compiled anyway.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
      ${LONGHAUL_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${LONGHAUL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${LONGHAUL_CCACHE})
endif()

find_program(LONGHAUL_MOLD mold)
if(LONGHAUL_MOLD)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=mold>)
endif()

# By default g++ contracts a*b+c to a fused multiply-add. Codecs and reductions are defined without it, so that
# scalar, SIMD and CUDA give the same bits. Code that needs an fma writes one.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
                    $<$<COMPILE_LANGUAGE:CXX>:-Wno-unused-parameter> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers> $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# In sources that are compiled together gcc takes a source's own types for those of a header; and its optimizer finds
# values of std::optional uninitialized that are not.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
# clang takes a precompiled header only with exactly the same definitions.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(LONGHAUL_PRECOMPILE OFF)
endif()

# gcc collects its garbage less often: a tenth of the time of a build, for up to 0.4 GB more memory a source.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-expand=1000> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)
include_directories(${CMAKE_SOURCE_DIR})

# At -O2, instrumented sources that are compiled together take minutes each.
if(LONGHAUL_SANITIZE)
  # What is undefined ends the program, as what the others find does; otherwise a test passes beside it.
  add_compile_options(-fsanitize=${LONGHAUL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -O1)
  add_link_options(-fsanitize=${LONGHAUL_SANITIZE})
  # clang 14 does not define gcc's macros.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    foreach(sanitizer address thread)
      if(LONGHAUL_SANITIZE MATCHES ${sanitizer})
        string(TOUPPER ${sanitizer} macro)
        add_compile_definitions(__SANITIZE_${macro}__)
      endif()
    endforeach()
  endif()
endif()

# For the build of the fuzz targets (tests/fuzz): our own code is instrumented, Debian's libraries are not.
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

# Files that include torch headers need up to 2 GB each to compile.
set_property(GLOBAL PROPERTY JOB_POOLS torch_pool=2)
