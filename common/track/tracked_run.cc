#include "common/track/tracked_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

// Once a run is so old that a ten-thousandth of its age is longer than `at_least`, points are that
// far apart. So it has 10,000 points until then, and as many for each factor of e.
constexpr int kPointsOfAge = 10'000;

}  // namespace

absl::StatusOr<std::unique_ptr<TrackedRun>> TrackedRun::Open(FileSystem* fs,
                                                             const std::string& folder,
                                                             absl::Time now) {
  if (const size_t slash = folder.rfind('/'); slash != std::string::npos && slash > 0)
    LH_RETURN_IF_ERROR(fs->CreateDir(folder.substr(0, slash)));
  LH_RETURN_IF_ERROR(fs->CreateDir(folder));
  LH_ASSIGN_OR_RETURN(EventFile events, EventFile::Open(fs, folder, now));
  LH_ASSIGN_OR_RETURN(ScalarLines lines, ScalarLines::Open(fs, JoinPath(folder, "scalars.jsonl")));
  return std::unique_ptr<TrackedRun>(new TrackedRun(std::move(events), std::move(lines)));
}

absl::Status TrackedRun::Add(const TrackedStep& step) {
  const absl::Status events = events_.AddScalars(step.step, step.time, step.scalars);
  const absl::Status lines = lines_.AddScalars(step.step, step.time, step.scalars);
  return events.ok() ? lines : events;
}

absl::Status TrackedRun::AddText(absl::Time time, const std::string& tag, absl::string_view text) {
  // TensorBoard shows texts as Markdown.
  LH_RETURN_IF_ERROR(events_.AddText(0, time, tag, absl::StrCat("```\n", text, "\n```")));
  return lines_.AddText(0, time, tag, text);
}

absl::Status TrackedRun::AddSometimes(const std::string& session, absl::Duration at_least,
                                      TrackedStep step) {
  if (session != lines_.session()) {
    LH_RETURN_IF_ERROR(Flush());
    LH_RETURN_IF_ERROR(events_.Rewind(step.step, step.time));
    LH_RETURN_IF_ERROR(lines_.BeginSession(session, step.step, step.time));
    next_ = absl::InfinitePast();
  }
  if (step.time < next_) {
    held_ = std::move(step);
    return absl::OkStatus();
  }
  next_ = step.time + std::max(at_least, (step.time - events_.begun()) / kPointsOfAge);
  held_.reset();
  return Add(step);
}

absl::Status TrackedRun::Flush() {
  if (!held_.has_value()) return absl::OkStatus();
  return Add(*std::exchange(held_, std::nullopt));
}

}  // namespace longhaul
