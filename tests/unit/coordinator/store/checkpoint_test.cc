#include "coordinator/store/checkpoint.h"

#include <string>
#include <vector>

#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/delegating_filesystem.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : store_(*JobStore::Create(&fs_, "j", ManifestWith(SmallOptions()))) {}
  void Advance() {
    for (const int fragment : {0, 1}) {
      const RoundKind kind = *store_->Version(fragment) < 0 ? RoundKind::kSeed : RoundKind::kOuter;
      const int64_t elements = store_->options().fragment_elements[fragment];
      ASSERT_TRUE(Round(*store_, fragment, kind, {NoiseOf(elements, 1)}).ok());
    }
  }
  absl::StatusOr<v1::CheckpointManifest> Write(int64_t step,
                                               const std::vector<int64_t>& versions = {}) {
    v1::CheckpointManifest manifest;
    manifest.set_step(step);
    manifest.set_job_name("alpha");
    v1::CheckpointTensor& tensor = *manifest.add_tensors();
    tensor.set_name("w");
    tensor.add_shape(1000);
    return store_->WriteCheckpoint(manifest, versions);
  }

  MemoryFileSystem fs_;
  std::unique_ptr<JobStore> store_;
};

TEST_F(CheckpointTest, HoldsTheOuterParametersOfEveryFragment) {
  Advance();
  Advance();
  const auto manifest = Write(30);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->path(), "j/checkpoints/step-00000030");
  EXPECT_EQ(manifest->format_version(), 1);
  ASSERT_EQ(manifest->fragments_size(), 2);
  for (const v1::CheckpointFragment& fragment : manifest->fragments()) {
    const std::vector<float> outer = OuterOf(*store_, fragment.fragment());
    const std::string bytes = *ReadFile(fs_, JoinPath(manifest->path(), fragment.file()), 1 << 20);
    EXPECT_EQ(bytes, BytesOf(outer));
    EXPECT_EQ(fragment.version(), 1);
    EXPECT_EQ(DigestOf(bytes), DigestFromProto(fragment.digest()));
  }
  const auto listed = ListCheckpoints(fs_, "j");
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->front().SerializeAsString(), manifest->SerializeAsString());
}

TEST_F(CheckpointTest, HasOneVersionWhileRoundsContinue) {
  Advance();
  Advance();
  const std::vector<float> outer = OuterOf(*store_, 1);
  Advance();
  ASSERT_TRUE(
      Round(*store_, 0, RoundKind::kOuter, {NoiseOf(store_->options().fragment_elements[0], 1)})
          .ok());
  const auto manifest = Write(30, {1, 1});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->fragments(0).version(), 1);
  EXPECT_EQ(manifest->fragments(1).version(), 1);
  EXPECT_EQ(*ReadFile(fs_, JoinPath(manifest->path(), manifest->fragments(1).file()), 1 << 20),
            BytesOf(outer));
  EXPECT_TRUE(CheckCheckpoint(fs_, manifest->path()).empty());
  const auto uneven = Write(40, {2, 1});
  ASSERT_TRUE(uneven.ok()) << uneven.status();
  EXPECT_EQ(uneven->fragments(0).version(), 2);
  EXPECT_EQ(uneven->fragments(1).version(), 1);
  // A checkpoint reaches only as far back as snapshots and log do.
  for (int i = 0; i < 20; ++i) {
    Advance();
    ASSERT_TRUE(store_->MaybeSnapshot().ok());
  }
  const auto late = Write(60, {1, 1});
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_GT(late->fragments(0).version(), 1);
}

TEST_F(CheckpointTest, RefusesAnUnseededJob) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Write(30).status()));
  EXPECT_TRUE(ListCheckpoints(fs_, "j")->empty());
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  Advance();
  for (const int64_t step : {90, 1000, 30, 123456789}) ASSERT_TRUE(Write(step).ok());
  const auto listed = *ListCheckpoints(fs_, "j");
  ASSERT_EQ(listed.size(), 3u);
  EXPECT_EQ(listed[0].step(), 90);
  EXPECT_EQ(listed[1].step(), 1000);
  EXPECT_EQ(listed[2].step(), 123456789);
}

TEST_F(CheckpointTest, ReplacesOneOfTheSameStep) {
  Advance();
  ASSERT_TRUE(Write(30).ok());
  Advance();
  ASSERT_TRUE(Write(30).ok());
  const auto listed = *ListCheckpoints(fs_, "j");
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].fragments(0).version(), 1);
  EXPECT_EQ(fs_.List("j/checkpoints")->size(), 1u);
}

TEST_F(CheckpointTest, LeavesAnEqualOneOfTheSameStepAlone) {
  Advance();
  ASSERT_TRUE(Write(30).ok());
  ASSERT_TRUE(fs_.Create("j/checkpoints/step-00000030/marker").ok());
  const auto again = Write(30);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->fragments_size(), 2);
  EXPECT_TRUE(fs_.Open("j/checkpoints/step-00000030/marker").ok());
  EXPECT_THAT(*fs_.List("j/checkpoints"), testing::ElementsAre("step-00000030"));
}

// A crash may come between a checkpoint and the removal of an older one.
TEST_F(CheckpointTest, RemovesOldOnesAlsoBesideAnEqualOne) {
  Advance();
  for (const int64_t step : {30, 60}) ASSERT_TRUE(Write(step).ok());
  v1::CheckpointManifest manifest = ListCheckpoints(fs_, "j")->back();
  const auto fragments = manifest.fragments();
  auto writer = CheckpointWriter::Begin(&fs_, "j", manifest);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const v1::CheckpointFragment& fragment : fragments) {
    const std::vector<float> outer = OuterOf(*store_, fragment.fragment());
    ASSERT_TRUE(
        writer->AddFragment(fragment.version(), DigestFromProto(fragment.digest()), outer).ok());
  }
  ASSERT_TRUE(writer->Finish(/*keep=*/1).ok());
  EXPECT_THAT(*fs_.List("j/checkpoints"), testing::ElementsAre("step-00000060"));
}

TEST_F(CheckpointTest, TheFinalOneReplacesAnEqualOne) {
  Advance();
  ASSERT_TRUE(Write(30).ok());
  v1::CheckpointManifest manifest;
  manifest.set_step(30);
  manifest.set_final(true);
  ASSERT_TRUE(store_->WriteCheckpoint(manifest).ok());
  EXPECT_TRUE(ListCheckpoints(fs_, "j")->front().final());
}

TEST_F(CheckpointTest, CleansUpWhatACrashLeft) {
  Advance();
  ASSERT_TRUE(Write(30).ok());
  ASSERT_TRUE(Write(60).ok());
  ASSERT_TRUE(fs_.Rename("j/checkpoints/step-00000060", "j/checkpoints/step-00000060.old").ok());
  ASSERT_TRUE(fs_.CreateDir("j/checkpoints/step-00000090.tmp").ok());
  ASSERT_TRUE(fs_.Create("j/checkpoints/step-00000090.tmp/fragment-000.f32").ok());
  ASSERT_TRUE(CleanCheckpoints(fs_, "j").ok());
  EXPECT_THAT(*fs_.List("j/checkpoints"), testing::ElementsAre("step-00000030", "step-00000060"));
}

// Removes so many files and no more, as a process does that is killed.
class KilledAtRemove : public DelegatingFileSystem {
 public:
  KilledAtRemove(FileSystem* base, int removes) : DelegatingFileSystem(base), removes_(removes) {}
  absl::Status Remove(const std::string& path) override {
    if (removes_-- == 0) return absl::AbortedError("killed");
    return DelegatingFileSystem::Remove(path);
  }

 private:
  int removes_;
};

TEST_F(CheckpointTest, IsWholeOrGoneWhenTheRemovalOfAnOldOneIsInterrupted) {
  Advance();
  for (const int64_t step : {30, 60}) ASSERT_TRUE(Write(step).ok());
  // The files of two fragments, the manifest and the folder.
  for (int removes = 0; removes < 4; ++removes) {
    const std::unique_ptr<MemoryFileSystem> disk = fs_.CrashCopy(UnsyncedFate::kKept);
    KilledAtRemove killed(disk.get(), removes);
    v1::CheckpointManifest manifest;
    manifest.set_step(90);
    auto writer = CheckpointWriter::Begin(&killed, "j", manifest);
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE(absl::IsAborted(writer->Finish(/*keep=*/2).status()));
    const auto manifests = ListCheckpoints(*disk, "j");
    ASSERT_TRUE(manifests.ok()) << manifests.status();
    for (const v1::CheckpointManifest& listed : *manifests) {
      EXPECT_THAT(CheckCheckpoint(*disk, CheckpointPath("j", listed.step())), testing::IsEmpty())
          << removes;
    }
    ASSERT_TRUE(CleanCheckpoints(*disk, "j").ok());
    EXPECT_THAT(*disk->List("j/checkpoints"),
                testing::ElementsAre("step-00000060", "step-00000090"));
  }
}

TEST_F(CheckpointTest, LeavesOutAFolderWithoutAManifest) {
  Advance();
  ASSERT_TRUE(Write(30).ok());
  ASSERT_TRUE(fs_.CreateDir("j/checkpoints/step-00000060").ok());
  EXPECT_EQ(ListCheckpoints(fs_, "j")->size(), 1u);
}

// Nobody may read its folders.
class ClosedFileSystem : public DelegatingFileSystem {
 public:
  using DelegatingFileSystem::DelegatingFileSystem;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return absl::PermissionDeniedError("not yours");
  }
};

TEST_F(CheckpointTest, AFolderThatCannotBeReadIsNotOneWithoutCheckpoints) {
  EXPECT_TRUE(CheckpointSteps(fs_, "none")->empty());
  Advance();
  Advance();
  ASSERT_TRUE(Write(30).ok());
  EXPECT_EQ(*CheckpointSteps(fs_, "j"), std::vector<int64_t>{30});
  ClosedFileSystem closed(&fs_);
  EXPECT_TRUE(absl::IsPermissionDenied(CheckpointSteps(closed, "j").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(FindCheckpoint(closed, "j", 30).status()));
}

TEST_F(CheckpointTest, TheCheckpointThatIsWantedIsTheNewestIfNoStepIsGiven) {
  EXPECT_EQ(FindCheckpoint(fs_, "j", std::nullopt).status(), absl::NotFoundError("no checkpoints"));
  Advance();
  Advance();
  ASSERT_TRUE(Write(30).ok());
  EXPECT_EQ(*FindCheckpoint(fs_, "j", std::nullopt), 30);
  EXPECT_EQ(*FindCheckpoint(fs_, "j", 30), 30);
  EXPECT_EQ(FindCheckpoint(fs_, "j", 20).status(), absl::NotFoundError("no checkpoint of step 20"));
}

}  // namespace
}  // namespace longhaul
