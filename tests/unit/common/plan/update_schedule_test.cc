#include "common/plan/update_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr auto H = UpdateWay::kHost, D = UpdateWay::kInterleaved, R = UpdateWay::kResident;
using testing::ElementsAre;

TEST(UpdateScheduleTest, TheLastOfEveryStrideIsTheDevices) {
  const std::vector<int64_t> elements(6, 10);
  EXPECT_THAT(MakeUpdateSchedule(elements, {.stride = 0}).ways, ElementsAre(H, H, H, H, H, H));
  EXPECT_THAT(MakeUpdateSchedule(elements, {.stride = 1}).ways, ElementsAre(D, D, D, D, D, D));
  EXPECT_THAT(MakeUpdateSchedule(elements, {.stride = 2}).ways, ElementsAre(H, D, H, D, H, D));
  EXPECT_THAT(MakeUpdateSchedule(elements, {.stride = 4}).ways, ElementsAre(H, H, H, D, H, H));
  EXPECT_EQ(MakeUpdateSchedule(elements, {.stride = 4}).device_share(), 1.0 / 6);
}

TEST(UpdateScheduleTest, TheShareIsRoundedToSubgroupsAndReported) {
  const std::vector<int64_t> elements(5, 100);
  const UpdateSchedule some = MakeUpdateSchedule(elements, {.stride = 2, .device_share = 0.3});
  EXPECT_THAT(some.ways, ElementsAre(R, R, H, D, H));
  EXPECT_EQ(some.resident_share(), 0.4);  // As near as 0.2.
  EXPECT_EQ(some.device_share(), 0.6);
  EXPECT_EQ(MakeUpdateSchedule(elements, {.device_share = 0.09}).resident_share(), 0);
  EXPECT_EQ(MakeUpdateSchedule(elements, {.device_share = 1}).resident_share(), 1);
  EXPECT_EQ(MakeUpdateSchedule({}, {.stride = 2, .device_share = 1}).device_share(), 0);
}

TEST(UpdateScheduleTest, DescribesWhatBecameOfTheOptions) {
  const std::vector<int64_t> elements(5, 100);
  EXPECT_EQ(MakeUpdateSchedule(elements, {.stride = 2, .device_share = 0.3}).Describe(),
            "5 subgroups, one of 2 on the device: 60 % of the elements; 40 % stay there");
  EXPECT_EQ(MakeUpdateSchedule(elements, {}).Describe(),
            "5 subgroups, none on the device: 0 % of the elements; 0 % stay there");
}

TEST(UpdateScheduleTest, CountsElementsNotSubgroups) {
  const UpdateSchedule schedule =
      MakeUpdateSchedule({1000, 10, 10, 10}, {.stride = 3, .device_share = 0.4});
  EXPECT_THAT(schedule.ways, ElementsAre(H, H, D, H));
  EXPECT_EQ(schedule.host_elements, 1020);
  EXPECT_EQ(schedule.interleaved_elements, 10);
}

}  // namespace
}  // namespace longhaul
