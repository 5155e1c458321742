#include "worker/offload/update_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/machine_fingerprint.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/testing/temp_dir.h"
#include "worker/movement/emulated_movement.h"

namespace longhaul {
namespace {

TEST(UpdateRatesTest, MeasuresEveryResource) {
  EmulatedMovement movement({.mode = EmulatedMovement::Mode::kThreads});
  const auto rates = MeasureUpdateRates(movement, EmulatedAdamW, nullptr,
                                        {.elements = 4096, .budget = absl::ZeroDuration()});
  ASSERT_TRUE(rates.ok()) << rates.status();
  for (const double rate :
       {rates->host_elements, rates->device_elements, rates->up_bytes, rates->down_bytes})
    EXPECT_GT(rate, 0);
}

TEST(UpdateRatesTest, SaysWhatThereIsNoMemoryFor) {
  EmulatedMovement movement({.host_bytes_max = 100});
  EXPECT_EQ(MeasureUpdateRates(movement, EmulatedAdamW, nullptr, {}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// Counts how much of its memory was freed.
class CountingMovement : public EmulatedMovement {
 public:
  using EmulatedMovement::EmulatedMovement;
  absl::StatusOr<std::shared_ptr<std::byte>> Allocate(MemorySide side, int64_t bytes,
                                                      absl::string_view what) override {
    LH_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory,
                        EmulatedMovement::Allocate(side, bytes, what));
    std::byte* const begin = memory.get();
    return std::shared_ptr<std::byte>(
        begin, [memory = std::move(memory), freed = freed_](std::byte*) { ++*freed; });
  }
  // Outlives the movement, since its last works run while it ends.
  const std::shared_ptr<std::atomic<int>>& freed() const { return freed_; }

 private:
  const std::shared_ptr<std::atomic<int>> freed_ = std::make_shared<std::atomic<int>>(0);
};

TEST(UpdateRatesTest, ADeviceThatHangsKeepsItsMemory) {
  absl::Notification goes_on;
  int freed_before_its_end = -1;
  {
    CountingMovement movement(
        {.mode = EmulatedMovement::Mode::kThreads, .timeout = absl::Milliseconds(100)});
    const auto hangs = [&, freed = movement.freed()](const DeviceUpdate& update, void* stream) {
      goes_on.WaitForNotification();
      freed_before_its_end = *freed;
      return absl::OkStatus();
    };
    EXPECT_EQ(MeasureUpdateRates(movement, hangs, nullptr,
                                 {.elements = 4096, .budget = absl::ZeroDuration()})
                  .status()
                  .code(),
              absl::StatusCode::kDeadlineExceeded);
    goes_on.Notify();
  }
  EXPECT_EQ(freed_before_its_end, 0);
}

TEST(UpdateRatesTest, AreKeptForThisMachine) {
  MemoryFileSystem fs;
  ASSERT_TRUE(CreateDirs(fs, "/cache").ok());
  const UpdateRates rates{.host_elements = 1.5e9,
                          .device_elements = 2.5e10,
                          .up_bytes = 3,
                          .down_bytes = 4.25,
                          .host_elements_beside = 1e9};
  EXPECT_FALSE(LoadUpdateRates(fs, "/cache/rates", "a").ok());
  ASSERT_TRUE(SaveUpdateRates(fs, "/cache/rates", "a", rates).ok());
  const auto loaded = LoadUpdateRates(fs, "/cache/rates", "a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->host_elements, rates.host_elements);
  EXPECT_EQ(loaded->device_elements, rates.device_elements);
  EXPECT_EQ(loaded->up_bytes, rates.up_bytes);
  EXPECT_EQ(loaded->down_bytes, rates.down_bytes);
  EXPECT_EQ(loaded->host_elements_beside, rates.host_elements_beside);
  EXPECT_EQ(loaded->dram_bytes, 0);
  EXPECT_EQ(LoadUpdateRates(fs, "/cache/rates", "b").status().code(), absl::StatusCode::kNotFound);
}

TEST(UpdateRatesTest, AFileThatIsNoneIsNotRead) {
  MemoryFileSystem fs;
  ASSERT_TRUE(CreateDirs(fs, "/cache").ok());
  for (const char* text :
       {"", "\n\n", "longhaul update rates 1\na\n1 2 3\n",
        "longhaul update rates 1\na\n1 2 3 x 5 6\n", "longhaul update rates 1\na\n1 2 0 4 5 6\n",
        "longhaul update rates 1\na\n1 nan 3 4 5 6\n",
        "longhaul update rates 1\na\n1 2 3 inf 5 6\n",
        "longhaul update rates 2\na\n1 2 3 4 5 6\n"}) {
    ASSERT_TRUE(WriteFileAtomically(fs, "/cache/rates", text).ok());
    EXPECT_EQ(LoadUpdateRates(fs, "/cache/rates", "a").status().code(), absl::StatusCode::kNotFound)
        << text;
  }
}

TEST(UpdateRatesTest, WhatHoldsSomethingElseIsNotReplaced) {
  MemoryFileSystem fs;
  ASSERT_TRUE(CreateDirs(fs, "/cache").ok());
  ASSERT_TRUE(WriteFileAtomically(fs, "/cache/rates", "").ok());
  EXPECT_TRUE(SaveUpdateRates(fs, "/cache/rates", "a", {}).ok());
  // Of another version.
  ASSERT_TRUE(WriteFileAtomically(fs, "/cache/rates", "longhaul update rates 2\n").ok());
  EXPECT_TRUE(SaveUpdateRates(fs, "/cache/rates", "a", {}).ok());
  for (const std::string& text : {std::string("thesis"), std::string(1 << 20, 'x')}) {
    ASSERT_TRUE(WriteFileAtomically(fs, "/cache/rates", text).ok());
    EXPECT_FALSE(SaveUpdateRates(fs, "/cache/rates", "a", {}).ok());
    EXPECT_EQ(*ReadFile(fs, "/cache/rates", 2 << 20), text);
  }
}

TEST(UpdateRatesTest, TheFingerprintNamesTheProcessor) {
  const TempDir root;
  EXPECT_EQ(MachineFingerprint("2 threads", root.path()), "unknown processor x 0, 2 threads");
  std::filesystem::create_directories(root.path() + "/proc");
  std::ofstream(root.path() + "/proc/cpuinfo")
      << "processor : 0\nmodel name : Fast 9\n\nprocessor : 1\nmodel name : Fast 9\n";
  EXPECT_EQ(MachineFingerprint("2 threads", root.path()), "Fast 9 x 2, 2 threads");
}

}  // namespace
}  // namespace longhaul
