// Tells whether machines have the same data, without reading all of it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"

namespace longhaul {

// A digest of tokens, and of their loss mask if there is one, at 64 places of the data, evenly
// spaced from its first token to its last. Equal data has the same one on every machine. Data that
// was made of other files, or of the same in another order, has another. Reads from the disk.
// Errors: those of Dataset::Read.
absl::StatusOr<uint64_t> SampleOf(const Dataset& data);

}  // namespace longhaul
