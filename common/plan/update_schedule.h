// Decides where each subgroup of an update runs (Deep Optimizer States, arXiv 2410.21316). Of every
// `stride` subgroups in a row, the last is updated on the device; its state is copied there and
// back while the host updates the others. A fixed share of the subgroups is resident: its state
// stays on the device (Twin-Flow). Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace longhaul {

enum class UpdateWay {
  kHost,
  // On the device. Masters and moments are kept in host memory.
  kInterleaved,
  // On the device. The moments are kept there.
  kResident,
};

struct UpdateScheduleOptions {
  // 0: no subgroup is interleaved.
  int stride = 0;
  // The share of the elements that should be resident, in [0, 1].
  double device_share = 0;
};

struct UpdateSchedule {
  int stride = 0;
  // By subgroup.
  std::vector<UpdateWay> ways;
  int64_t host_elements = 0, interleaved_elements = 0, resident_elements = 0;

  // The share of the elements that is resident. It differs from
  // UpdateScheduleOptions::device_share, since subgroups are not cut.
  double resident_share() const;
  // The share of the elements that is updated on the device.
  double device_share() const;
  // A few words for people.
  std::string Describe() const;
};

// Makes the first subgroups resident, as many as come closest to the share. The stride counts the
// others.
UpdateSchedule MakeUpdateSchedule(absl::Span<const int64_t> elements,
                                  const UpdateScheduleOptions& options);

}  // namespace longhaul
