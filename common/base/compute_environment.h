// The environment of a program that computes with torch. Batch systems and module files export
// settings of OpenMP and of libraries of linear algebra which are meant for other programs: a
// binding (OMP_PROC_BIND, GOMP_CPU_AFFINITY) puts the main thread on one core when the library is
// loaded, and all threads that it starts after that inherit it. Longhaul's own flags decide.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct ComputeEnvironment {
  // NAME=VALUE, each name once: `own`, and of the others those that stay.
  std::vector<std::string> variables;
  // The names that do not stay, sorted. Those that `own` sets anew do not count.
  std::vector<std::string> removed;
};

// `inherited`: as environ, ended by null. `own`: NAME=VALUE, each name once. Variables of OpenMP
// (OMP_, GOMP_, KMP_; but not OMP_DISPLAY_) do not stay, and neither do the numbers of threads of
// MKL, OpenBLAS, BLIS and others. Pure.
ComputeEnvironment ComputeEnvironmentOf(const char* const* inherited, std::vector<std::string> own);

// For `variables` of a ComputeEnvironment, while it lives and is not changed: ended by null, as
// exec and posix_spawn need it.
std::vector<char*> PointersTo(std::vector<std::string>& strings);

}  // namespace longhaul
