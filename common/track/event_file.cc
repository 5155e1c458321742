#include "common/track/event_file.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/track/record.h"
#include "longhaul/track/v1/event.pb.h"

namespace longhaul {
namespace {

// TensorBoard reads every file with "tfevents" in its name, in the order of the names.
constexpr absl::string_view kPrefix = "events.out.tfevents.", kSuffix = ".longhaul";
constexpr char kFileVersion[] = "brain.Event:2";
constexpr int kDtString = 7, kSessionStart = 1;

// The number in the name, or nothing if the file is not one of ours.
std::optional<int64_t> NumberOf(absl::string_view name) {
  int64_t number;
  if (!absl::ConsumePrefix(&name, kPrefix) || !absl::ConsumeSuffix(&name, kSuffix) ||
      !absl::SimpleAtoi(name, &number) || number < 0) {
    return std::nullopt;
  }
  return number;
}

track::v1::Event EventAt(int64_t step, absl::Time time) {
  track::v1::Event event;
  event.set_wall_time(absl::ToDoubleSeconds(time - absl::UnixEpoch()));
  event.set_step(step);
  return event;
}

std::string RecordOf(const track::v1::Event& event) {
  std::string record;
  AppendRecord(event.SerializeAsString(), &record);
  return record;
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Open(FileSystem* fs, const std::string& folder,
                                          absl::Time now) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs->List(folder));
  int64_t newest = -1;
  for (const std::string& name : names) newest = std::max(newest, NumberOf(name).value_or(-1));
  const auto path = [&](int64_t number) {
    return JoinPath(folder, absl::StrFormat("%s%010d%s", kPrefix, number, kSuffix));
  };
  if (newest >= 0) {
    EventFile found(fs, path(newest));
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs->Open(path(newest)));
    LH_ASSIGN_OR_RETURN(const int64_t size, file->Size());
    bool damaged = false;
    LH_RETURN_IF_ERROR(found.Scan(*file, size, &damaged));
    if (!damaged) return found;
  }
  EventFile made(fs, path(std::max(newest + 1, absl::ToUnixSeconds(now))));
  LH_RETURN_IF_ERROR(fs->Create(made.file_.path()).status());
  track::v1::Event version = EventAt(0, now);
  version.set_file_version(kFileVersion);
  LH_RETURN_IF_ERROR(made.file_.Append(RecordOf(version)));
  made.begun_ = now;
  return made;
}

// The file is damaged if it is not one of ours, or if more than one torn record follows the good
// ones.
absl::Status EventFile::Scan(const File& file, int64_t size, bool* damaged) {
  bool ours = false, first = true;
  LH_ASSIGN_OR_RETURN(const int64_t whole, ReadRecords(file, [&](absl::string_view record) {
                        track::v1::Event event;
                        if (!event.ParseFromArray(record.data(), static_cast<int>(record.size())))
                          return;
                        if (std::exchange(first, false)) {
                          ours = event.file_version() == kFileVersion;
                          // An impossible time becomes a time in the distant past.
                          const double wall = event.wall_time();
                          begun_ =
                              absl::UnixEpoch() + absl::Seconds(wall > 0 && wall < 1e11 ? wall : 0);
                        }
                        if (event.has_session_log()) last_.Rewind(event.step());
                        for (const track::v1::Summary::Value& value : event.summary().value())
                          last_.Took(value.tag(), event.step());
                      }));
  *damaged = !ours || size - whole > kRecordBytesMax;
  file_.SetWhole(whole);
  return absl::OkStatus();
}

absl::Status EventFile::AddScalars(int64_t step, absl::Time time,
                                   absl::Span<const Scalar> scalars) {
  track::v1::Event event = EventAt(step, time);
  for (const Scalar& scalar : scalars) {
    if (!last_.Takes(scalar.tag, step)) continue;
    track::v1::Summary::Value* const value = event.mutable_summary()->add_value();
    value->set_tag(scalar.tag);
    value->set_simple_value(static_cast<float>(scalar.value));
  }
  if (event.summary().value().empty()) return absl::OkStatus();
  LH_RETURN_IF_ERROR(file_.Append(RecordOf(event)));
  for (const track::v1::Summary::Value& value : event.summary().value())
    last_.Took(value.tag(), step);
  return absl::OkStatus();
}

absl::Status EventFile::AddText(int64_t step, absl::Time time, const std::string& tag,
                                absl::string_view text) {
  if (!last_.Takes(tag, step)) return absl::OkStatus();
  track::v1::Event event = EventAt(step, time);
  track::v1::Summary::Value* const value = event.mutable_summary()->add_value();
  value->set_tag(tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(kDtString);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val(std::string(text.substr(0, kRecordBytesMax / 2)));
  LH_RETURN_IF_ERROR(file_.Append(RecordOf(event)));
  last_.Took(tag, step);
  return absl::OkStatus();
}

absl::Status EventFile::Rewind(int64_t step, absl::Time time) {
  if (last_.last() < step) return absl::OkStatus();
  track::v1::Event event = EventAt(step, time);
  event.mutable_session_log()->set_status(kSessionStart);
  LH_RETURN_IF_ERROR(file_.Append(RecordOf(event)));
  last_.Rewind(step);
  return absl::OkStatus();
}

}  // namespace longhaul
