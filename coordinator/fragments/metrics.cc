#include "coordinator/fragments/metrics.h"

namespace longhaul::coordinator {

std::vector<double> SecondsBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
}

FragmentMetrics::FragmentMetrics(MetricRegistry& registry)
    : wire_payload_bytes(registry.Counter("longhaul_coordinator_wire_payload_bytes_total",
                                          "Payload bytes (coded elements) of bulk streams.")),
      wire_total_bytes(
          registry.Counter("longhaul_coordinator_wire_bytes_total",
                           "Bytes of bulk streams, including chunk headers and framing.")),
      refused(registry.Counter("longhaul_coordinator_refused_streams_total",
                               "Failed bulk streams, by reason.")),
      apply_seconds(registry.Histogram(
          "longhaul_coordinator_apply_seconds",
          "Time of one outer step: decode, average, step, encode, commit to disk.",
          SecondsBuckets())),
      uplink_nmse(registry.Gauge("longhaul_coordinator_uplink_nmse_ratio",
                                 "Normalised mean squared error of the newest uplink stream, as "
                                 "its sender measured it.")) {}

void FragmentMetrics::RemoveJob(const std::string& job) {
  wire_payload_bytes.RemoveWhere(kJobLabel, job);
  wire_total_bytes.RemoveWhere(kJobLabel, job);
  uplink_nmse.RemoveWhere(kJobLabel, job);
}

}  // namespace longhaul::coordinator
