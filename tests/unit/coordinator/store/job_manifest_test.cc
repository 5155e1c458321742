#include "coordinator/store/job_manifest.h"

#include "common/io/file_util.h"
#include "coordinator/store/envelope.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

TEST(JobManifestTest, EveryOptionSurvivesARoundTrip) {
  MemoryFileSystem fs;
  JobStoreOptions options = SmallOptions();
  options.down.kind = CodecKind::kE3m0;
  options.down.search_scale = true;
  options.outer_momentum = 0.9;
  options.snapshot_every = 7;
  options.checkpoints_keep = 5;
  options.noise_seed = 9;
  JobManifest manifest = ManifestWith(options);
  manifest.created = absl::FromUnixMicros(1700000000123456);
  manifest.idempotency_token = std::string("\0t", 2);
  manifest.spec = std::string("\xff\0", 2);
  ASSERT_TRUE(WriteJobManifest(fs, ".", manifest).ok());
  const auto found = ReadJobManifest(fs, ".");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->id, "id1");
  EXPECT_EQ(found->name, "alpha");
  EXPECT_EQ(found->created, manifest.created);
  EXPECT_EQ(found->idempotency_token, manifest.idempotency_token);
  EXPECT_EQ(found->spec, manifest.spec);
  const JobStoreOptions* const read = &found->options;
  EXPECT_EQ(read->fragment_elements, options.fragment_elements);
  EXPECT_EQ(read->down, options.down);
  EXPECT_EQ(read->outer_lr, 2);
  EXPECT_EQ(read->outer_momentum, 0.9);
  EXPECT_EQ(read->snapshot_every, 7);
  EXPECT_EQ(read->checkpoints_keep, 5);
  EXPECT_EQ(read->log_file_bytes, options.log_file_bytes);
  EXPECT_EQ(read->log_salt, 42u);
  EXPECT_EQ(read->noise_seed, options.noise_seed);
}

TEST(JobManifestTest, DistinguishesMissingDamagedAndNewerManifests) {
  MemoryFileSystem fs;
  EXPECT_TRUE(absl::IsNotFound(ReadJobManifest(fs, ".").status()));
  ASSERT_TRUE(WriteJobManifest(fs, ".", ManifestWith(SmallOptions())).ok());
  const std::string good = *ReadFile(fs, "./manifest", 1000);
  for (size_t i = 8; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", bad).ok());
    EXPECT_TRUE(absl::IsDataLoss(ReadJobManifest(fs, ".").status())) << i;
    ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", good.substr(0, i)).ok());
    EXPECT_TRUE(absl::IsDataLoss(ReadJobManifest(fs, ".").status())) << i;
  }
  // Larger than any manifest: damaged, not a full disk.
  ASSERT_TRUE((*fs.Create("./manifest"))->Truncate(17 << 20).ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadJobManifest(fs, ".").status()));
  for (const char number : {'2', '4'}) {
    std::string other = good;
    other[7] = number;
    ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", other).ok());
    const absl::Status refused = ReadJobManifest(fs, ".").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_THAT(std::string(refused.message()),
                testing::AllOf(testing::HasSubstr("./manifest"), testing::HasSubstr("LHMANIF")));
  }
}

TEST(JobManifestTest, IgnoresFieldsOfALaterProgram) {
  MemoryFileSystem fs;
  ASSERT_TRUE(WriteJobManifest(fs, ".", ManifestWith(SmallOptions())).ok());
  const std::string good = *ReadFile(fs, "./manifest", 1000);
  std::string message(*OpenEnvelope("LHMANIF3", good, "manifest"));
  // Field 100, five bytes.
  message += std::string("\xa2\x06\x05later", 8);
  ASSERT_TRUE(WriteFileAtomically(fs, "./manifest", WithEnvelope("LHMANIF3", message)).ok());
  EXPECT_EQ(ReadJobManifest(fs, ".")->name, "alpha");
}

}  // namespace
}  // namespace longhaul
