// The metrics of folders that users send. The labels have values from fixed lists.
#pragma once

#include "absl/status/status.h"
#include "common/metrics/registry.h"
#include "coordinator/store/uploads.h"

namespace longhaul::coordinator {

struct UploadMetrics {
  explicit UploadMetrics(MetricRegistry& registry);

  CounterFamily& received_bytes;
  // reason
  CounterFamily& refused;
  // state
  GaugeFamily& uploads;
  GaugeFamily& stored_bytes;
  GaugeFamily& limit_bytes;

  // Counts a call that failed. Does nothing for OK.
  void Count(const absl::Status& status);
  // Shows what is kept now. May block, since others hold the lock of `uploads` while they use the
  // disk.
  void Show(const Uploads& kept);
};

}  // namespace longhaul::coordinator
