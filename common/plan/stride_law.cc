#include "common/plan/stride_law.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace longhaul::plan {

absl::StatusOr<StrideLaw> FitStrideLaw(absl::Span<const StridePoint> points) {
  // Normal equations of seconds = host a + device b, with b = 1 / stride and a = 1 - b.
  double aa = 0, ab = 0, bb = 0, at = 0, bt = 0;
  for (const StridePoint& point : points) {
    if (point.stride < 1)
      return absl::InvalidArgumentError(absl::StrFormat("stride %d is not positive", point.stride));
    if (!std::isfinite(point.seconds) || point.seconds <= 0)
      return absl::InvalidArgumentError(
          absl::StrFormat("the time at stride %d is not positive", point.stride));
    const double b = 1.0 / point.stride, a = 1 - b;
    aa += a * a, ab += a * b, bb += b * b, at += a * point.seconds, bt += b * point.seconds;
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 1e-12 * std::max(aa, bb))
    return absl::InvalidArgumentError("two times at different strides are needed");
  const StrideLaw law{.host = (at * bb - bt * ab) / determinant,
                      .device = (bt * aa - at * ab) / determinant};
  if (law.host > 0 && law.device > 0) return law;
  return absl::InvalidArgumentError(
      absl::StrFormat("the times fit no update: the host would need %g s and the device %g s",
                      law.host, law.device));
}

double BoundSeconds(const UpdateResources& r, int stride) {
  const double device = r.parameters / stride, host = r.parameters - device;
  return std::max({host / r.host_rate, device / r.device_rate, (12 * device + 2 * host) / r.up_rate,
                   12 * device / r.down_rate, r.ranks * (36 * host + 24 * device) / r.memory_rate});
}

}  // namespace longhaul::plan
