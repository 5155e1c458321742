// Which subgroups of an update run where (Deep Optimizer States, arXiv 2410.21316): of every
// `stride` in a row the last one on the device, its state brought there and back while the host
// updates the others; and a static share whose state stays on the device (Twin-Flow). Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace longhaul {

enum class UpdatePlace {
  kHost,
  kInterleaved,  // On the device; its state rests in host memory.
  kResident,     // On the device, where its moments stay.
};

struct ScheduleOptions {
  int stride = 0;           // At least 1. 0: none is interleaved.
  double device_share = 0;  // Of the elements, to be resident. In [0, 1].
};

struct UpdateSchedule {
  int stride = 0;
  std::vector<UpdatePlace> places;  // By subgroup.
  int64_t host_elements = 0, interleaved_elements = 0, resident_elements = 0;

  // What became of ScheduleOptions::device_share: subgroups are not cut.
  double resident_share() const;
  // Of the elements that are updated on the device.
  double device_share() const;
  // For people, in a few words.
  std::string Describe() const;
};

// The first subgroups are resident, as many as come nearest to the share; the stride counts the
// others.
UpdateSchedule MakeSchedule(absl::Span<const int64_t> elements, const ScheduleOptions& options);

}  // namespace longhaul
