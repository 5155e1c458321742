// The error of a wait for a device.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace longhaul {

// DEADLINE_EXCEEDED: what `what` names was not done within `patience`.
inline absl::Status LateDeviceError(absl::string_view what, absl::Duration patience) {
  return absl::DeadlineExceededError(
      absl::StrCat(what, ": the device has not done it after ", absl::FormatDuration(patience)));
}

}  // namespace longhaul
