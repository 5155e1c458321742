// What the paper says of the time of an interleaved update (Deep Optimizer States, arXiv
// 2410.21316): a lower bound, and a law that the measurements follow.
#pragma once

#include <algorithm>

#include "common/base/check.h"
#include "common/plan/update_model.h"

namespace longhaul {

// max(host, up, down, device, DRAM), in seconds: all five resources work at the same time, and the
// slowest one decides.
inline double BoundSeconds(const UpdateLoad& load, const UpdateSchedule& schedule) {
  const auto host = static_cast<double>(schedule.host_elements);
  const auto interleaved = static_cast<double>(schedule.interleaved_elements);
  const auto resident = static_cast<double>(schedule.resident_elements);
  const UpdateRates& rates = load.rates;
  const UpdateTraffic& traffic = load.traffic;
  const double up = interleaved * traffic.state + host * traffic.shadow_up;
  const double down =
      interleaved * traffic.state + resident * traffic.masters_down + host * traffic.gradients_down;
  const double dram = host * (traffic.dram_host + 2 * traffic.shadow_up + traffic.gradients_down) +
                      interleaved * traffic.dram_device + resident * traffic.masters_down;
  const bool shared = rates.dram_bytes > 0 && load.ranks > 1;
  return std::max({host / rates.host_elements, up / rates.up_bytes, down / rates.down_bytes,
                   (interleaved + resident) / rates.device_elements,
                   shared ? load.ranks * dram / rates.dram_bytes : 0});
}

// The time as a function of the stride k, T(k) = A (1 - 1/k) + B / k.
struct StrideLaw {
  double a = 0, b = 0;
  static StrideLaw Through(int stride, double seconds, int other_stride, double other_seconds) {
    LH_CHECK(stride > 0 && other_stride > 0 && stride != other_stride, "two strides");
    // With x = 1/k: T = A + (B - A) x.
    const double x = 1.0 / stride, other = 1.0 / other_stride;
    const double slope = (seconds - other_seconds) / (x - other);
    const double a = seconds - slope * x;
    return {.a = a, .b = a + slope};
  }
  double At(int stride) const { return a * (1 - 1.0 / stride) + b / stride; }
};

}  // namespace longhaul
