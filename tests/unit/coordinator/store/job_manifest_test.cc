#include "coordinator/store/job_manifest.h"

#include "common/io/file_util.h"
#include "common/io/memory_filesystem.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

TEST(JobManifestTest, EveryOptionComesBack) {
  MemoryFileSystem fs;
  JobStoreOptions options = SmallOptions();
  options.down.kind = CodecKind::kE3m0;
  options.down.search_scale = true;
  options.outer_momentum = 0.9;
  options.snapshot_every = 7;
  options.checkpoints_keep = 5;
  ASSERT_TRUE(WriteJobManifest(fs, ".", options).ok());
  const auto read = ReadJobManifest(fs, ".");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->fragment_elements, options.fragment_elements);
  EXPECT_EQ(read->down, options.down);
  EXPECT_EQ(read->outer_lr, 2);
  EXPECT_EQ(read->outer_momentum, 0.9);
  EXPECT_EQ(read->snapshot_every, 7);
  EXPECT_EQ(read->checkpoints_keep, 5);
  EXPECT_EQ(read->log_segment_bytes, options.log_segment_bytes);
  EXPECT_EQ(read->log_salt, 42u);
}

TEST(JobManifestTest, TellsMissingDamagedAndNewer) {
  MemoryFileSystem fs;
  EXPECT_TRUE(absl::IsNotFound(ReadJobManifest(fs, ".").status()));
  ASSERT_TRUE(WriteJobManifest(fs, ".", SmallOptions()).ok());
  const std::string good = *ReadFile(fs, "./manifest", 1000);
  for (size_t i = 8; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", bad).ok());
    EXPECT_TRUE(absl::IsDataLoss(ReadJobManifest(fs, ".").status())) << i;
    ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", good.substr(0, i)).ok());
    EXPECT_TRUE(absl::IsDataLoss(ReadJobManifest(fs, ".").status())) << i;
  }
  std::string newer = good;
  newer[7] = '3';
  ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", newer).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadJobManifest(fs, ".").status()));
}

}  // namespace
}  // namespace longhaul
