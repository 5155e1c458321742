#include "worker/measure/host_caches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HostCachesTest : public testing::Test {
 protected:
  void Put(int index, const std::string& level, const std::string& type, const std::string& size,
           const std::string& shared) {
    const std::string folder =
        absl::StrCat(root_.path(), "/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "level") << level << "\n";
    std::ofstream(folder + "type") << type << "\n";
    std::ofstream(folder + "size") << size << "\n";
    std::ofstream(folder + "shared_cpu_list") << shared << "\n";
  }
  TempDir root_;
};

TEST_F(HostCachesTest, CountsThoseThatThreadsDoNotShare) {
  Put(0, "1", "Data", "48K", "0");
  Put(1, "1", "Instruction", "32K", "0");
  Put(2, "2", "Unified", "2048K", "0-1");
  Put(3, "3", "Unified", "32M", "0-15");
  EXPECT_THAT(HostCaches(1, root_.path()), ElementsAre(48 << 10, 2 << 20, 32 << 20));
  EXPECT_THAT(HostCaches(4, root_.path()), ElementsAre(4 * 48 << 10, 4 << 20, 32 << 20));
}

TEST_F(HostCachesTest, ASystemThatSaysNothingOrNonsenseHasNone) {
  EXPECT_THAT(HostCaches(2, root_.path()), IsEmpty());
  Put(0, "1", "Data", "-5K", "0");
  Put(1, "one", "Data", "48K", "0");
  Put(2, "2", "Unified", "1e300M", "0");
  EXPECT_THAT(HostCaches(2, root_.path()), IsEmpty());
  // What follows a level that is missing is not known to be behind the first.
  Put(3, "3", "Unified", "32M", "");
  EXPECT_THAT(HostCaches(2, root_.path()), IsEmpty());
}

}  // namespace
}  // namespace longhaul
