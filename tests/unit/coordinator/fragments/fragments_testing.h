// The fragments of jobs over a disk in memory, with runners that a test cranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "absl/strings/match.h"
#include "common/base/checked_math.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/part_intake.h"
#include "coordinator/fragments/stream_account.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/data_folder.h"
#include "tests/testing/failing_filesystem.h"
#include "tests/testing/hand_crank.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/fragments/willing_arbiter.h"

namespace longhaul::coordinator {

class FragmentsTest : public testing::Test {
 protected:
  static constexpr int32_t kElements = 200;

  FragmentsTest() {
    EXPECT_TRUE(CreateDirs(disk_, JobsFolder("data")).ok());
    fragments_.Add(Job("job", kElements));
  }
  static std::shared_ptr<JobFragments> Job(
      const std::string& id, int64_t elements, std::function<absl::Time()> now = SteadyTime,
      int64_t log_file_bytes = 1 << 20, int checkpoints_keep = JobStoreOptions().checkpoints_keep) {
    return *JobFragments::Create({.up = {.kind = CodecKind::kE3m0},
                                  .manifest = {.id = id,
                                               .name = id,
                                               .options = {.fragment_elements = {elements},
                                                           .checkpoints_keep = checkpoints_keep,
                                                           .log_file_bytes = log_file_bytes}},
                                  .now = std::move(now)});
  }
  void RunAll() {
    opening_.RunAll();
    background_.RunAll();
    apply_.RunAll();
  }
  absl::StatusOr<StoreContents> Open(const std::string& id, bool create) {
    absl::StatusOr<StoreContents> result = absl::UnknownError("no answer");
    fragments_.Open(id, create, [&](absl::StatusOr<StoreContents> opened) { result = opened; });
    RunAll();
    return result;
  }
  absl::StatusOr<CommitRecord> Apply(const std::string& id, Round round) {
    absl::StatusOr<CommitRecord> result = absl::UnknownError("no answer");
    fragments_.Apply(id, std::move(round),
                     [&](absl::StatusOr<CommitRecord> commit) { result = commit; });
    RunAll();
    return result;
  }
  absl::StatusOr<v1::CheckpointManifest> Checkpoint(const std::string& id, int64_t step = 60,
                                                    bool final = false) {
    absl::StatusOr<v1::CheckpointManifest> result = absl::UnknownError("no answer");
    v1::CheckpointManifest manifest;
    manifest.set_final(final);
    manifest.set_job_id(id);
    manifest.set_step(step);
    fragments_.Checkpoint(id, manifest, {}, [&](absl::StatusOr<v1::CheckpointManifest> written) {
      result = written;
    });
    RunAll();
    return result;
  }
  // Writes initial parameters to the log as a complete contribution of the pool.
  absl::Status Push(const std::string& id, const std::string& pool = "a",
                    int32_t elements = kElements) {
    std::vector<float> values(elements, 0.5f);
    const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                          values.size() * sizeof(float));
    const std::shared_ptr<JobFragments> job = fragments_.Find(id);
    PartIntake intake(job, job->store(), {0, 0, pool, "1"}, RoundKind::kSeed);
    const CodedChunk chunk{.segments = {{0, elements}},
                           .pieces = {bytes},
                           .payload_bytes = static_cast<int64_t>(bytes.size())};
    const absl::Status taken = intake.Take(chunk);
    return taken.ok() ? intake.Finish() : taken;
  }
  static Round Seed() { return {.kind = RoundKind::kSeed, .contributors = {{"a", "1"}}}; }

  std::ostringstream log_text_;
  Logger log_{{.format = LogFormat::kText, .stream = &log_text_}};
  MetricRegistry registry_;
  FragmentMetrics metrics_{registry_};
  MemoryFileSystem disk_;
  FailingFileSystem failing_{&disk_};
  WillingArbiter arbiter_;
  HandCrank apply_, opening_, background_;
  Fragments fragments_{{.data_dir = "data", .tile_threads = 1},
                       {.fs = &failing_,
                        .arbiter = &arbiter_,
                        .apply = &apply_,
                        .opening = &opening_,
                        .background = &background_,
                        .metrics = &metrics_,
                        .log = &log_}};
};

}  // namespace longhaul::coordinator
