#include "coordinator/service/messages.h"

#include <algorithm>
#include <string>

#include "common/base/utf8.h"

namespace longhaul::coordinator {

std::string BoundedFaultText(const std::string& text) {
  return std::string(ClipUtf8(text, kFaultTextBytesMax));
}

v1::Commit ToProto(const CommitRecord& commit, const std::string& job_id) {
  v1::Commit message;
  message.set_job_id(job_id);
  message.set_fragment(commit.round.fragment);
  message.set_version(commit.round.version);
  message.set_kind(ToProto(commit.round.kind));
  *message.mutable_digest() = ToProto(commit.digest);
  message.mutable_pools()->Assign(commit.pools.begin(), commit.pools.end());
  message.mutable_incarnations()->Assign(commit.incarnations.begin(), commit.incarnations.end());
  message.set_downlink_bytes(commit.downlink_bytes);
  message.set_downlink_nmse(commit.downlink_nmse);
  message.set_evaluator(commit.evaluator);
  message.set_outer_gradient_norm(commit.outer_gradient_norm);
  message.set_outer_parameter_norm(commit.outer_parameter_norm);
  return message;
}

v1::JobError ToProto(const JobFault& fault) {
  v1::JobError error;
  error.set_code(fault.code);
  error.set_message(fault.message);
  error.set_field(fault.field);
  error.set_hint(fault.hint);
  error.set_pool(fault.pool);
  error.set_fault_class(static_cast<v1::FaultClass>(fault.fault_class));
  return error;
}

v1::SetAside ToProto(const SetAsideView& set_aside, absl::Time now) {
  v1::SetAside message;
  message.set_job(set_aside.job);
  message.set_pool(set_aside.pool);
  *message.mutable_error() = ToProto(set_aside.fault);
  message.set_failures(set_aside.failures);
  *message.mutable_retry_in() = ToProto(std::max(set_aside.retry_at - now, absl::ZeroDuration()));
  return message;
}

JobFault FromProto(const v1::JobError& error) {
  return {.code = BoundedFaultText(error.code()),
          .message = BoundedFaultText(error.message()),
          .field = BoundedFaultText(error.field()),
          .hint = BoundedFaultText(error.hint()),
          .pool = BoundedFaultText(error.pool()),
          .fault_class = error.fault_class()};
}

}  // namespace longhaul::coordinator
