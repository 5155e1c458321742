// The engine's collectives: a communicator's operations on flat tensors, wherever those lie.
// Without a communicator the pool is one rank and nothing moves. Tensors that the communicator
// cannot read where they lie are staged through memory that it can.
//
// Collective, used from one thread, blocking. Errors: those of the communicator. Throws as torch
// does.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collective/communicator.h"
#include "worker/engine/shard_plan.h"

namespace longhaul {

// How a rank reaches its peers.
struct PoolLink {
  Communicator* communicator =
      nullptr;             // Null: this rank is the pool. Else it must outlive what it is given to.
  bool on_device = false;  // The communicator works on device memory (nccl), else on host memory.
  absl::Duration timeout = absl::Minutes(5);  // Of each collective.
};

class PoolExchange {
 public:
  // `device`: where the tensors lie.
  PoolExchange(const PoolLink& link, at::Device device);

  int rank() const { return link_.communicator == nullptr ? 0 : link_.communicator->rank(); }
  int ranks() const { return link_.communicator == nullptr ? 1 : link_.communicator->size(); }

  // flat = sum of all ranks' flat, added in rank order.
  absl::Status AllReduce(const at::Tensor& flat);
  // The same sum, but only this rank's range of it; the rest of `flat` stays as it was or holds
  // other ranks' sums.
  absl::Status ReduceScatter(const at::Tensor& flat, absl::Span<const ElementRange> owners);
  // Every rank's range of `flat` as its owner has it.
  absl::Status AllGather(const at::Tensor& flat, absl::Span<const ElementRange> owners);
  // Sums by element over the ranks, in rank order.
  absl::Status Sum(absl::Span<double> values);
  // Every rank's values, by rank.
  absl::StatusOr<std::vector<std::vector<int64_t>>> Gather(absl::Span<const int64_t> values);

 private:
  at::Tensor Stage(const at::Tensor& tensor) const { return tensor.to(stage_); }
  CallOptions Options() const;

  PoolLink link_;
  at::Device stage_;  // Where the communicator reads and writes.
};

}  // namespace longhaul
