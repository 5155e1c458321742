// Parts of a round whose bytes in the log are no longer those that were appended: the disk changed
// them. They are found before the round is applied, so that nothing wrong is averaged. Then the
// part counts as not there, and its pool may send those blocks again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/store/log.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

struct DamagedPart {
  RoundId round;
  std::string pool, incarnation;
  // Of its frame.
  uint64_t sequence = 0;
};

// The part that such an error names, or nothing: it is another error.
std::optional<DamagedPart> DamagedPartOf(const absl::Status& status);

// Reads the parts from the log, and compares their digests. Threads share them. DATA_LOSS with file
// and byte, and DamagedPartOf: a part is damaged. Other errors: those of reading the log.
absl::Status VerifyParts(const Log& log, absl::Span<const Contribution> contributions, int threads);

}  // namespace longhaul
