// The fragments of jobs on a file system in memory. Their works run when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/part_intake.h"
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
  static std::shared_ptr<JobFragments> Job(const std::string& id, int64_t elements,
                                           std::function<absl::Time()> now = SteadyTime,
                                           int64_t log_file_bytes = 1 << 20,
                                           int keep = JobStoreOptions().checkpoints_keep) {
    return *JobFragments::Create({.up = {.kind = CodecKind::kE3m0},
                                  .manifest = {.id = id,
                                               .name = id,
                                               .options = {.fragment_elements = {elements},
                                                           .checkpoints_keep = keep,
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
  absl::StatusOr<CommitRecord> Apply(const std::string& id, RoundOrder order) {
    absl::StatusOr<CommitRecord> result = absl::UnknownError("no answer");
    fragments_.Apply(id, std::move(order),
                     [&](absl::StatusOr<CommitRecord> commit) { result = commit; });
    RunAll();
    return result;
  }
  absl::StatusOr<v1::CheckpointManifest> Checkpoint(const std::string& id, int64_t step = 60,
                                                    bool last = false) {
    absl::StatusOr<v1::CheckpointManifest> result = absl::UnknownError("no answer");
    v1::CheckpointManifest manifest;
    manifest.set_job_id(id);
    manifest.set_step(step);
    manifest.set_last(last);
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
    PartIntake intake(job, job->store(), {{0, 0, RoundKind::kSeed}, pool, "1"});
    const CodedChunk chunk{.segments = {{0, elements}},
                           .pieces = {bytes},
                           .payload_bytes = static_cast<int64_t>(bytes.size())};
    const absl::Status taken = intake.Take(chunk);
    return taken.ok() ? intake.Finish() : taken;
  }
  static RoundOrder Seed() {
    return {.round = {.kind = RoundKind::kSeed}, .contributors = {{"a", "1"}}};
  }

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
