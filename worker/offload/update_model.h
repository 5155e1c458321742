// How long an interleaved update takes: the performance model of Deep Optimizer States (arXiv
// 2410.21316) as a bound, max(host, up, down, device, DRAM), and as the schedule's own timeline, which
// also has the pipeline's beginning and end. Rates are measured (update_rates.h). Pure.
#pragma once

#include "absl/types/span.h"
#include "worker/offload/update_schedule.h"

namespace longhaul {

// Of this rank, each alone on the machine. Elements and bytes a second.
struct UpdateRates {
  double host_elements = 0, device_elements = 0;
  double up_bytes = 0, down_bytes = 0;
  // The host's while both links are busy, which share its memory. 0: the same.
  double host_elements_beside = 0;
  // Of the host's memory, which the ranks of a host share. 0: it limits nothing.
  double dram_bytes = 0;
};

// Bytes of an element.
struct UpdateTraffic {
  double state = 12;          // p, m, v of interleaved subgroups, each way.
  double masters_down = 4;    // Of resident subgroups.
  double shadow_up = 0;       // Of host subgroups: 2 with a bf16 shadow.
  double gradients_down = 0;  // Of host subgroups, if they were not flushed before.
  // In the host's memory: p, m, v, g read and p, m, v written; shadow written and read by copies.
  double dram_host = 28, dram_device = 24;
};

struct UpdateLoad {
  UpdateRates rates;
  UpdateTraffic traffic;
  int ranks = 1;           // Of this host.
  int slots = 3;           // See InterleavedAdamW.
  bool prefetched = true;  // The first states are on the device when the update begins.
};

// Seconds. (The largest of the five resources, all overlapped.)
double BoundSeconds(const UpdateLoad& load, const UpdateSchedule& schedule);
// Seconds, following InterleavedAdamW's queues, subgroup by subgroup.
double PredictSeconds(const UpdateLoad& load, absl::Span<const int64_t> elements,
                      const UpdateSchedule& schedule);
// The stride of 1 to 16, or 0, with the least prediction; of equals the one that moves least.
int ChooseStride(const UpdateLoad& load, absl::Span<const int64_t> elements, double device_share);

// T(k) = A (1 - 1/k) + B / k: what measurements of the paper's authors follow.
struct StrideLaw {
  double a = 0, b = 0;
  static StrideLaw Through(int stride, double seconds, int other_stride, double other_seconds);
  double At(int stride) const { return a * (1 - 1.0 / stride) + b / stride; }
};

}  // namespace longhaul
