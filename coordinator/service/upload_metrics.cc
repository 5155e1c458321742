#include "coordinator/service/upload_metrics.h"

#include <string>

#include "common/rpc/status_details.h"

namespace longhaul::coordinator {

UploadMetrics::UploadMetrics(MetricRegistry& registry)
    : received_bytes(registry.Counter("longhaul_coordinator_upload_received_bytes_total",
                                      "Bytes of users' folders that were taken.")),
      refused(registry.Counter("longhaul_coordinator_refused_uploads_total",
                               "Calls of users' uploads that failed, by reason.")),
      uploads(registry.Gauge("longhaul_coordinator_uploads",
                             "Folders of users that are kept: whole ones, and partial ones.")),
      stored_bytes(registry.Gauge("longhaul_coordinator_upload_stored_bytes",
                                  "What the kept folders of users have, or will have.")),
      limit_bytes(registry.Gauge("longhaul_coordinator_upload_limit_bytes",
                                 "What the folders of users may have together (--upload-gib).")) {
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
