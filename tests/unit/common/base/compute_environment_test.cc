#include "common/base/compute_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

using testing::ElementsAre;

TEST(ComputeEnvironmentTest, SettingsOfOpenMpDoNotStay) {
  const char* const inherited[] = {"HOME=/root",
                                   "OMP_PROC_BIND=close",
                                   "OMP_PLACES=cores",
                                   "GOMP_CPU_AFFINITY=0",
                                   "KMP_AFFINITY=compact",
                                   "OMP_THREAD_LIMIT=1",
                                   "MKL_NUM_THREADS=1",
                                   "OPENBLAS_NUM_THREADS=1",
                                   "OMPI_COMM_WORLD_RANK=0",
                                   "A=",
                                   nullptr};
  const ComputeEnvironment made = ComputeEnvironmentOf(inherited, {});
  EXPECT_THAT(made.variables, ElementsAre("HOME=/root", "OMPI_COMM_WORLD_RANK=0", "A="));
  EXPECT_THAT(made.removed,
              ElementsAre("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "MKL_NUM_THREADS", "OMP_PLACES",
                          "OMP_PROC_BIND", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS"));
}

TEST(ComputeEnvironmentTest, OwnVariablesReplaceThoseOfTheirName) {
  const char* const inherited[] = {"OMP_NUM_THREADS=1", "MARK=1", "X=1", "X=2", nullptr};
  const ComputeEnvironment made = ComputeEnvironmentOf(inherited, {"OMP_NUM_THREADS=8", "MARK=2"});
  EXPECT_THAT(made.variables, ElementsAre("OMP_NUM_THREADS=8", "MARK=2", "X=1"));
  EXPECT_THAT(made.removed, ElementsAre());
}

}  // namespace
}  // namespace longhaul
