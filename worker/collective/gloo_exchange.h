// The two patterns of messages that all collectives over a GlooMesh are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/parts.h"

namespace longhaul {

// Messages cross the network in pieces of this size, so that sums and copies overlap the transfer
// of the next piece.
inline constexpr int64_t kSegmentBytes = 1 << 20;

// One collective operation under way. Called from one thread; errors are those of GlooMesh.
class GlooExchange {
 public:
  // `operation` (35 bits) is equal on all ranks for one operation and differs from the last few.
  GlooExchange(GlooMesh& mesh, uint64_t operation, GlooMesh::Deadline deadline)
      : mesh_(mesh), operation_(operation), deadline_(deadline) {}

  // For every peer p: sends `sends[p]` of `input` to it and receives `receives[p]` of `output` from
  // it (bytes). The records of this rank itself are ignored.
  absl::Status Swap(const std::byte* input, absl::Span<const Part> sends, std::byte* output,
                    absl::Span<const Part> receives);

  // output = the rank-order sum of this rank's part of every rank's input. `output` may be that
  // part of `input`.
  template <typename T>
  absl::Status ReduceScatter(const T* input, absl::Span<const Part> parts, T* output);

 private:
  using Transfers = std::vector<std::unique_ptr<GlooMesh::Transfer>>;

  uint64_t Slot(int64_t segment, int64_t bytes) const;
  absl::Status StartSend(int peer, int64_t segment, const void* data, int64_t bytes,
                         Transfers* transfers);
  absl::Status StartReceive(int peer, int64_t segment, void* data, int64_t bytes,
                            Transfers* transfers);
  absl::Status WaitAll(Transfers& transfers);

  GlooMesh& mesh_;
  const uint64_t operation_;
  const GlooMesh::Deadline deadline_;
};

}  // namespace longhaul
