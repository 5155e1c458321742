#include "coordinator/store/ballast.h"

#include <memory>

#include "common/base/status_macros.h"

namespace longhaul {

absl::Status Ballast::Fill() {
  if (filled_) return absl::OkStatus();
  // A file system may not store zeros, so it has other bytes.
  std::string bytes(kBytes, '\0');
  uint64_t state = 1;
  for (char& byte : bytes)
    byte = static_cast<char>((state = state * 6364136223846793005u + 1) >> 56);
  LH_RETURN_IF_ERROR(WriteFileAtomically(*fs_, path_, bytes));
  filled_ = true;
  return absl::OkStatus();
}

bool Ballast::GiveUp() {
  filled_ = false;
  return fs_->Remove(path_).ok();
}

}  // namespace longhaul
