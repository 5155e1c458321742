#include "coordinator/store/snapshot.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

FragmentState Sample(int64_t version) {
  FragmentState state(1000);
  state.theta = FloatArray(NoiseOf(1000, 1));
  state.momentum = FloatArray(NoiseOf(1000, 2));
  state.error = FloatArray(NoiseOf(1000, 3));
  state.version = version;
  state.commit_sequence = 77;
  state.digest = DigestOf(BytesOf(state.theta));
  return state;
}

TEST(SnapshotTest, StatesSurviveARoundTrip) {
  MemoryFileSystem fs;
  const FragmentState state = Sample(12);
  ASSERT_TRUE(WriteSnapshot(fs, "", 3, state).ok());
  const auto files = ListSnapshots(fs, "")->files;
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].fragment, 3);
  EXPECT_EQ(files[0].version, 12);
  EXPECT_EQ(files[0].commit_sequence, 77u);
  FragmentState read(1000);
  ASSERT_TRUE(ReadSnapshot(fs, files[0], &read).ok());
  EXPECT_THAT(read.theta, ElementsAreArray(state.theta));
  EXPECT_THAT(read.momentum, ElementsAreArray(state.momentum));
  EXPECT_THAT(read.error, ElementsAreArray(state.error));
  EXPECT_EQ(read.version, 12);
  EXPECT_EQ(read.commit_sequence, 77u);
  EXPECT_EQ(read.digest, state.digest);
}

TEST(SnapshotTest, AreListedInOrderWithoutLeftOvers) {
  MemoryFileSystem fs;
  for (const int64_t version : {100, 20, 3})
    ASSERT_TRUE(WriteSnapshot(fs, "", 0, Sample(version)).ok());
  ASSERT_TRUE(fs.Create("fragment-00000-0000000200.snap.tmp").ok());
  // No header.
  ASSERT_TRUE(fs.Create("fragment-00000-0000000300.snap").ok());
  ASSERT_TRUE(fs.Create("other").ok());
  std::vector<int64_t> versions;
  const auto files = ListSnapshots(fs, "")->files;
  for (const SnapshotFile& file : files) versions.push_back(file.version);
  EXPECT_THAT(versions, testing::ElementsAre(3, 20, 100));
  const auto list = *ListSnapshots(fs, "");
  ASSERT_EQ(list.damaged.size(), 1u);
  EXPECT_THAT(std::string(list.damaged[0].status.message()),
              testing::AllOf(testing::HasSubstr("0000000300.snap"), testing::HasSubstr("byte")));
  EXPECT_EQ(list.temporary.size(), 1u);
  // Listing changes nothing.
  EXPECT_EQ(fs.List("")->size(), 6u);
}

TEST(SnapshotTest, AreDurableWhenWritten) {
  MemoryFileSystem fs;
  ASSERT_TRUE(WriteSnapshot(fs, "", 3, Sample(12)).ok());
  const auto crashed = fs.CrashCopy(UnsyncedFate::kDropped);
  FragmentState read(1000);
  EXPECT_TRUE(ReadSnapshot(*crashed, ListSnapshots(*crashed, "")->files.front(), &read).ok());
}

TEST(SnapshotTest, AnyChangedByteIsFound) {
  MemoryFileSystem fs;
  const SnapshotFile file = *WriteSnapshot(fs, "", 3, Sample(12));
  char head_bytes = 0;
  ASSERT_TRUE((*fs.Open(file.path))->ReadExactly(8, {&head_bytes, 1}).ok());
  for (int64_t offset = 0; offset < 4096 + 12000; offset += 7) {
    if (offset >= 28 + head_bytes && offset < 4096) continue;
    const auto copy = fs.CrashCopy(UnsyncedFate::kDropped);
    auto opened = *copy->Open(file.path);
    char byte = 0;
    ASSERT_TRUE(opened->ReadExactly(offset, {&byte, 1}).ok());
    byte ^= 4;
    ASSERT_TRUE(opened->WriteAt(offset, {&byte, 1}).ok());
    FragmentState read(1000);
    const absl::Status refused = ReadSnapshot(*copy, file, &read);
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(file.path));
    // The number of the format.
    if (offset == 7) {
      EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    } else {
      EXPECT_TRUE(absl::IsDataLoss(refused)) << offset;
    }
  }
  FragmentState other_size(999);
  EXPECT_TRUE(absl::IsDataLoss(ReadSnapshot(fs, file, &other_size)));
}

TEST(SnapshotTest, AFullDiskLeavesNothing) {
  MemoryFileSystem memory;
  FailingFileSystem fs(&memory);
  fs.FailOnce(2, absl::ResourceExhaustedError("no space"));
  EXPECT_TRUE(absl::IsResourceExhausted(WriteSnapshot(fs, "", 3, Sample(12)).status()));
  EXPECT_THAT(*memory.List(""), testing::IsEmpty());
}

}  // namespace
}  // namespace longhaul
