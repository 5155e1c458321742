#include "coordinator/service/upload_metrics.h"

#include <string>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

UploadMetrics::UploadMetrics(MetricRegistry& registry)
    : received_bytes(registry.Counter("longhaul_coordinator_upload_received_bytes_total",
                                      "Bytes received from user uploads.")),
      refused(registry.Counter("longhaul_coordinator_refused_uploads_total",
                               "Failed upload calls, by reason.")),
      uploads(registry.Gauge("longhaul_coordinator_uploads",
                             "Stored user uploads: complete and partial ones.")),
      stored_bytes(registry.Gauge("longhaul_coordinator_upload_stored_bytes",
                                  "Bytes reserved by user uploads.")),
      limit_bytes(registry.Gauge("longhaul_coordinator_upload_limit_bytes",
                                 "Limit of bytes for all user uploads (--upload-gib).")) {
  // A series that begins with its first bytes would hide them from rates.
  received_bytes.With();
}

void UploadMetrics::Count(const absl::Status& status) {
  if (status.ok()) return;
  const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
  refused
      .With({{"reason",
              detail.has_value() ? detail->reason : absl::StatusCodeToString(status.code())}})
      .Increment();
}

void UploadMetrics::Show(const Uploads& kept) {
  const Uploads::Counts counts = kept.counts();
  uploads.With({{"state", "whole"}}).Set(static_cast<double>(counts.whole));
  uploads.With({{"state", "partial"}}).Set(static_cast<double>(counts.partial));
  stored_bytes.With().Set(static_cast<double>(counts.bytes));
  limit_bytes.With().Set(static_cast<double>(kept.bytes_max()));
}

}  // namespace longhaul::coordinator
