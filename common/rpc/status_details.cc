#include "common/rpc/status_details.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "google/rpc/error_details.pb.h"

namespace longhaul {
namespace {

constexpr size_t kViolationBytesMax = 2 << 10;

template <typename Detail>
std::string TypeUrl() {
  return absl::StrCat("type.googleapis.com/", Detail::descriptor()->full_name());
}

template <typename Detail>
absl::Status WithDetail(absl::Status status, const Detail& detail) {
  status.SetPayload(TypeUrl<Detail>(), absl::Cord(detail.SerializeAsString()));
  return status;
}

template <typename Detail>
std::optional<Detail> DetailOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(TypeUrl<Detail>());
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

}  // namespace

absl::Status BadRequestError(const std::vector<FieldViolation>& violations) {
  LH_CHECK(!violations.empty(), "a bad request has a field");
  const std::string message =
      absl::StrJoin(violations, "; ", [](std::string* out, const FieldViolation& violation) {
        absl::StrAppend(out, violation.field, ": ", violation.description);
      });
  return WithFieldViolations(absl::InvalidArgumentError(message), violations);
}

absl::Status WithFieldViolations(absl::Status status,
                                 const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest detail;
  for (size_t i = 0; i < violations.size(); ++i) {
    auto* added = detail.add_field_violations();
    added->set_field(violations[i].field);
    added->set_description(violations[i].description);
    if (detail.ByteSizeLong() <= kViolationBytesMax) continue;
    added->clear_field();
    added->set_description(absl::StrCat(violations.size() - i, " more"));
    break;
  }
  return WithDetail(std::move(status), detail);
}

absl::Status WithErrorInfo(absl::Status status, const ErrorDetail& detail) {
  google::rpc::ErrorInfo info;
  info.set_reason(detail.reason);
  info.set_domain(std::string(kErrorDomain));
  info.mutable_metadata()->insert(detail.metadata.begin(), detail.metadata.end());
  return WithDetail(std::move(status), info);
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  const int64_t seconds = absl::IDivDuration(delay, absl::Seconds(1), &delay);
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  return WithDetail(std::move(status), info);
}

std::vector<FieldViolation> FieldViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  if (const auto detail = DetailOf<google::rpc::BadRequest>(status)) {
    for (const auto& violation : detail->field_violations()) {
      violations.push_back({violation.field(), violation.description()});
    }
  }
  return violations;
}

std::optional<ErrorDetail> ErrorInfoOf(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  if (!info.has_value()) return std::nullopt;
  return ErrorDetail{info->reason(), {info->metadata().begin(), info->metadata().end()}};
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::RetryInfo>(status);
  if (!info.has_value()) return std::nullopt;
  const absl::Duration delay =
      absl::Seconds(info->retry_delay().seconds()) + absl::Nanoseconds(info->retry_delay().nanos());
  return std::max(delay, absl::ZeroDuration());
}

}  // namespace longhaul
