// Argument checks that CheckedCommunicator makes before anything is exchanged. All return
// INVALID_ARGUMENT.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/collective/communicator.h"

namespace longhaul {

absl::Status CheckTimeout(absl::string_view operation, const CallOptions& options);

// Also returns the parts, in elements.
absl::Status CheckReduceScatter(const Communicator& communicator, int64_t input_size,
                                absl::Span<const int64_t> counts, int64_t output_size,
                                const CallOptions& options, std::vector<Part>* parts);

absl::Status CheckAllGather(const Communicator& communicator, int64_t input_size,
                            absl::Span<const Part> parts, int64_t output_size,
                            const CallOptions& options);

absl::Status CheckBroadcast(const Communicator& communicator, int root, const CallOptions& options);

// Returns this rank's number in the group.
absl::StatusOr<int> CheckSplit(const Communicator& communicator, absl::Span<const int> members,
                               const CallOptions& options);

absl::Status CheckAllToAll(const Communicator& communicator, int64_t input_size,
                           absl::Span<const Part> send_parts, int64_t output_size,
                           absl::Span<const Part> receive_parts, const CallOptions& options);

}  // namespace longhaul
