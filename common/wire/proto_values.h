// Values that messages between programs and stored records share: converts between protos and the
// program's own types.
#pragma once

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/io/digest.h"
#include "common/schedule/round_kind.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "google/protobuf/timestamp.pb.h"
#include "longhaul/v1/fragment.pb.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

v1::Digest ToProto(const Digest128& digest);
Digest128 DigestFromProto(const v1::Digest& digest);

v1::RoundKind ToProto(RoundKind kind);
// Empty if it is unspecified, or a kind of a newer version.
std::optional<RoundKind> RoundKindFromProto(v1::RoundKind kind);

google::protobuf::RepeatedPtrField<v1::Metric> ToProto(absl::Span<const NamedValue> metrics);
std::vector<NamedValue> MetricsFromProto(
    const google::protobuf::RepeatedPtrField<v1::Metric>& metrics);

// Requires a finite time.
google::protobuf::Timestamp ToProto(absl::Time time);
google::protobuf::Duration ToProto(absl::Duration duration);
absl::Time TimeFromProto(const google::protobuf::Timestamp& time);
absl::Duration DurationFromProto(const google::protobuf::Duration& duration);

}  // namespace longhaul
