#include "worker/agent/pool_tracks.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/io/file_util.h"
#include "common/track/pool_scalars.h"
#include "common/wire/proto_values.h"

namespace longhaul {
namespace {

constexpr absl::Duration kTrackEach = absl::Seconds(1);
constexpr int kTracksQueueMax = 256;
constexpr size_t kFolderNameMax = 200;

}  // namespace

PoolTracks::PoolTracks(const std::string& folder, const std::string& pool, FileSystem* fs,
                       const Logger& log)
    : folder_(folder), run_(absl::StrCat("pool-", pool)) {
  if (folder_.empty()) return;
  runner_ =
      std::make_unique<Executor>(Executor::Options{.threads = 1, .queue_max = kTracksQueueMax});
  tracker_ = std::make_unique<Tracker>(fs, runner_.get(), log);
}

PoolTracks::~PoolTracks() = default;

// The coordinator's texts must not make paths of their own.
std::string PoolTracks::RunFolder(const v1::Assignment& job, const std::string& run) const {
  std::string name = absl::StrCat(job.spec().name(), "-", job.job_id());
  name.resize(std::min(name.size(), kFolderNameMax));
  for (char& c : name) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') c = '_';
  }
  return JoinPath(folder_, absl::StrCat(name, "/", run));
}

void PoolTracks::Progressed(const v1::Assignment& job, const std::string& session,
                            const v1::PoolProgress& progress) {
  if (tracker_ == nullptr || progress.inner_step() < 1) return;
  tracker_->AddSometimes(RunFolder(job, run_), session, kTrackEach,
                         {progress.inner_step(), absl::Now(), ProgressScalars(progress)});
}

void PoolTracks::Evaluated(const v1::Assignment& job, const v1::Evaluation& evaluation) {
  if (tracker_ == nullptr) return;
  tracker_->Add(RunFolder(job, evaluation.of_pool() ? run_ : "outer"),
                {evaluation.step(), absl::Now(),
                 EvaluationScalars(evaluation.loss(), MetricsFromProto(evaluation.metrics()),
                                   evaluation.final())});
}

void PoolTracks::Close() {
  if (tracker_ != nullptr) tracker_->Close("");
}

}  // namespace longhaul
