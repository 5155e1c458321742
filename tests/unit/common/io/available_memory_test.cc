#include "common/io/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

void Put(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(AvailableMemoryTest, IsTheLeastOfMachineAndCgroup) {
  const TempDir root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup/";
  EXPECT_EQ(AvailableMemory(root.path()).status().code(), absl::StatusCode::kNotFound);
  Put(root.path() + "/proc/meminfo", "MemTotal:  10 kB\nMemAvailable:     2000 kB\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 2000 * 1024);
  Put(cgroup + "memory.max", "max\n");
  Put(cgroup + "memory.current", "500\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 2000 * 1024);
  Put(cgroup + "memory.max", "1500\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 1000);
  Put(cgroup + "memory.current", "5000\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 0);
}

TEST(AvailableMemoryTest, LimitsOfTheServiceAndOfWhatIsAroundItCount) {
  const TempDir root;
  const std::string slice = root.path() + "/sys/fs/cgroup/system.slice/";
  Put(root.path() + "/proc/meminfo", "MemAvailable:     2000 kB\n");
  Put(root.path() + "/proc/self/cgroup", "0::/system.slice/worker.service\n");
  Put(slice + "worker.service/memory.max", "9000\n");
  Put(slice + "worker.service/memory.current", "2000\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 7000);
  Put(slice + "memory.max", "8000\n");
  Put(slice + "memory.current", "5000\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 3000);
}

TEST(AvailableMemoryTest, Version1OfCgroupsHasAHierarchyForMemory) {
  const TempDir root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup/memory/a/";
  Put(root.path() + "/proc/meminfo", "MemAvailable:     2000 kB\n");
  Put(root.path() + "/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/b\n");
  Put(cgroup + "memory.limit_in_bytes", "9000\n");
  Put(cgroup + "memory.usage_in_bytes", "4000\n");
  Put(cgroup + "memory.stat", "inactive_file 500\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 5500);
}

// The system gives back the pages of files before it refuses memory. A container that has read its
// data once is full of them.
TEST(AvailableMemoryTest, PagesOfFilesDoNotCountAsUsed) {
  const TempDir root;
  const std::string cgroup = root.path() + "/sys/fs/cgroup/";
  Put(root.path() + "/proc/meminfo", "MemTotal:  10 kB\nMemAvailable:     2000 kB\n");
  Put(cgroup + "memory.max", "10000\n");
  Put(cgroup + "memory.current", "9900\n");
  Put(cgroup + "memory.stat",
      "anon 1000\nfile 8500\nshmem 200\ninactive_file 8000\nactive_file 300\nslab_reclaimable "
      "50\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 100 + 8000 + 300 + 50);
  // Numbers that were read one after another.
  Put(cgroup + "memory.current", "7000\n");
  EXPECT_EQ(*AvailableMemory(root.path()), 10000);
}

// No machine runs this test with less. Numbers that are taken for others (KiB, pages) are beyond.
TEST(AvailableMemoryTest, ThisMachineHasWhatItsKernelSays) {
  const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const int64_t fewest = int64_t{64} << 20;
  const auto available = AvailableMemory(), limit = MemoryLimit();
  ASSERT_TRUE(available.ok()) << available.status();
  ASSERT_TRUE(limit.ok()) << limit.status();
  EXPECT_GE(*available, fewest);
  EXPECT_GE(*limit, *available);
  EXPECT_LE(*limit, physical);
}

TEST(AvailableMemoryTest, TheLimitIsThatOfTheMachineOrOfACgroup) {
  const TempDir root;
  EXPECT_EQ(MemoryLimit(root.path()).status().code(), absl::StatusCode::kNotFound);
  Put(root.path() + "/proc/meminfo", "MemTotal:  10 kB\nMemAvailable:     5 kB\n");
  EXPECT_EQ(*MemoryLimit(root.path()), 10 * 1024);
  const std::string slice = root.path() + "/sys/fs/cgroup/system.slice/";
  Put(root.path() + "/proc/self/cgroup", "0::/system.slice/worker.service\n");
  Put(slice + "worker.service/memory.max", "max\n");
  EXPECT_EQ(*MemoryLimit(root.path()), 10 * 1024);
  Put(slice + "memory.max", "8000\n");
  EXPECT_EQ(*MemoryLimit(root.path()), 8000);
  Put(slice + "worker.service/memory.max", "9000\n");
  EXPECT_EQ(*MemoryLimit(root.path()), 8000);
  Put(slice + "worker.service/memory.max", "7000\n");
  EXPECT_EQ(*MemoryLimit(root.path()), 7000);
}

}  // namespace
}  // namespace longhaul
