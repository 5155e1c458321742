#include "coordinator/service/messages.h"

#include <cstdint>
#include <string>

#include "common/base/check.h"

namespace longhaul::coordinator {
// Valid UTF-8 (every proto's strings are) stays so.
std::string BoundedFaultText(const std::string& text) {
  if (text.size() <= kFaultTextBytesMax) return text;
  size_t end = kFaultTextBytesMax;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// CodecKind has the numbers of v1::Codec.
v1::Codec ToProto(CodecKind codec) { return static_cast<v1::Codec>(codec); }

CodecOptions CodecOptionsOf(const v1::CodecSpec& spec) {
  return {.kind = static_cast<CodecKind>(spec.codec()),
          .search_scale = spec.search_scale(),
          .stochastic = spec.stochastic_rounding(),
          .rms_scale = spec.rms_scale(),
          .feedback_decay = static_cast<float>(spec.feedback_decay())};
}

v1::Digest ToProto(const Digest128& digest) {
  v1::Digest message;
  message.set_high(digest.high);
  message.set_low(digest.low);
  return message;
}

v1::Commit ToProto(const CommitRecord& commit, const std::string& job_id) {
  v1::Commit message;
  message.set_job_id(job_id);
  message.set_fragment(commit.fragment);
  message.set_version(commit.version);
  message.set_kind(ToProto(commit.kind));
  *message.mutable_digest() = ToProto(commit.digest);
  message.mutable_pools()->Assign(commit.pools.begin(), commit.pools.end());
  message.set_downlink_bytes(commit.downlink_bytes);
  message.set_downlink_nmse(commit.downlink_nmse);
  message.set_evaluator(commit.evaluator);
  message.set_outer_gradient_norm(commit.outer_gradient_norm);
  message.set_outer_parameter_norm(commit.outer_parameter_norm);
  return message;
}

v1::JobState ToProto(JobState state) {
  switch (state) {
    case JobState::kPending:
      return v1::PENDING;
    case JobState::kSeeding:
      return v1::SEEDING;
    case JobState::kRunning:
      return v1::RUNNING;
    case JobState::kFinishing:
      return v1::FINISHING;
    case JobState::kCompleted:
      return v1::COMPLETED;
    case JobState::kFailed:
      return v1::FAILED;
    case JobState::kCancelled:
      return v1::CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

JobState FromProto(v1::JobState state) {
  switch (state) {
    case v1::PENDING:
      return JobState::kPending;
    case v1::SEEDING:
      return JobState::kSeeding;
    case v1::RUNNING:
      return JobState::kRunning;
    case v1::FINISHING:
      return JobState::kFinishing;
    case v1::COMPLETED:
      return JobState::kCompleted;
    case v1::CANCELLED:
      return JobState::kCancelled;
    case v1::FAILED:
      return JobState::kFailed;
    default:
      LH_CHECK(false, "a stored job has a state");
      return JobState::kFailed;
  }
}

v1::JobError ToProto(const JobFault& fault) {
  v1::JobError error;
  error.set_code(fault.code);
  error.set_message(fault.message);
  error.set_field(fault.field);
  error.set_hint(fault.hint);
  error.set_pool(fault.pool);
  return error;
}

JobFault FromProto(const v1::JobError& error) {
  return {.code = BoundedFaultText(error.code()),
          .message = BoundedFaultText(error.message()),
          .field = BoundedFaultText(error.field()),
          .hint = BoundedFaultText(error.hint()),
          .pool = BoundedFaultText(error.pool())};
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp message;
  const int64_t seconds = absl::ToUnixSeconds(time);
  message.set_seconds(seconds);
  message.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return message;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration message;
  message.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return message;
}

}  // namespace longhaul::coordinator
