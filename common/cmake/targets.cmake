# One function for each kind of target, so that a folder's CMakeLists has only sources and dependencies.

function(_longhaul_deps out)
  set(result)
  foreach(dep ${ARGN})
    if(TARGET longhaul_${dep})
      list(APPEND result longhaul_${dep})
    else()
      list(APPEND result ${dep})
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# A precompiled header serves sources with the same options only; those of libraries have -fPIC. -fpch-preprocess: for
# ccache.
function(_longhaul_precompile name)
  if(LONGHAUL_PRECOMPILE)
    target_precompile_headers(${name} ${ARGN})
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC> $<$<COMPILE_LANGUAGE:CXX>:-pthread>
                           $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# longhaul_headers(NAME FILE DEPS ... [QUICKLY]): the headers that FILE includes are parsed once, for all targets that
# reuse longhaul_NAME. QUICKLY: for sources that are not optimized.
function(longhaul_headers name file)
  cmake_parse_arguments(ARG "QUICKLY" "" "DEPS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(longhaul_${name} OBJECT ${source})
  _longhaul_deps(deps ${ARG_DEPS})
  target_link_libraries(longhaul_${name} PRIVATE ${deps})
  if(ARG_QUICKLY)
    _longhaul_not_optimized(longhaul_${name})
  endif()
  _longhaul_precompile(longhaul_${name} PRIVATE ${file})
endfunction()

# For a target that links DEPS. With ARG_TORCH its sources include torch headers.
function(_longhaul_optimized name)
  if(LONGHAUL_LIGHTLY AND NOT CMAKE_CURRENT_SOURCE_DIR MATCHES "/(kernels|codec|engine|outer)(/|$)")
    longhaul_lightly_optimized(${name})
  endif()
  if(ARG_TORCH)
    _longhaul_precompile(${name} REUSE_FROM longhaul_torch_headers)
  elseif("rpc" IN_LIST ARGN OR "proto" IN_LIST ARGN)
    _longhaul_precompile(${name} REUSE_FROM longhaul_rpc_headers)
  else()
    _longhaul_precompile(${name} REUSE_FROM longhaul_base_headers)
  endif()
endfunction()

# longhaul_lightly_optimized(TARGETS ...): with -O1, which compiles in three quarters of the time. For code that runs
# seldom, as that of flags and tables, and for code of tests and benchmarks whose time is not what is measured.
function(longhaul_lightly_optimized)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  endforeach()
endfunction()

function(_longhaul_not_optimized name)
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O0>)
endfunction()

# A test spends its time in the libraries. Its own sources are not optimized, so that they compile in half of the time.
function(_longhaul_quickly_compiled name)
  _longhaul_not_optimized(${name})
  # As GTest::gtest defines it, for targets that do not link it.
  target_compile_definitions(${name} PRIVATE GTEST_HAS_PTHREAD=1)
  if(ARG_TORCH)
    _longhaul_precompile(${name} REUSE_FROM longhaul_torch_test_headers)
  else()
    _longhaul_precompile(${name} REUSE_FROM longhaul_test_headers)
  endif()
endfunction()

# Files that include torch headers are compiled few at a time, since they need much memory.
function(_longhaul_in_torch_pool name)
  if(ARG_TORCH)
    set_target_properties(${name} PROPERTIES JOB_POOL_COMPILE torch_pool)
  endif()
endfunction()

# longhaul_library(NAME SRCS ... DEPS ...): a static library `longhaul_NAME`, alias `longhaul::NAME`. Without SRCS it
# is header-only. Dependencies are names of this tree (DEPS base codec) or imported targets. PRIVATE_DEPS:
# dependencies whose headers the library's users must not see (torch). TORCH: the sources include torch headers.
function(longhaul_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  _longhaul_deps(deps ${ARG_DEPS})
  _longhaul_deps(private_deps ${ARG_PRIVATE_DEPS})
  if(ARG_SRCS)
    add_library(longhaul_${name} STATIC ${ARG_SRCS})
    target_link_libraries(longhaul_${name} PUBLIC ${deps} PRIVATE ${private_deps})
    _longhaul_optimized(longhaul_${name} ${ARG_DEPS} ${ARG_PRIVATE_DEPS})
    _longhaul_in_torch_pool(longhaul_${name})
  else()
    add_library(longhaul_${name} INTERFACE)
    target_link_libraries(longhaul_${name} INTERFACE ${deps})
  endif()
  add_library(longhaul::${name} ALIAS longhaul_${name})
endfunction()

# With ARG_GLOO the program links libgloo and libtorch. libgloo must come first for the dynamic linker.
function(_longhaul_executable name)
  add_executable(${name} ${ARG_SRCS})
  _longhaul_in_torch_pool(${name})
  _longhaul_deps(deps ${ARG_DEPS})
  target_link_libraries(${name} PRIVATE ${deps})
  # What the sanitizers must know of libraries that are not instrumented.
  foreach(sanitizer thread address)
    if(LONGHAUL_SANITIZE MATCHES ${sanitizer})
      if(NOT TARGET longhaul_${sanitizer}_sanitizer)
        add_library(longhaul_${sanitizer}_sanitizer OBJECT ${CMAKE_SOURCE_DIR}/tests/testing/${sanitizer}_sanitizer.cc)
      endif()
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:longhaul_${sanitizer}_sanitizer>)
    endif()
  endforeach()
  if(ARG_GLOO)
    target_link_options(${name} BEFORE PRIVATE "SHELL:-Wl,--push-state,--no-as-needed -lgloo -Wl,--pop-state")
  endif()
endfunction()

# longhaul_binary(NAME SRCS ... DEPS ... [GLOO] [TORCH] [QUICKLY]): a program in build/bin. QUICKLY: one of tests, which spends its time in
# the libraries and measures no time.
function(longhaul_binary name)
  cmake_parse_arguments(ARG "GLOO;TORCH;QUICKLY" "" "SRCS;DEPS" ${ARGN})
  _longhaul_executable(${name})
  if(ARG_QUICKLY)
    _longhaul_quickly_compiled(${name})
  else()
    _longhaul_optimized(${name} ${ARG_DEPS})
  endif()
endfunction()

# longhaul_test(NAME SRCS ... DEPS ... [GLOO] [TORCH] [COMPUTES] [LABELS ...] [ARGS ...]): all tests of a folder as one GoogleTest program
# in build/tests, and a ctest of that name that runs them in one process. Labels: unit (default), conformance, scenario,
# simulation, integration, gpu. COMPUTES: its own sources compute much, so they are optimized (-O1).
function(longhaul_test name)
  cmake_parse_arguments(ARG "GLOO;TORCH;COMPUTES" "" "SRCS;DEPS;LABELS;ARGS" ${ARGN})
  list(APPEND ARG_DEPS GTest::gtest GTest::gmock GTest::gtest_main)
  _longhaul_executable(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT ARG_COMPUTES)
    _longhaul_quickly_compiled(${name})
  else()
    _longhaul_optimized(${name} ${ARG_DEPS})
    longhaul_lightly_optimized(${name})
  endif()
  _longhaul_ctest(${name} ${name})
endfunction()

# longhaul_test_apart(NAME OF EXECUTABLE FILTER PATTERN [LABELS ...] [CONFIGURATIONS ...]): a ctest of those tests of EXECUTABLE that
# match the GoogleTest pattern. The other ctest leaves them out. For tests that need another label or a separate process,
# or that are none of the default run (CONFIGURATIONS losses: ctest -C losses runs them, too).
function(longhaul_test_apart name)
  cmake_parse_arguments(ARG "" "OF;FILTER" "LABELS;CONFIGURATIONS" ${ARGN})
  _longhaul_ctest(${name} ${ARG_OF} --gtest_filter=${ARG_FILTER})
  get_target_property(apart ${ARG_OF} LONGHAUL_APART)
  if(apart)
    set(ARG_FILTER "${apart}:${ARG_FILTER}")
  endif()
  set_target_properties(${ARG_OF} PROPERTIES LONGHAUL_APART "${ARG_FILTER}")
  set_property(TEST ${ARG_OF} PROPERTY ENVIRONMENT "GTEST_FILTER=-${ARG_FILTER}")
endfunction()

# Only tests with the label gpu may be skipped as a whole. With other labels, a test that is skipped would hide others
# that fail.
function(_longhaul_ctest name executable)
  add_test(NAME ${name} CONFIGURATIONS ${ARG_CONFIGURATIONS} COMMAND ${executable} ${ARGN} ${ARG_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  if("gpu" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "no CUDA device")
  endif()
endfunction()

# longhaul_embed(NAME FILES...): the bytes of the files in the library longhaul_NAME. For a file index.html they are
# `extern const unsigned char kFile_index_html[]` of namespace longhaul, with a zero after them, and
# `kFileSize_index_html`, which does not count the zero. Made again when a file changes.
function(longhaul_embed name)
  foreach(file ${ARGN})
    get_filename_component(base ${file} NAME)
    get_filename_component(path ${file} ABSOLUTE)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/${base}.cc)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -D INPUT=${path} -D OUTPUT=${output} -P ${CMAKE_SOURCE_DIR}/common/cmake/embed.cmake
      DEPENDS ${path} ${CMAKE_SOURCE_DIR}/common/cmake/embed.cmake VERBATIM)
    target_sources(longhaul_${name} PRIVATE ${output})
  endforeach()
endfunction()

# longhaul_benchmark(NAME SRCS ... DEPS ... [GLOO] [TORCH] [BUNDLED]): a program in build/benchmark; tests/benchmark/README.md says how to
# run it. The target `benchmarks` builds all of them. Of the default build are those alone that the GPU bundle takes along (BUNDLED).
function(longhaul_benchmark name)
  cmake_parse_arguments(ARG "GLOO;TORCH;BUNDLED" "" "SRCS;DEPS" ${ARGN})
  _longhaul_executable(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/benchmark)
  if(NOT ARG_BUNDLED)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(NOT TARGET benchmarks)
    add_custom_target(benchmarks)
  endif()
  add_dependencies(benchmarks ${name})
  _longhaul_optimized(${name} ${ARG_DEPS})
endfunction()

# longhaul_smoke(NAME COMMAND ... [LABELS ...]): a ctest that shows that a benchmark starts. It is none of the default run:
# ctest -C benchmarks -L benchmark. Exit status 77: it needs what this machine lacks.
function(longhaul_smoke name)
  cmake_parse_arguments(ARG "" "" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${name} CONFIGURATIONS benchmarks COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "benchmark;${ARG_LABELS}" SKIP_RETURN_CODE 77)
  if("gpu" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "no CUDA device")
  endif()
endfunction()

# longhaul_simd_sources(FILES...): sources that Highway compiles once for each instruction set; it chooses one at run
# time. They keep vectors in arrays, which is not possible with vectors of unknown size. On x86-64 the lowest set is
# SSSE3 (Highway has nothing below it). SSE4 is left out: it takes a fifth of the time to compile, and
# processors that have it but not AVX2 are from before 2013.
function(longhaul_simd_sources)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_DEFINITIONS "HWY_DISABLED_TARGETS=HWY_SSE4|HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128|HWY_RVV")
  set(options)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    list(APPEND options -mssse3)
  endif()
  # Under sanitizers Highway's functions are inlined from -O2 on; otherwise each vector goes through instrumented memory,
  # and tests of kernels take ten times as long.
  if(LONGHAUL_SANITIZE)
    list(APPEND options -O2)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# longhaul_fuzz_target(NAME SRCS ... DEPS ...): a fuzz target, and a ctest of that name that replays the files of
# corpus/NAME, beside the sources: ctest -C fuzz -L fuzz, after the target `fuzz_replays`. Neither is part of the default build and run.
# With LONGHAUL_FUZZ it is a program in build/fuzz that libFuzzer drives. The target `fuzz` builds all of them.
function(longhaul_fuzz_target name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(NOT TARGET fuzz)
    add_custom_target(fuzz)
  endif()
  list(TRANSFORM ARG_SRCS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  if(NOT LONGHAUL_FUZZ)
    set_property(GLOBAL APPEND PROPERTY LONGHAUL_FUZZ_TARGETS ${name})
    set_property(GLOBAL APPEND PROPERTY LONGHAUL_FUZZ_SRCS ${ARG_SRCS})
    set_property(GLOBAL APPEND PROPERTY LONGHAUL_FUZZ_DEPS ${ARG_DEPS})
    add_test(NAME ${name} CONFIGURATIONS fuzz COMMAND fuzz_replay ${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(${name} PROPERTIES LABELS fuzz)
    return()
  endif()
  set(main ${CMAKE_CURRENT_BINARY_DIR}/${name}_main.cc)
  file(CONFIGURE OUTPUT ${main} CONTENT [[
#include <cstddef>
#include <cstdint>
namespace longhaul::fuzz::@name@ { int TestOneInput(const uint8_t* data, size_t size); }
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return longhaul::fuzz::@name@::TestOneInput(data, size);
}
]] @ONLY)
  list(APPEND ARG_SRCS ${main} ${CMAKE_SOURCE_DIR}/tests/fuzz/sanitizer_options.cc)
  _longhaul_executable(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz ${name})
endfunction()

# The program build/fuzz/replay (target `fuzz_replays`), with all fuzz targets of the folders added so far: one program compiles and
# links in a fraction of the time that one for each would take.
function(longhaul_fuzz_replay)
  get_property(targets GLOBAL PROPERTY LONGHAUL_FUZZ_TARGETS)
  get_property(ARG_SRCS GLOBAL PROPERTY LONGHAUL_FUZZ_SRCS)
  get_property(ARG_DEPS GLOBAL PROPERTY LONGHAUL_FUZZ_DEPS)
  foreach(target ${targets})
    string(APPEND declarations "namespace ${target} { int TestOneInput(const uint8_t* data, size_t size); std::vector<Seed> Seeds(); }\n")
    string(APPEND rows "{\"${target}\", ${target}::TestOneInput, ${target}::Seeds},\n")
  endforeach()
  set(table ${CMAKE_CURRENT_BINARY_DIR}/fuzz_targets.cc)
  file(CONFIGURE OUTPUT ${table} CONTENT [[
#include "tests/fuzz/fuzz_target.h"
namespace longhaul::fuzz {
@declarations@
std::vector<Target> Targets() { return {@rows@}; }
}
]] @ONLY)
  list(APPEND ARG_SRCS ${table} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
  list(REMOVE_DUPLICATES ARG_SRCS)
  list(REMOVE_DUPLICATES ARG_DEPS)
  _longhaul_executable(fuzz_replay)
  _longhaul_quickly_compiled(fuzz_replay)
  set_target_properties(fuzz_replay PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz OUTPUT_NAME replay
                        EXCLUDE_FROM_ALL ON)
  add_custom_target(fuzz_replays DEPENDS fuzz_replay)
  add_dependencies(fuzz fuzz_replay)
endfunction()

# longhaul_cuda_module(NAME SRCS ... DEPS ...): longhaul_NAME, which a program loads at run time, where a device is present.
# The target longhaul_cuda_modules builds all of them, and install.cmake installs them.
function(longhaul_cuda_module name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(longhaul_${name} MODULE ${ARG_SRCS})
  _longhaul_deps(deps ${ARG_DEPS})
  target_link_libraries(longhaul_${name} PRIVATE ${deps})
  set_target_properties(longhaul_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
  set_property(GLOBAL APPEND PROPERTY LONGHAUL_CUDA_MODULES longhaul_${name})
endfunction()
