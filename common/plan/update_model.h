// Predicts how long an interleaved update takes, after the performance model of Deep Optimizer
// States (arXiv 2410.21316): as a timeline of the schedule, which includes the beginning and end of
// the pipeline. Rates are measured (update_rates.h). Pure.
#pragma once

#include "absl/types/span.h"
#include "common/plan/update_schedule.h"

namespace longhaul {

// The rates of this rank, in elements and bytes a second, each measured alone on the machine.
struct UpdateRates {
  double host_elements = 0, device_elements = 0;
  double up_bytes = 0, down_bytes = 0;
  // The host's rate while both links are busy, which use the same memory. 0: as host_elements.
  double host_elements_beside = 0;
  // The rate of the host's memory, which all ranks of a host share. 0: no limit.
  double dram_bytes = 0;
};

// Bytes of an element.
struct UpdateTraffic {
  // Interleaved subgroups: p, m, v in each direction.
  double state = 12;
  // Resident subgroups.
  double masters_down = 4;
  // Host subgroups: 2 with a bf16 shadow.
  double shadow_up = 0;
  // Host subgroups whose gradients were not flushed before.
  double gradients_down = 0;
  // Reads and writes of the host's memory, for a host subgroup (p, m, v, g read; p, m, v written)
  // and for an interleaved one (p, m, v read and written by copies).
  double dram_host = 28, dram_device = 24;
};

struct UpdateLoad {
  UpdateRates rates;
  UpdateTraffic traffic;
  // Ranks of this host.
  int ranks = 1;
  // See InterleavedAdamW.
  int slots = 3;
  // The first states are on the device when the update begins.
  bool prefetched = true;
};

// The timeline's prediction, in seconds. It follows the queues of InterleavedAdamW subgroup by
// subgroup.
double PredictSeconds(const UpdateLoad& load, absl::Span<const int64_t> elements,
                      const UpdateSchedule& schedule);
// The stride, 0 or 1 to 16, with the least prediction. Of equal ones, the one that copies least.
int ChooseStride(const UpdateLoad& load, absl::Span<const int64_t> elements, double device_share);

}  // namespace longhaul
