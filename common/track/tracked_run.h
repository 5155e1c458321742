// The curves of one run in a folder: a TensorBoard event file and scalars.jsonl, with the same
// numbers. `tensorboard --logdir` shows several runs in folders below one in the same diagrams.
//
// A later start of the program continues the same files and writes nothing twice: a step that the
// files have for a tag is not written again. Externally synchronised. Blocks on the disk. Errors:
// those of the file system.
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
  // Makes the folder and its parent, but no folders above. `fs` outlives it. NOT_FOUND: those do
  // not exist.
  static absl::StatusOr<std::unique_ptr<TrackedRun>> Open(FileSystem* fs, const std::string& folder,
                                                          absl::Time now);

  absl::Status Add(const TrackedStep& step);
  absl::Status AddText(absl::Time time, const std::string& tag, absl::string_view text);
  // As Add, for points that come all the time: takes one in each `at_least`, and in an old run one
  // in each ten-thousandth of its age, so that its files stay small. The newest point that was left
  // out is kept for Flush. `session` names the start of the training to which the point belongs,
  // also after a restart of this program. If a session begins at a step that was written already,
  // the points from there on are not valid any more.
  absl::Status AddSometimes(const std::string& session, absl::Duration at_least, TrackedStep step);
  absl::Status Flush();

 private:
  TrackedRun(EventFile events, ScalarLines lines)
      : events_(std::move(events)), lines_(std::move(lines)) {}

  EventFile events_;
  ScalarLines lines_;
  absl::Time next_ = absl::InfinitePast();
  std::optional<TrackedStep> held_;
};

}  // namespace longhaul
