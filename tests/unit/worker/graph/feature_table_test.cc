#include "worker/graph/feature_table.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/graph/gather_index.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/emulated_gather_kernels.h"
#include "tests/testing/graph_files.h"
#include "tests/testing/temp_dir.h"
#include "worker/kernels/gather_rows.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using testing_support::EmulatedGatherKernels;
using testing_support::RingGraph;
using testing_support::WriteGraph;

constexpr int64_t kRows = 97;

class FeatureTableTest : public ::testing::Test {
 protected:
  GraphFolder Folder(int64_t columns) {
    const std::string path = dir_.Join(absl::StrCat("g", columns));
    testing_support::GraphContent graph = RingGraph(kRows, columns);
    Random random(columns);
    for (float& value : graph.features) value = static_cast<float>(random.Uniform());
    WriteGraph(graph, path);
    return GraphFolder::Open(path).value();
  }
  // As a device does it.
  static absl::Status ByKernel(const KernelTable& table, absl::Span<const int64_t> ids,
                               float* out) {
    LH_ASSIGN_OR_RETURN(const RowOrder order, AscendingRows(ids, table.rows()));
    EXPECT_TRUE(std::is_sorted(order.ids.begin(), order.ids.end()));
    return table.Gather(order.ids.data(), order.places.empty() ? nullptr : order.places.data(),
                        static_cast<int64_t>(ids.size()), out, nullptr);
  }

  TempDir dir_;
  EmulatedGatherKernels kernels_;
};

TEST_F(FeatureTableTest, EveryAccessGivesTheSameBytes) {
  ThreadTeam team(3);
  for (const int64_t columns : {1, 2, 3, 4, 5, 7, 8, 25, 31, 32, 33, 47, 64, 100, 128, 129, 353}) {
    const GraphFolder folder = Folder(columns);
    const auto host = HostRows::Copy(folder, &team).value();
    const auto mapped = MakeMappedTable(&folder, nullptr), in_memory = MakeHostTable(host, &team);
    const auto zero_copy = KernelTable::ZeroCopy(host, &kernels_).value();
    const auto on_device = KernelTable::OnDevice(host->data(), kRows, columns, &kernels_);
    using Gather = std::function<absl::Status(absl::Span<const int64_t>, float*)>;
    const std::vector<std::pair<FeatureAccess, Gather>> tables = {
        {mapped->access(), [&](auto ids, float* out) { return mapped->Gather(ids, out); }},
        {in_memory->access(), [&](auto ids, float* out) { return in_memory->Gather(ids, out); }},
        {zero_copy->access(), [&](auto ids, float* out) { return ByKernel(*zero_copy, ids, out); }},
        {on_device->access(),
         [&](auto ids, float* out) { return ByKernel(*on_device, ids, out); }}};
    Random random(columns);
    for (const int count : {0, 1, 5, 200}) {
      for (const bool sorted : {false, true}) {
        std::vector<int64_t> ids;
        for (int i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(random.Below(kRows)));
        if (sorted) std::sort(ids.begin(), ids.end());
        for (const auto& [access, gather] : tables) {
          // Marks around the rows stay.
          constexpr float kMark = -7;
          std::vector<float> out(count * columns + 8, kMark);
          ASSERT_TRUE(gather(ids, out.data() + 4).ok());
          for (int i = 0; i < count; ++i) {
            ASSERT_EQ(std::memcmp(&out[4 + i * columns], &folder.features()[ids[i] * columns],
                                  columns * sizeof(float)),
                      0)
                << NameOf(access) << " " << columns;
          }
          for (int i = 0; i < 4; ++i) {
            ASSERT_EQ(out[i], kMark);
            ASSERT_EQ(out[4 + count * columns + i], kMark);
          }
        }
      }
    }
  }
}

TEST_F(FeatureTableTest, RefusesIdsThatAreNoRows) {
  const GraphFolder folder = Folder(3);
  const auto table = MakeMappedTable(&folder, nullptr);
  for (const int64_t bad : {int64_t{-1}, kRows, int64_t{1} << 40}) {
    const std::vector<int64_t> ids = {0, 5, bad};
    std::vector<float> out(9, 1);
    for (const absl::Status& status :
         {table->Gather(ids, out.data()), AscendingRows(ids, kRows).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(status.message(), HasSubstr("id 2"));
      EXPECT_EQ(out, std::vector<float>(9, 1));
    }
  }
}

TEST_F(FeatureTableTest, TheOrderOfRowsIsThatOfAStableSort) {
  for (const int64_t rows :
       {int64_t{1}, int64_t{2}, int64_t{2048}, int64_t{2049}, int64_t{1} << 22, int64_t{3} << 40}) {
    Random random(7);
    std::vector<int64_t> ids = {rows - 1, 0};
    for (int i = 0; i < 3000; ++i) ids.push_back(static_cast<int64_t>(random.Below(rows)));
    const RowOrder order = AscendingRows(ids, rows).value();
    std::vector<int32_t> places(ids.size());
    std::iota(places.begin(), places.end(), 0);
    std::stable_sort(places.begin(), places.end(),
                     [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
    if (rows > 1) {
      EXPECT_EQ(order.places, places) << rows;
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(order.ids, ids);
    EXPECT_TRUE(AscendingRows(ids, rows)->places.empty());
  }
  EXPECT_TRUE(AscendingRows({}, 5)->ids.empty());
}

// In the page cache: what it takes besides is a page or two, for any number of ranks.
TEST_F(FeatureTableTest, SharedRowsAreTheFilesOwn) {
  const auto folder = std::make_shared<const GraphFolder>(Folder(353));
  ThreadTeam team(2);
  const auto rows = HostRows::Share(folder, &team).value(),
             again = HostRows::Share(folder, nullptr).value();
  EXPECT_TRUE(rows->shared());
  EXPECT_EQ(rows->data(), folder->features().data());
  EXPECT_EQ(again->data(), rows->data());
  std::vector<float> out(353);
  ASSERT_TRUE(MakeHostTable(rows, nullptr)->Gather(std::vector<int64_t>{96}, out.data()).ok());
  EXPECT_EQ(std::memcmp(out.data(), &folder->features()[96 * 353], 353 * 4), 0);
}

TEST_F(FeatureTableTest, RegistersAndUnregisters) {
  const GraphFolder folder = Folder(3);
  const auto host = HostRows::Copy(folder, nullptr).value();
  for (int i = 0; i < 3; ++i) {
    const auto table = KernelTable::ZeroCopy(host, &kernels_).value();
    EXPECT_EQ(kernels_.registered(), 1);
    // The same rows twice.
    const auto again = KernelTable::ZeroCopy(host, &kernels_);
    EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(again.status().message(), HasSubstr("already mapped"));
  }
  EXPECT_EQ(kernels_.registered(), 0);
  // A limit of locked memory below the table.
  const EmulatedGatherKernels little(300);
  EXPECT_EQ(KernelTable::ZeroCopy(host, &little).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(little.registered(), 0);
  // The fallback.
  std::vector<float> out(3);
  EXPECT_TRUE(MakeHostTable(host, nullptr)->Gather(std::vector<int64_t>{1}, out.data()).ok());
}

TEST_F(FeatureTableTest, ACutFileIsAnErrorOfTheMappedTable) {
  const std::string path = dir_.Join("cut");
  WriteGraph(RingGraph(5000, 16), path);
  const GraphFolder folder = GraphFolder::Open(path).value();
  const auto table = MakeMappedTable(&folder, nullptr);
  std::vector<float> out(16);
  EXPECT_TRUE(table->Gather(std::vector<int64_t>{4999}, out.data()).ok());
  ASSERT_EQ(truncate((path + "/features.npy").c_str(), 8192), 0);
  EXPECT_EQ(table->Gather(std::vector<int64_t>{4999}, out.data()).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(HostRows::Copy(folder, nullptr).status().code(), absl::StatusCode::kDataLoss);
}

TEST(GatherRowsTest, CopiesRowsOfAnyWidth) {
  std::vector<uint8_t> table(100 * 700);
  Random random(1);
  for (uint8_t& byte : table) byte = static_cast<uint8_t>(random.Next());
  ThreadTeam team(4);
  for (int64_t bytes = 1; bytes <= 700; ++bytes) {
    for (const int count : {1, 30, 1000}) {
      std::vector<int64_t> ids;
      for (int i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(random.Below(100)));
      std::vector<uint8_t> out(count * bytes + 1, 9);
      GatherRows(table.data(), bytes, ids, out.data(), &team);
      for (int i = 0; i < count; ++i)
        ASSERT_EQ(std::memcmp(&out[i * bytes], &table[ids[i] * bytes], bytes), 0);
      ASSERT_EQ(out.back(), 9);
    }
  }
}

// By the kernel's own arithmetic, for each width, unit and beginning of a row.
TEST(GatherIndexTest, EachByteIsReadOnceAndNothingOutside) {
  for (const int unit : {1, 2, 4, 8, 16}) {
    for (int64_t bytes = unit; bytes <= 1100; bytes += unit * (bytes > 300 ? 7 : 1)) {
      const GatherShape shape = GatherShapeOf(bytes, unit);
      for (uint64_t row = 0; row < 128; row += unit * 3) {
        std::vector<int> reads(bytes);
        for (int64_t pass = 0; pass < GatherPasses(shape, row); ++pass) {
          for (int lane = 0; lane < shape.lanes; ++lane) {
            const int64_t byte = GatherByte(shape, row, pass, lane);
            if (!GatherReads(shape, byte)) continue;
            ASSERT_LE(byte + unit, bytes);
            ASSERT_EQ((row + byte) % unit, 0U);
            for (int i = 0; i < unit; ++i) ++reads[byte + i];
          }
        }
        ASSERT_EQ(std::count(reads.begin(), reads.end(), 1), bytes) << unit << " " << bytes;
      }
    }
  }
}

TEST(GatherIndexTest, CountsTheLinesThatTheThreadsTouch) {
  for (const bool aligned : {false, true}) {
    for (const int unit : {1, 4, 16}) {
      for (int64_t bytes = unit; bytes <= 600; bytes += unit * (bytes > 200 ? 3 : 1)) {
        GatherShape shape = GatherShapeOf(bytes, unit);
        shape.aligned = aligned;
        shape.lanes = kGatherWarp;
        for (uint64_t row = 0; row < 128; row += unit * 5) {
          int64_t lines = 0;
          for (int64_t pass = 0; pass < GatherPasses(shape, row); ++pass) {
            std::set<uint64_t> touched;
            for (int lane = 0; lane < shape.lanes; ++lane) {
              const int64_t byte = GatherByte(shape, row, pass, lane);
              if (GatherReads(shape, byte)) touched.insert((row + byte) / 128);
            }
            lines += static_cast<int64_t>(touched.size());
          }
          ASSERT_EQ(GatherLines(shape, row), lines);
        }
      }
    }
  }
}

TEST(GatherIndexTest, AlignedAccessesTouchEachLineOnce) {
  for (const int unit : {4, 8, 16}) {
    for (int64_t bytes = 128 + unit; bytes <= 3000; bytes += unit) {
      for (uint64_t row = 0; row < 128; row += unit) {
        const int64_t lines = static_cast<int64_t>((row + bytes - 1) / 128 - row / 128) + 1;
        ASSERT_EQ(GatherLines(GatherShapeOf(bytes, unit), row), lines);
      }
    }
  }
}

TEST(GatherIndexTest, TheUnitDividesEverything) {
  EXPECT_EQ(GatherUnit(0, 0, 400), 16);
  EXPECT_EQ(GatherUnit(256, 64, 188), 4);
  EXPECT_EQ(GatherUnit(256, 72, 1024), 8);
  EXPECT_EQ(GatherUnit(256, 64, 47), 1);
  EXPECT_EQ(GatherShapeOf(16, 16).lanes, 1);
  EXPECT_EQ(GatherShapeOf(100, 4).lanes, 32);
  EXPECT_EQ(GatherShapeOf(64, 16).lanes, 4);
}

}  // namespace
}  // namespace longhaul
