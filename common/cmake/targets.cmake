# One function for each kind of target, so that a folder's CMakeLists lists sources and dependencies only.

# longhaul_library(NAME SRCS ... DEPS ...): a static library `longhaul_NAME`, alias `longhaul::NAME`. Without SRCS it is
# header-only. Dependencies are names of ours (as in DEPS base codec) or imported targets. PRIVATE_DEPS: those whose headers
# the library's users must not see (torch). TORCH: the sources include torch headers.
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

function(longhaul_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  _longhaul_deps(deps ${ARG_DEPS})
  _longhaul_deps(private_deps ${ARG_PRIVATE_DEPS})
  if(ARG_SRCS)
    add_library(longhaul_${name} STATIC ${ARG_SRCS})
    target_link_libraries(longhaul_${name} PUBLIC ${deps} PRIVATE ${private_deps})
    if(ARG_TORCH)
      set_target_properties(longhaul_${name} PROPERTIES JOB_POOL_COMPILE torch_pool)
    endif()
  else()
    add_library(longhaul_${name} INTERFACE)
    target_link_libraries(longhaul_${name} INTERFACE ${deps})
  endif()
  add_library(longhaul::${name} ALIAS longhaul_${name})
endfunction()

# GLOO: the program links libgloo beside libtorch; libgloo must come first for the dynamic linker.
function(_longhaul_executable name gloo)
  add_executable(${name} ${ARG_SRCS})
  _longhaul_deps(deps ${ARG_DEPS})
  target_link_libraries(${name} PRIVATE ${deps})
  if(gloo)
    target_link_options(${name} BEFORE PRIVATE "SHELL:-Wl,--push-state,--no-as-needed -lgloo -Wl,--pop-state")
  endif()
endfunction()

# longhaul_binary(NAME SRCS ... DEPS ... [GLOO]): a program in build/bin.
function(longhaul_binary name)
  cmake_parse_arguments(ARG "GLOO" "" "SRCS;DEPS" ${ARGN})
  _longhaul_executable(${name} "${ARG_GLOO}")
endfunction()

# longhaul_test(NAME SRCS ... DEPS ... [GLOO] [LABELS ...] [TIMEOUT s] [ARGS ...]): all tests of a folder in one GoogleTest program
# in build/tests, and a ctest of that name that runs them in one process. Labels: unit (default), conformance, scenario,
# simulation, integration, gpu.
function(longhaul_test name)
  cmake_parse_arguments(ARG "GLOO" "TIMEOUT" "SRCS;DEPS;LABELS;ARGS" ${ARGN})
  list(APPEND ARG_DEPS GTest::gtest GTest::gmock GTest::gtest_main)
  _longhaul_executable(${name} "${ARG_GLOO}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # A test spends its time in the libraries: its own sources are optimized less, so that they compile faster.
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  _longhaul_ctest(${name} ${name})
endfunction()

# longhaul_test_apart(NAME OF EXECUTABLE FILTER PATTERN [LABELS ...] [TIMEOUT s]): a ctest of those tests of EXECUTABLE that match
# the GoogleTest pattern, which the other ctest then leaves out: they need another label, more time or a process of their own.
function(longhaul_test_apart name)
  cmake_parse_arguments(ARG "" "OF;FILTER;TIMEOUT" "LABELS" ${ARGN})
  _longhaul_ctest(${name} ${ARG_OF} --gtest_filter=${ARG_FILTER})
  get_target_property(apart ${ARG_OF} LONGHAUL_APART)
  if(apart)
    set(ARG_FILTER "${apart}:${ARG_FILTER}")
  endif()
  set_target_properties(${ARG_OF} PROPERTIES LONGHAUL_APART "${ARG_FILTER}")
  set_property(TEST ${ARG_OF} PROPERTY ENVIRONMENT "GTEST_FILTER=-${ARG_FILTER}")
endfunction()

# Only what is labelled gpu may be skipped as a whole: elsewhere one test that skips would hide those that fail.
function(_longhaul_ctest name executable)
  add_test(NAME ${name} COMMAND ${executable} ${ARGN} ${ARG_ARGS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  if("gpu" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "no CUDA device")
  endif()
endfunction()

# longhaul_embed(NAME FILES...): the files' bytes in the library longhaul_NAME, as `extern const unsigned char kFile_index_html[]` of
# namespace longhaul for a file index.html, with a zero behind them, and `kFileSize_index_html`, without it; made anew when a file changes.
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

# longhaul_benchmark(NAME SRCS ... DEPS ... [GLOO]): a program in build/benchmark; tests/benchmark/README.md says how to run it.
function(longhaul_benchmark name)
  cmake_parse_arguments(ARG "GLOO" "" "SRCS;DEPS" ${ARGN})
  _longhaul_executable(${name} "${ARG_GLOO}")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/benchmark)
endfunction()

# longhaul_simd_sources(FILES...): sources that Highway compiles once for each instruction set and chooses from at run time.
# They keep vectors in arrays, which vectors of unknown size do not allow. On x86-64 the least is SSSE3 (Highway has nothing
# below it).
function(longhaul_simd_sources)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_DEFINITIONS "HWY_DISABLED_TARGETS=HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128|HWY_RVV")
  set(options)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    list(APPEND options -mssse3)
  endif()
  if(LONGHAUL_FUZZ)  # With sanitizers, what is inlined for each instruction set takes clang minutes and gigabytes to optimize.
    list(APPEND options -O0)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()

# longhaul_fuzz_target(NAME SRCS ... DEPS ...): a program in build/fuzz that replays the files of corpus/NAME, beside the
# sources, as a ctest of that name; with LONGHAUL_FUZZ one that libFuzzer drives. The target `fuzz` builds all of them.
function(longhaul_fuzz_target name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  set(harness ${CMAKE_SOURCE_DIR}/tests/fuzz)
  if(LONGHAUL_FUZZ)
    list(APPEND ARG_SRCS ${harness}/sanitizer_options.cc)
  else()
    list(APPEND ARG_SRCS ${harness}/replay_main.cc)
    add_test(NAME ${name} COMMAND ${name} ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
  endif()
  _longhaul_executable(${name} "")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  if(LONGHAUL_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
  if(NOT TARGET fuzz)
    add_custom_target(fuzz)
  endif()
  add_dependencies(fuzz ${name})
endfunction()
