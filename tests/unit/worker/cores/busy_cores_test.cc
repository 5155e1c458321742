#include "worker/cores/busy_cores.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

// Shares of a window of 20 ticks that each processor was busy, and what this process used of them.
struct Use {
  std::vector<double> processors;
  int own_ticks = 0;
};

class BusyCoresTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(root_.path() + "/proc/self");
    std::ofstream(root_.path() + path) << text;
  }
  // After so many windows of this use.
  void PutTimes(const Use& use, int windows) {
    std::string stat = "cpu  1 2 3 4 5 6 7 8 9 10\n";
    for (size_t i = 0; i < use.processors.size(); ++i) {
      const int busy = static_cast<int>(20 * use.processors[i]), idle = 20 - busy;
      // Half of the busy time is others' virtual machines'; guests' time counts once.
      absl::StrAppendFormat(&stat, "cpu%d %d 0 0 %d %d 0 0 %d %d 0\n", i,
                            1000 + windows * (busy - busy / 2), 500 + windows * idle / 2,
                            windows * (idle - idle / 2), windows * (busy / 2),
                            windows * (busy - busy / 2));
    }
    Put("/proc/stat", stat + "intr 17 0\nctxt 5\n");
    Put("/proc/self/stat", absl::StrCat("42 (a ) (b) S 1 42 42 0 -1 4194304 9 9 9 9 ",
                                        7 + windows * use.own_ticks, " 1 2 3 20 0 4 0 100 5 6\n"));
  }
  int Measure(const HostCores& host, const Use& use) {
    PutTimes(use, 0);
    const auto busy = MeasureBusyCores(
        host, [&] { PutTimes(use, 1); }, root_.path());
    EXPECT_TRUE(busy.ok()) << busy.status();
    return busy.value_or(-1);
  }
  // One thread each.
  static HostCores Plain(int cores) {
    HostCores host;
    for (int i = 0; i < cores; ++i) host.cores.push_back({.processors = {i}});
    return host;
  }

  const TempDir root_;
};

TEST_F(BusyCoresTest, AreWhatOthersUseRounded) {
  EXPECT_EQ(Measure(Plain(4), {{0, 0, 0, 0}}), 0);
  EXPECT_EQ(Measure(Plain(4), {{0, 1, 0, 0}}), 1);
  EXPECT_EQ(Measure(Plain(4), {{0.1, 0.1, 0.1, 0.1}}), 0) << "noise takes no core";
  EXPECT_EQ(Measure(Plain(4), {{0.4, 0.4, 0.4, 0.4}}), 2) << "work that moves about";
  EXPECT_EQ(Measure(Plain(4), {{1, 1, 1, 1}}), 4);
}

TEST_F(BusyCoresTest, CountOnTheCoresOfTheCpusetAlone) {
  HostCores host = Plain(4);
  host.cores.erase(host.cores.begin(), host.cores.begin() + 2);
  EXPECT_EQ(Measure(host, {{1, 1, 0, 0}}), 0);
  EXPECT_EQ(Measure(host, {{0, 0, 1, 0}}), 1);
}

TEST_F(BusyCoresTest, TwoProcessorsOfACoreAreOneCore) {
  HostCores host;
  host.cores = {{.processors = {0, 2}}, {.processors = {1, 3}}};
  EXPECT_EQ(Measure(host, {{1, 0, 1, 0}}), 1);
  EXPECT_EQ(Measure(host, {{1, 1, 0, 0}}), 2) << "a core whose other thread is busy is not free";
}

TEST_F(BusyCoresTest, LeaveOutWhatThisProcessUses) {
  EXPECT_EQ(Measure(Plain(4), {{1, 1, 0, 0}, 20}), 1);
  EXPECT_EQ(Measure(Plain(4), {{1, 0, 0, 0}, 40}), 0) << "never negative";
}

TEST_F(BusyCoresTest, LeaveAtLeastOneCoreAndGoWithTheQuota) {
  HostCores host = Plain(4);
  host.busy = 1;
  EXPECT_EQ(host.count(), 3);
  host.busy = 4;
  EXPECT_EQ(host.count(), 1);
  host.quota = 2.5;
  host.busy = 0;
  EXPECT_EQ(host.count(), 2);
  host.busy = 2;
  EXPECT_EQ(host.count(), 2) << "others are busy beside the quota, not within it";
  host.busy = 3;
  EXPECT_EQ(host.count(), 1);
}

TEST_F(BusyCoresTest, AreUnknownWithoutTheFile) {
  const auto wait = [] { FAIL() << "waits for nothing"; };
  EXPECT_EQ(MeasureBusyCores(Plain(2), wait, root_.path()).status().code(),
            absl::StatusCode::kNotFound);
  Put("/proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpuX 1 2\nintr 5\n");
  EXPECT_EQ(MeasureBusyCores(Plain(2), wait, root_.path()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BusyCoresTest, ThisMachineTells) {
  const HostCores host = ReadHostCores().value();
  const auto busy = MeasureBusyCores(host, [] { absl::SleepFor(absl::Milliseconds(20)); });
  ASSERT_TRUE(busy.ok()) << busy.status();
  EXPECT_LE(*busy, static_cast<int>(host.cores.size()));
}

}  // namespace
}  // namespace longhaul
