#include "common/wire/proto_values.h"

#include <cstdint>

namespace longhaul {

v1::Digest ToProto(const Digest128& digest) {
  v1::Digest message;
  message.set_high(digest.high);
  message.set_low(digest.low);
  return message;
}

Digest128 DigestFromProto(const v1::Digest& digest) { return {digest.high(), digest.low()}; }

v1::RoundKind ToProto(RoundKind kind) {
  switch (kind) {
    case RoundKind::kSeed:
      return v1::SEED;
    case RoundKind::kOuter:
      return v1::OUTER;
    case RoundKind::kFinal:
      return v1::FINAL;
    case RoundKind::kSkipped:
      return v1::SKIPPED;
  }
  return v1::ROUND_KIND_UNSPECIFIED;
}

std::optional<RoundKind> RoundKindFromProto(v1::RoundKind kind) {
  switch (kind) {
    case v1::SEED:
      return RoundKind::kSeed;
    case v1::OUTER:
      return RoundKind::kOuter;
    case v1::FINAL:
      return RoundKind::kFinal;
    case v1::SKIPPED:
      return RoundKind::kSkipped;
    default:
      return std::nullopt;
  }
}

google::protobuf::RepeatedPtrField<v1::Metric> ToProto(absl::Span<const NamedValue> metrics) {
  google::protobuf::RepeatedPtrField<v1::Metric> messages;
  for (const NamedValue& metric : metrics) {
    v1::Metric* const message = messages.Add();
    message->set_name(metric.name);
    message->set_value(metric.value);
  }
  return messages;
}

std::vector<NamedValue> MetricsFromProto(
    const google::protobuf::RepeatedPtrField<v1::Metric>& metrics) {
  std::vector<NamedValue> values;
  for (const v1::Metric& metric : metrics) values.push_back({metric.name(), metric.value()});
  return values;
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

absl::Time TimeFromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration DurationFromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace longhaul
