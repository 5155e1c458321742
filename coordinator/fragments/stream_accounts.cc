#include "coordinator/service/stream_accounts.h"

#include <string>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

void BookStream(Runtime& runtime, std::string_view direction, const StreamAccount& account,
                const absl::Status& status, const WireBytes& bytes) {
  CoordinatorMetrics& metrics = *runtime.parts().metrics;
  if (account.job)
    (direction == "up" ? account.job->bytes_up() : account.job->bytes_down()).Add(bytes);
  const MetricLabels labels = {{"direction", std::string(direction)},
                               {"codec", std::string(account.codec)}};
  metrics.wire_payload_bytes.With(labels).Increment(static_cast<double>(bytes.payload));
  metrics.wire_total_bytes.With(labels).Increment(static_cast<double>(bytes.total));
  if (status.ok()) return;
  const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
  const std::string reason =
      detail.has_value() ? detail->reason : absl::StatusCodeToString(status.code());
  metrics.refused.With({{"reason", reason}}).Increment();
  if (account.job) {
    runtime.parts()
        .log->With({.job = account.job->name()})
        .Warning(std::string(direction) + " stream: " + reason + ": " +
                 std::string(status.message()));
  }
}

}  // namespace longhaul::coordinator
