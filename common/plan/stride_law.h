// How long an optimizer update takes that a host and a device share: of every k subgroups the
// device updates one, whose state is copied there and back. After Deep Optimizer States (arXiv
// 2410.21316). The observed law is T(k) = host (1 - 1/k) + device / k: copies and updates share the
// host's memory, so their times add up. Pure; times in seconds.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace longhaul::plan {

struct StrideLaw {
  // If the host updated everything, and if the device did.
  double host = 0, device = 0;

  // Requires stride >= 1. 1: the device updates everything.
  double Seconds(int stride) const { return host * (1 - 1.0 / stride) + device / stride; }
};

struct StridePoint {
  int stride = 0;
  double seconds = 0;
};

// What a rank's update needs, of resources that work at the same time.
struct UpdateResources {
  double parameters = 0;
  // Parameters per second.
  double host_rate = 0, device_rate = 0;
  // Bytes per second: to the device, from it, and of the memory that all ranks of the host share.
  double up_rate = 0, down_rate = 0, memory_rate = 0;
  int ranks = 1;
};

// Least squares. INVALID_ARGUMENT: fewer than two strides, a stride below 1, a time that is not
// positive and finite, or points that no law with positive times fits.
absl::StatusOr<StrideLaw> FitStrideLaw(absl::Span<const StridePoint> points);

// The bound where all resources overlap: the longest of host, device, the copies up (12 bytes of
// each of the device's parameters, 2 of each of the host's), those down (12 bytes), and the memory
// (36 and 24 bytes). Requires positive values and stride >= 1.
double BoundSeconds(const UpdateResources& resources, int stride);

}  // namespace longhaul::plan
