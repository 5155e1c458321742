// The rates of UpdateModel, measured on this machine, and kept for the next start.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/thread_team.h"
#include "common/io/filesystem.h"
#include "worker/movement/movement.h"
#include "worker/offload/device_adamw.h"
#include "worker/offload/update_model.h"

namespace longhaul {

struct MeasureOptions {
  AdamWOptions adamw;
  // Of the scratch; as much as there is to update, or beyond the caches.
  int64_t elements = 1 << 23;
  absl::Duration budget = absl::Seconds(2);
};

// Updates scratch subgroups and moves them, one resource at a time, then host, up and down together
// (whether host memory limits them). Takes the budget, and at least two runs of each. `team` may be
// null. Blocks. RESOURCE_EXHAUSTED; else those of Movement.
absl::StatusOr<UpdateRates> MeasureUpdateRates(Movement& movement, const DeviceAdamW& device,
                                               ThreadTeam* team, const MeasureOptions& options);

// What measured rates hold for: the processor, and what `of` says besides. `root`: of the system's
// files.
std::string MachineFingerprint(absl::string_view of, const std::string& root = "");

// NOT_FOUND: there are none of this fingerprint. Those of the file system.
absl::StatusOr<UpdateRates> LoadUpdateRates(FileSystem& fs, const std::string& path,
                                            absl::string_view fingerprint);
absl::Status SaveUpdateRates(FileSystem& fs, const std::string& path, absl::string_view fingerprint,
                             const UpdateRates& rates);

}  // namespace longhaul
