// The curves of one run in a folder: a TensorBoard event file and scalars.jsonl, with the same numbers. Several runs
// in folders below one are shown by `tensorboard --logdir` over one another.
//
// A later start of the program goes on in the same files, and writes nothing twice: a step that it has of
// a tag is not taken again. Externally synchronised. Blocks on the disk. Errors: those of the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/io/filesystem.h"
#include "common/track/event_file.h"
#include "common/track/scalar.h"
#include "common/track/scalar_lines.h"

namespace longhaul {

struct TrackedStep {
  int64_t step = 0;
  absl::Time time;
  std::vector<Scalar> scalars;
};

class TrackedRun {
 public:
  // Makes the folder and the one above it, but not those above that. `fs` outlives it. NOT_FOUND: those are not there.
  static absl::StatusOr<std::unique_ptr<TrackedRun>> Open(FileSystem* fs, const std::string& folder,
                                                          absl::Time now);

  absl::Status Add(const TrackedStep& step);
  absl::Status AddText(absl::Time time, const std::string& tag, absl::string_view text);
  // As Add, for what comes all the time: a step each `at_least`, and once the run is old each ten-thousandth of its
  // age, so that its files stay small; the newest one that was left out is kept for Flush. `session`: which
  // start of the training it is of. One that begins at a step that was written already voids what came from there on.
  absl::Status AddSometimes(const std::string& session, absl::Duration at_least, TrackedStep step);
  absl::Status Flush();

 private:
  TrackedRun(EventFile events, ScalarLines lines)
      : events_(std::move(events)), lines_(std::move(lines)) {}

  EventFile events_;
  ScalarLines lines_;
  std::string session_;
  absl::Time next_ = absl::InfinitePast();
  std::optional<TrackedStep> held_;
};

}  // namespace longhaul
