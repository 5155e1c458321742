// Measures the rates of update_model.h on this machine, and keeps them for the next start.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/thread_team.h"
#include "common/io/filesystem.h"
#include "common/plan/update_model.h"
#include "worker/movement/movement.h"
#include "worker/offload/device_adamw.h"

namespace longhaul {

struct MeasureOptions {
  AdamWOptions adamw;
  // The size of the subgroups that are measured. It should be as much as there is to update, or too
  // large for the caches.
  int64_t elements = 1 << 23;
  absl::Duration budget = absl::Seconds(2);
};

// Updates and copies scratch subgroups, one resource at a time, then host, up and down together, to
// see whether the host's memory limits them. Blocks for about the budget; each resource gets at
// least two runs. `team` may be null. Errors: those of Movement.
absl::StatusOr<UpdateRates> MeasureUpdateRates(Movement& movement, const DeviceAdamW& device,
                                               ThreadTeam* team, const MeasureOptions& options);

// NOT_FOUND: the file has no rates for this fingerprint. Others: those of the file system.
absl::StatusOr<UpdateRates> LoadUpdateRates(FileSystem& fs, const std::string& path,
                                            absl::string_view fingerprint);
// FAILED_PRECONDITION: the file holds something else, and stays as it is.
absl::Status SaveUpdateRates(FileSystem& fs, const std::string& path, absl::string_view fingerprint,
                             const UpdateRates& rates);

}  // namespace longhaul
