#include "coordinator/store/ordered_tiles.h"

#include <atomic>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace longhaul {
namespace {

TEST(OrderedTilesTest, EachTileIsWorkedOnceAndFinishedInOrder) {
  for (const int threads : {1, 2, 7, 100}) {
    for (const int64_t tiles : {0, 1, 2, 50}) {
      std::vector<std::atomic<int>> worked(tiles);
      std::vector<int64_t> finished;
      const auto work = [&](int64_t tile, int worker) {
        EXPECT_LT(worker, threads);
        ++worked[tile];
        return absl::OkStatus();
      };
      const auto finish = [&](int64_t tile, int) {
        EXPECT_EQ(worked[tile], 1);
        finished.push_back(tile);
        return absl::OkStatus();
      };
      EXPECT_TRUE(ForTilesInOrder(tiles, threads, work, finish).ok());
      std::vector<int64_t> all(tiles);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(finished, all);
    }
  }
}

TEST(OrderedTilesTest, OneWorkerDoesOneThingAtATime) {
  std::vector<std::atomic<bool>> busy(4);
  const auto work = [&](int64_t, int worker) {
    EXPECT_FALSE(busy[worker].exchange(true));
    return absl::OkStatus();
  };
  const auto finish = [&](int64_t, int worker) {
    EXPECT_TRUE(busy[worker].exchange(false));
    return absl::OkStatus();
  };
  EXPECT_TRUE(ForTilesInOrder(200, 4, work, finish).ok());
}

TEST(OrderedTilesTest, TheFirstErrorByTheOrderOfTilesCounts) {
  for (const int threads : {1, 3, 8}) {
    std::vector<int64_t> finished;
    const auto work = [&](int64_t tile, int) {
      return tile >= 5 ? absl::InternalError(absl::StrCat("tile ", tile)) : absl::OkStatus();
    };
    const auto finish = [&](int64_t tile, int) {
      finished.push_back(tile);
      return absl::OkStatus();
    };
    EXPECT_EQ(ForTilesInOrder(50, threads, work, finish).message(), "tile 5");
    EXPECT_EQ(finished, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  }
}

TEST(OrderedTilesTest, NothingIsFinishedAfterAnErrorOfFinish) {
  for (const int threads : {1, 4}) {
    int64_t last = -1;
    const auto work = [](int64_t, int) { return absl::OkStatus(); };
    const auto finish = [&](int64_t tile, int) {
      last = tile;
      return tile == 3 ? absl::DataLossError("gone") : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsDataLoss(ForTilesInOrder(50, threads, work, finish)));
    EXPECT_EQ(last, 3);
  }
}

}  // namespace
}  // namespace longhaul
