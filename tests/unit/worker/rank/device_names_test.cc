#include "worker/rank/device_names.h"

#include <gtest/gtest.h>

#include <utility>

namespace longhaul {
namespace {

using Words = std::vector<std::vector<int64_t>>;

// What the ranks of a pool whose devices have these names are told.
std::string WarningFor(const std::vector<std::string>& names) {
  Words all;
  for (const std::string& name : names) {
    const auto taken = WarningOfDevices(name, [&](absl::Span<const int64_t> words) {
      all.emplace_back(words.begin(), words.end());
      return absl::StatusOr<Words>(Words{all.back()});
    });
    EXPECT_EQ(taken.value(), "") << "a rank alone";
  }
  return WarningOfDevices(names.front(),
                          [&](absl::Span<const int64_t>) { return absl::StatusOr<Words>(all); })
      .value();
}

TEST(DeviceNamesTest, SaysWhichRanksHaveOtherDevices) {
  EXPECT_EQ(WarningFor({"NVIDIA H100", "NVIDIA A100", "NVIDIA H100"}),
            "the pool's ranks compute on different devices: NVIDIA A100 (rank 1); NVIDIA H100 "
            "(rank 0, 2). Each step takes as long as on the slowest, and updates that each rank "
            "computes for itself may differ in their last bits");
  EXPECT_EQ(WarningFor({"a", "a", "a"}), "");
  EXPECT_NE(WarningFor({"a", ""}), "");
}

TEST(DeviceNamesTest, LongNamesAreCompared) {
  const std::string beginning(63, 'x');
  EXPECT_NE(WarningFor({beginning + "a", beginning + "b"}), "");
  EXPECT_EQ(WarningFor({beginning + "xa", beginning + "xb"}), "") << "beyond 64 bytes";
}

TEST(DeviceNamesTest, AFailureOfTheRanksIsPassedOn) {
  const auto warning = WarningOfDevices("a", [](absl::Span<const int64_t>) {
    return absl::StatusOr<Words>(absl::UnavailableError("a peer is lost"));
  });
  EXPECT_TRUE(absl::IsUnavailable(warning.status()));
}

}  // namespace
}  // namespace longhaul
