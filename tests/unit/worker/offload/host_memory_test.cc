#include "worker/offload/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

void Put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(HostMemoryTest, IsTheLeastOfMachineAndCgroup) {
  const TempDir root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup/";
  EXPECT_EQ(AvailableHostMemory(root.path()).status().code(), absl::StatusCode::kNotFound);
  Put(root.path() + "/proc/meminfo", "MemTotal:  10 kB\nMemAvailable:     2000 kB\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 2000 * 1024);
  Put(cgroup + "memory.max", "max\n");
  Put(cgroup + "memory.current", "500\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 2000 * 1024);
  Put(cgroup + "memory.max", "1500\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 1000);
  Put(cgroup + "memory.current", "5000\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 0);
}

TEST(HostMemoryTest, LimitsOfTheServiceAndOfWhatIsAroundItCount) {
  const TempDir root;
  const std::string slice = root.path() + "/sys/fs/cgroup/system.slice/";
  Put(root.path() + "/proc/meminfo", "MemAvailable:     2000 kB\n");
  Put(root.path() + "/proc/self/cgroup", "0::/system.slice/worker.service\n");
  Put(slice + "worker.service/memory.max", "9000\n");
  Put(slice + "worker.service/memory.current", "2000\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 7000);
  Put(slice + "memory.max", "8000\n");
  Put(slice + "memory.current", "5000\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 3000);
}

TEST(HostMemoryTest, Version1OfCgroupsHasAHierarchyForMemory) {
  const TempDir root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup/memory/a/";
  Put(root.path() + "/proc/meminfo", "MemAvailable:     2000 kB\n");
  Put(root.path() + "/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/b\n");
  Put(cgroup + "memory.limit_in_bytes", "9000\n");
  Put(cgroup + "memory.usage_in_bytes", "4000\n");
  Put(cgroup + "memory.stat", "inactive_file 500\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 5500);
}

// The system gives back the pages of files before it refuses memory. A container that has read its
// data once is full of them.
TEST(HostMemoryTest, PagesOfFilesDoNotCountAsUsed) {
  const TempDir root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup/";
  Put(root.path() + "/proc/meminfo", "MemTotal:  10 kB\nMemAvailable:     2000 kB\n");
  Put(cgroup + "memory.max", "10000\n");
  Put(cgroup + "memory.current", "9900\n");
  Put(cgroup + "memory.stat",
      "anon 1000\nfile 8500\nshmem 200\ninactive_file 8000\nactive_file 300\nslab_reclaimable "
      "50\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 100 + 8000 + 300 + 50);
  // Numbers that were read one after another.
  Put(cgroup + "memory.current", "7000\n");
  EXPECT_EQ(*AvailableHostMemory(root.path()), 10000);
}

TEST(HostMemoryTest, ThisMachineHasSome) {
  const auto available = AvailableHostMemory();
  ASSERT_TRUE(available.ok()) << available.status();
  EXPECT_GT(*available, 0);
}

TEST(HostMemoryTest, TooLittleIsRefusedWithTheNumbers) {
  constexpr int64_t kGiB = 1 << 30;
  const OffloadNeed need{.masters = 4 * kGiB, .weights = 2 * kGiB, .optimizer = 10 * kGiB};
  EXPECT_TRUE(CheckHostMemory(need, 2, 32 * kGiB).ok());
  const absl::Status status = CheckHostMemory(need, 3, 32 * kGiB);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  for (const char* number :
       {"48.0 GiB", "32.0 GiB left", "3 ranks of 16.0 GiB", "masters 4.0 GiB", "device 0.0 MiB"})
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(number));
}

}  // namespace
}  // namespace longhaul
