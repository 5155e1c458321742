// Books a bulk stream when it ends: into the job's counters of bytes, and into the metrics.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "coordinator/fragments/fragments.h"

namespace longhaul::coordinator {

// Empty until the stream was accepted.
struct StreamAccount {
  std::shared_ptr<JobFragments> job;
  int fragment = 0;
  // A name from a fixed list, so it may be a label.
  std::string_view codec = "none";

  // `direction`: "up" or "down".
  void Book(const Fragments::Parts& parts, std::string_view direction, const absl::Status& status,
            const WireBytes& bytes) const {
    FragmentMetrics& metrics = *parts.metrics;
    if (job) (direction == "up" ? job->bytes_up() : job->bytes_down()).Add(bytes);
    const auto count = [&](const std::string& name, const std::string& of) {
      const MetricLabels labels = {{kJobLabel, name},
                                   {"fragment", of},
                                   {"direction", std::string(direction)},
                                   {"codec", std::string(codec)}};
      metrics.wire_payload_bytes.With(labels).Increment(static_cast<double>(bytes.payload));
      metrics.wire_total_bytes.With(labels).Increment(static_cast<double>(bytes.total));
    };
    const bool counted =
        job && job->ShowUnlessHidden([&] { count(job->name(), absl::StrCat(fragment)); });
    if (!counted) count("", "");
    if (status.ok()) return;
    const std::optional<ErrorDetail> detail = ErrorInfoOf(status);
    const std::string reason =
        detail.has_value() ? detail->reason : absl::StatusCodeToString(status.code());
    metrics.refused.With({{"reason", reason}}).Increment();
    if (!job) return;
    parts.log->With({.job = job->name(), .job_id = job->id()})
        .Warning(std::string(direction) + " stream: " + reason + ": " +
                 std::string(status.message()));
  }
};

}  // namespace longhaul::coordinator
