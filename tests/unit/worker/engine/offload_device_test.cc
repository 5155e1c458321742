#include "worker/engine/offload_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/testing/temp_dir.h"

namespace longhaul {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `name`: as if the device were another one. Empty: the device's own.
absl::StatusOr<int> Choose(const OffloadPlan& options, const std::string& name = "") {
  OffloadDevice device = OpenOffloadDevice(at::kCPU, options).value();
  if (!name.empty()) device.name = name;
  ThreadTeam team;
  return ChooseUpdateStride(device, options, {}, /*shadow=*/false, /*ranks=*/1,
                            std::vector<int64_t>(8, 1 << 12), team);
}

TEST(OffloadDeviceTest, AStrideThatIsSetIsNotMeasured) {
  const TempDir dir;
  OffloadPlan options{.optimizer = true,
                      .schedule = {.stride = 5},
                      .subgroup_elements = 128,
                      .profile_path = dir.Join("rates")};
  EXPECT_EQ(*Choose(options), 5);
  EXPECT_EQ(Read(options.profile_path), "");
}

TEST(OffloadDeviceTest, WhatWasMeasuredIsKept) {
  const TempDir dir;
  OffloadPlan options{
      .optimizer = true, .subgroup_elements = 128, .profile_path = dir.Join("rates")};
  ASSERT_TRUE(Choose(options).ok());
  const std::string measured = Read(options.profile_path);
  EXPECT_THAT(measured, testing::HasSubstr("1 threads, subgroups of 128, 32768 elements"));
  ASSERT_TRUE(Choose(options).ok());
  EXPECT_EQ(Read(options.profile_path), measured);
  // Rates that say that links are free decide for the device.
  const size_t end = measured.rfind('\n', measured.size() - 2);
  std::ofstream(options.profile_path) << measured.substr(0, end + 1) << "1e6 1e12 1e15 1e15 0 0\n";
  EXPECT_EQ(*Choose(options), 1);
  // They say nothing about another device.
  ASSERT_TRUE(Choose(options, "another GPU").ok());
  const std::string of_other = Read(options.profile_path);
  EXPECT_THAT(of_other, testing::HasSubstr("another GPU, 1 threads"));
  EXPECT_THAT(of_other, testing::Not(testing::HasSubstr("1e15")));
}

}  // namespace
}  // namespace longhaul
