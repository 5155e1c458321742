#include "coordinator/store/job_state_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/envelope.h"
#include "coordinator/store/job_folder.h"
#include "longhaul/store/v1/records.pb.h"

namespace longhaul {
namespace {

constexpr absl::string_view kStateMagic = "LHSTATE1";
// A report has at most 2 MiB.
constexpr int64_t kStateBytesMax = 16 << 20;

bool IsNoted(int64_t state) {
  return state == static_cast<int>(JobState::kRunning) ||
         state == static_cast<int>(JobState::kPaused) || IsEnded(static_cast<JobState>(state));
}

}  // namespace

absl::Status WriteJobState(FileSystem& fs, const std::string& job_dir, const JobStateNote& note) {
  const absl::Status there = fs.List(job_dir).status();
  if (absl::IsNotFound(there)) return absl::OkStatus();
  LH_RETURN_IF_ERROR(there);
  store::v1::JobStateNote proto;
  proto.set_state(static_cast<int>(note.state));
  proto.set_deleted(note.deleted);
  if (note.at != absl::InfinitePast()) proto.set_at_us(absl::ToUnixMicros(note.at));
  proto.set_by(note.by);
  proto.set_reason(note.reason);
  proto.set_report(note.report);
  return WriteFileAtomically(fs, StatePath(job_dir),
                             WithEnvelope(kStateMagic, proto.SerializeAsString()));
}

absl::StatusOr<JobStateNote> ReadJobState(FileSystem& fs, const std::string& job_dir) {
  const std::string path = StatePath(job_dir);
  const absl::StatusOr<std::string> bytes = ReadFile(fs, path, kStateBytesMax);
  if (absl::IsNotFound(bytes.status())) return JobStateNote();
  LH_RETURN_IF_ERROR(bytes.status());
  LH_ASSIGN_OR_RETURN(const absl::string_view message, OpenEnvelope(kStateMagic, *bytes, path));
  store::v1::JobStateNote proto;
  if (!proto.ParseFromArray(message.data(), static_cast<int>(message.size())) ||
      !IsNoted(proto.state())) {
    return absl::DataLossError(absl::StrCat(path, " is damaged: it does not decode"));
  }
  JobStateNote note{.state = static_cast<JobState>(proto.state()),
                    .deleted = proto.deleted(),
                    .by = proto.by(),
                    .reason = proto.reason(),
                    .report = proto.report()};
  if (proto.at_us() != 0) note.at = absl::FromUnixMicros(proto.at_us());
  return note;
}

}  // namespace longhaul
