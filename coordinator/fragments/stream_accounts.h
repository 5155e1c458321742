// Books a bulk stream that has ended: the job's wire bytes, and the metrics.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "common/rpc/wire_bytes.h"
#include "coordinator/service/runtime.h"

namespace longhaul::coordinator {

// What a stream is booked to. Empty until it was accepted.
struct StreamAccount {
  std::shared_ptr<LiveJob> job;
  std::string_view codec = "none";  // A word of ours.
};

// `direction`: "up" or "down".
void BookStream(Runtime& runtime, std::string_view direction, const StreamAccount& account,
                const absl::Status& status, const WireBytes& bytes);

}  // namespace longhaul::coordinator
