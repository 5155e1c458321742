#include "common/plan/update_schedule.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "common/base/check.h"

namespace longhaul {
namespace {

double ShareOfAll(int64_t part, const UpdateSchedule& schedule) {
  const int64_t all =
      schedule.host_elements + schedule.interleaved_elements + schedule.resident_elements;
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

double UpdateSchedule::resident_share() const { return ShareOfAll(resident_elements, *this); }

double UpdateSchedule::device_share() const {
  return ShareOfAll(resident_elements + interleaved_elements, *this);
}

std::string UpdateSchedule::Describe() const {
  const std::string which = stride == 0   ? "none"
                            : stride == 1 ? "all"
                                          : absl::StrFormat("one of %d", stride);
  return absl::StrFormat(
      "%d subgroups, %s on the device: %.0f %% of the elements; %.0f %% stay there", ways.size(),
      which, 100 * device_share(), 100 * resident_share());
}

UpdateSchedule MakeUpdateSchedule(absl::Span<const int64_t> elements,
                                  const UpdateScheduleOptions& options) {
  LH_CHECK(options.stride >= 0 && options.device_share >= 0 && options.device_share <= 1,
           "an impossible schedule");
  const double wanted = options.device_share * static_cast<double>(std::accumulate(
                                                   elements.begin(), elements.end(), int64_t{0}));
  UpdateSchedule schedule{.stride = options.stride};
  size_t i = 0;
  for (; i < elements.size(); ++i) {
    const auto before = static_cast<double>(schedule.resident_elements);
    const auto after = before + static_cast<double>(elements[i]);
    if (std::abs(after - wanted) > std::abs(before - wanted) || wanted == 0) break;
    schedule.resident_elements += elements[i];
    schedule.ways.push_back(UpdateWay::kResident);
  }
  for (int number = 1; i < elements.size(); ++i, ++number) {
    const bool device = options.stride > 0 && number % options.stride == 0;
    (device ? schedule.interleaved_elements : schedule.host_elements) += elements[i];
    schedule.ways.push_back(device ? UpdateWay::kInterleaved : UpdateWay::kHost);
  }
  return schedule;
}

}  // namespace longhaul
