// The two patterns of messages of which all collectives over a GlooMesh consist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/thread_team.h"
#include "worker/collective/gloo_mesh.h"
#include "worker/collective/parts.h"
#include "worker/collective/steady_deadline.h"

namespace longhaul {

// One collective operation in progress. Called from one thread. Errors are those of GlooMesh.
class GlooExchange {
 public:
  // `operation` (31 bits) is the same on all ranks for one operation, and differs from the last
  // few. `scratch` keeps memory from one operation to the next. `team` adds; it may be null.
  GlooExchange(GlooMesh& mesh, uint64_t operation, SteadyDeadline deadline,
               std::vector<std::byte>& scratch, ThreadTeam* team)
      : mesh_(mesh), operation_(operation), deadline_(deadline), scratch_(scratch), team_(team) {}

  // For every peer p: sends `sends[p]` of `input` to it, and receives `receives[p]` of `output`
  // from it (in bytes). The entries of this rank itself are ignored.
  absl::Status Swap(const std::byte* input, absl::Span<const Part> sends, std::byte* output,
                    absl::Span<const Part> receives);

  // output = the rank-order sum of this rank's part of every rank's input. `output` may be that
  // part of `input`.
  template <typename T>
  absl::Status ReduceScatter(const T* input, absl::Span<const Part> parts, T* output) {
    return Reduce(input, parts, output, nullptr);
  }

  // data = the rank-order sum of every rank's data. Each rank sums its own part. Finished sums are
  // sent back while the next ones are made: `gathering` is the number of another operation.
  template <typename T>
  absl::Status AllReduce(T* data, absl::Span<const Part> parts, uint64_t gathering) {
    return Reduce(data, parts, data + parts[mesh_.rank()].offset, &gathering);
  }

 private:
  using Transfers = std::vector<std::unique_ptr<GlooMesh::Transfer>>;

  // `gathering` is set for an AllReduce, whose data is `input`: the number for its second half.
  template <typename T>
  absl::Status Reduce(const T* input, absl::Span<const Part> parts, T* output,
                      const uint64_t* gathering);
  absl::Status StartSend(int peer, uint64_t slot, const void* data, int64_t bytes,
                         Transfers* transfers);
  absl::Status StartReceive(int peer, uint64_t slot, void* data, int64_t bytes,
                            Transfers* transfers);
  absl::Status WaitAll(Transfers& transfers);

  GlooMesh& mesh_;
  const uint64_t operation_;
  const SteadyDeadline deadline_;
  std::vector<std::byte>& scratch_;
  ThreadTeam* const team_;
};

}  // namespace longhaul
