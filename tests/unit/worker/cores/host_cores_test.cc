#include "worker/cores/host_cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;

// A tree of system files.
class HostCoresTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    const std::string full = root_.path() + path;
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }
  void Allow(const std::string& list) {
    Put("/proc/self/status", absl::StrCat("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t", list,
                                          "\nMems_allowed_list:\t0\n"));
  }
  // Two sockets of two cores with two threads each: 0 and 4, 1 and 5 on node 0; 2 and 6, 3 and 7.
  void PutTwoSockets() {
    for (int i = 0; i < 8; ++i) {
      Put(absl::StrCat("/sys/devices/system/cpu/cpu", i, "/topology/core_cpus_list"),
          absl::StrCat(i % 4, ",", i % 4 + 4, "\n"));
    }
    Put("/sys/devices/system/node/online", "0-1\n");
    Put("/sys/devices/system/node/node0/cpulist", "0-1,4-5\n");
    Put("/sys/devices/system/node/node1/cpulist", "2-3,6-7\n");
  }
  HostCores Read() {
    const absl::StatusOr<HostCores> host = ReadHostCores(root_.path());
    EXPECT_TRUE(host.ok()) << host.status();
    return host.value_or(HostCores());
  }

  const TempDir root_;
};

TEST_F(HostCoresTest, SayNothingWithoutAllowedProcessors) {
  EXPECT_EQ(ReadHostCores(root_.path()).status().code(), absl::StatusCode::kNotFound);
  Allow("");
  EXPECT_EQ(ReadHostCores(root_.path()).status().code(), absl::StatusCode::kNotFound);
  Allow("everything");
  EXPECT_EQ(ReadHostCores(root_.path()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HostCoresTest, AreTheProcessorsWhereNothingElseIsKnown) {
  Allow("0-2");
  const HostCores host = Read();
  ASSERT_EQ(host.cores.size(), 3u);
  EXPECT_THAT(host.cores[2].processors, ElementsAre(2));
  EXPECT_EQ(host.cores[2].numa_node, 0);
  EXPECT_EQ(host.quota, 0);
  EXPECT_EQ(host.count(), 3);
}

TEST_F(HostCoresTest, ThreadsOfACoreAreOneCoreAndNodesGoOneAfterAnother) {
  PutTwoSockets();
  Allow("0-7");
  const HostCores host = Read();
  ASSERT_EQ(host.cores.size(), 4u);
  EXPECT_THAT(host.cores[0].processors, ElementsAre(0, 4));
  EXPECT_THAT(host.cores[1].processors, ElementsAre(1, 5));
  EXPECT_THAT(host.cores[2].processors, ElementsAre(2, 6));
  EXPECT_EQ(host.cores[1].numa_node, 0);
  EXPECT_EQ(host.cores[2].numa_node, 1);
}

TEST_F(HostCoresTest, ACpusetLeavesAPart) {
  PutTwoSockets();
  Allow("3-5,7");
  const HostCores host = Read();
  ASSERT_EQ(host.cores.size(), 3u);
  EXPECT_THAT(host.cores[0].processors, ElementsAre(4));
  EXPECT_THAT(host.cores[1].processors, ElementsAre(5));
  EXPECT_THAT(host.cores[2].processors, ElementsAre(3, 7));
}

TEST_F(HostCoresTest, TheQuotaIsTheLeastOfTheCgroupsAround) {
  Allow("0-7");
  Put("/proc/self/cgroup", "0::/pods/this\n");
  EXPECT_EQ(Read().quota, 0);
  Put("/sys/fs/cgroup/pods/this/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().quota, 0);
  Put("/sys/fs/cgroup/pods/cpu.max", "350000 100000\n");
  EXPECT_EQ(Read().quota, 3.5);
  EXPECT_EQ(Read().count(), 3);
  Put("/sys/fs/cgroup/pods/this/cpu.max", "50000 100000\n");
  EXPECT_EQ(Read().quota, 0.5);
  EXPECT_EQ(Read().count(), 1);
}

TEST_F(HostCoresTest, TheQuotaOfVersionOneOfCgroups) {
  Allow("0-7");
  Put("/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/../a\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().quota, 0);
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(Read().count(), 2);
}

TEST_F(HostCoresTest, ThisMachineHasThoseThatItsKernelAllows) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> expected, found;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) expected.push_back(i);
  }
  const absl::StatusOr<HostCores> host = ReadHostCores();
  ASSERT_TRUE(host.ok()) << host.status();
  for (const auto& core : host->cores)
    found.insert(found.end(), core.processors.begin(), core.processors.end());
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected));
  EXPECT_GE(host->count(), 1);
  EXPECT_LE(host->count(), static_cast<int>(host->cores.size()));
}

}  // namespace
}  // namespace longhaul
