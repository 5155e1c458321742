#include "coordinator/store/paced_write.h"

#include "common/base/status_macros.h"

namespace longhaul {

absl::Status WritePaced(File& file, int64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const absl::string_view step = bytes.substr(0, kPacedStepBytes);
    LH_RETURN_IF_ERROR(file.WriteAt(offset, step));
    LH_RETURN_IF_ERROR(file.SyncData());
    offset += static_cast<int64_t>(step.size());
    bytes.remove_prefix(step.size());
  }
  return absl::OkStatus();
}

}  // namespace longhaul
