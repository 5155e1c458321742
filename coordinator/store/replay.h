// Applies the rounds of a log again: for recovery, for checkpoints, and to check that the log still
// gives what its commits say.
//
// It takes frames in the order of the log. Each commit can then be repeated on the state of its
// fragment. Not thread-safe. Memory: the heads of the parts that no commit has taken yet.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/store/downlink.h"
#include "coordinator/store/fragment_state.h"
#include "coordinator/store/job_store_options.h"
#include "coordinator/store/log.h"
#include "coordinator/store/log_recovery.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

class Replay {
 public:
  // All pointers outlive it. `threads` share the tiles of a round.
  Replay(const Log* log, const JobStoreOptions* options, const OuterRules* rules, int threads);

  // These parts are not there.
  void AddDamaged(const std::vector<DamagedFrame>& parts);
  // DATA_LOSS, with file and offset: the commit is of a damaged part.
  absl::Status CheckInputs(const LogFrame& frame, const LoggedCommit& commit) const;

  // Takes the next frame. Returns the commit, if it is one. DATA_LOSS: the frame does not decode;
  // the error names file and offset.
  absl::StatusOr<std::optional<LoggedCommit>> Take(const LogFrame& frame);

  // Brings `state`, which is not newer, to the version of the commit in `frame`. Compares the
  // digests before and after. DATA_LOSS: they differ, parts are missing, or `state` is more than
  // one version behind; the error names file and offset, and `state` is then unspecified.
  // FAILED_PRECONDITION: other arithmetic.
  absl::Status Repeat(const LogFrame& frame, const LoggedCommit& commit,
                      FragmentState& state) const;

  // Where the downlink of a commit lies in the log; empty if it has none. DATA_LOSS: it is
  // incomplete.
  absl::StatusOr<DownlinkIndex> FindDownlink(const LogFrame& frame,
                                             const LoggedCommit& commit) const;

  // Forgets the parts and downlinks of rounds of the fragment up to this one.
  void Forget(const RoundId& round);

  // Returns the parts that were not forgotten, in the order of the log. Later calls return nothing.
  std::vector<StoredPart> TakeParts();

  // A DATA_LOSS about a commit. It names file and offset.
  absl::Status Lost(const LogFrame& frame, const CommitRecord& record, absl::string_view why) const;

 private:
  absl::StatusOr<std::string> ReadHead(const LogFrame& frame) const;
  absl::StatusOr<RoundSums> ApplyAgain(const LoggedCommit& commit, FragmentState& state) const;

  const Log* const log_;
  const JobStoreOptions& options_;
  const OuterRules& rules_;
  const int threads_;
  // By sequence, and so are the downlinks.
  std::map<uint64_t, StoredPart> parts_;
  std::map<uint64_t, std::pair<DownlinkPart, LogPosition>> downlinks_;
  // Also by sequence: why the part is not there.
  std::map<uint64_t, absl::Status> damaged_;
};

// The commits in the log of a job whose store is not open, oldest first. Reads the whole log, and
// keeps the heads of frames in memory. `leave_out_parts`: also if contributions are damaged.
// Errors: those of ReadJobManifest and ScanLog.
absl::StatusOr<std::vector<CommitRecord>> LoggedCommits(FileSystem& fs, const std::string& job_dir,
                                                        bool leave_out_parts);

}  // namespace longhaul
