#include "common/plan/update_model.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/update_bounds.h"

namespace longhaul {
namespace {

const std::vector<int64_t> kSubgroups(24, 1'000'000);

UpdateLoad Load() {
  return {.rates = {
              .host_elements = 1e9, .device_elements = 20e9, .up_bytes = 25e9, .down_bytes = 25e9}};
}

UpdateSchedule Schedule(int stride, double share = 0) {
  return MakeUpdateSchedule(kSubgroups, {.stride = stride, .device_share = share});
}

TEST(UpdateModelTest, TheBoundIsTheSlowestResource) {
  EXPECT_DOUBLE_EQ(BoundSeconds(Load(), Schedule(0)), 24e-3);
  EXPECT_DOUBLE_EQ(BoundSeconds(Load(), Schedule(2)), 12e-3);
  EXPECT_DOUBLE_EQ(BoundSeconds(Load(), Schedule(1)), 24e6 * 12 / 25e9);
  EXPECT_DOUBLE_EQ(BoundSeconds(Load(), Schedule(0, 1)), 24e6 * 4 / 25e9);
  UpdateLoad contended = Load();
  contended.rates.dram_bytes = 20e9;
  contended.ranks = 2;
  EXPECT_DOUBLE_EQ(BoundSeconds(contended, Schedule(2)), 2 * 12e6 * (28 + 24) / 20e9);
  EXPECT_DOUBLE_EQ(PredictSeconds(contended, kSubgroups, Schedule(2)),
                   BoundSeconds(contended, Schedule(2)));
}

// Never below the bound, and above it by the pipeline's beginning and end at most.
TEST(UpdateModelTest, TheTimelineKeepsToTheBound) {
  for (const bool prefetched : {false, true}) {
    for (const double share : {0.0, 0.3, 1.0}) {
      for (const int stride : {0, 1, 2, 3, 4, 6, 8}) {
        UpdateLoad load = Load();
        load.prefetched = prefetched;
        const UpdateSchedule schedule = Schedule(stride, share);
        const double time = PredictSeconds(load, kSubgroups, schedule);
        if (!prefetched) {
          EXPECT_GE(time, BoundSeconds(load, schedule) * (1 - 1e-9)) << stride;
        }
        EXPECT_LE(time, BoundSeconds(load, schedule) + 4 * 12e6 / 25e9) << stride;
      }
    }
  }
}

// The host is slower for as long as links are busy.
TEST(UpdateModelTest, TheHostSharesItsMemoryWithTheLinks) {
  UpdateLoad load = Load();
  const double alone = PredictSeconds(load, kSubgroups, Schedule(3));
  load.rates.host_elements_beside = 0.5e9;
  const double beside = PredictSeconds(load, kSubgroups, Schedule(3));
  const double busy = 8e6 * 12 / 25e9;  // 16 ms of host updates, and half a host meanwhile.
  EXPECT_NEAR(beside - alone, busy / 2, 0.6e-3);
  EXPECT_DOUBLE_EQ(PredictSeconds(load, kSubgroups, Schedule(0)), 24e-3);
}

TEST(UpdateModelTest, TheStrideFollowsTheRates) {
  UpdateLoad load = Load();
  EXPECT_EQ(ChooseStride(load, kSubgroups, 0), 1);  // Twice the host's rate passes the links.
  load.rates.up_bytes = load.rates.down_bytes = 15e9;
  EXPECT_EQ(ChooseStride(load, kSubgroups, 0), 2);
  load.rates.up_bytes = load.rates.down_bytes = 3e9;  // Four host updates for a state each way.
  EXPECT_EQ(ChooseStride(load, kSubgroups, 0), 5);
  load.rates.up_bytes = load.rates.down_bytes = 1e8;
  EXPECT_EQ(ChooseStride(load, kSubgroups, 0), 0);
  load.rates.up_bytes = load.rates.down_bytes = 1e12;
  EXPECT_EQ(ChooseStride(load, kSubgroups, 0), 1);
  EXPECT_EQ(ChooseStride(load, kSubgroups, 1), 0);  // Nothing is left to interleave.
}

// Two of the published points of a sweep give the others (arXiv 2410.21316, 20B on 4 A100).
TEST(UpdateModelTest, TheLawGoesThroughTwoPoints) {
  const StrideLaw published{.a = 4.094, .b = 2.851};
  const StrideLaw law = StrideLaw::Through(2, published.At(2), 8, published.At(8));
  EXPECT_NEAR(law.a, 4.094, 1e-9);
  EXPECT_NEAR(law.b, 2.851, 1e-9);
  EXPECT_NEAR(law.At(2), 3.500, 0.03);
}

}  // namespace
}  // namespace longhaul
