// The engine's collectives: operations on tensors over the groups of ranks that the pool's topology
// gives. Without a communicator the pool is one rank, and nothing is exchanged. Tensors in memory
// that the communicator cannot read are copied to memory that it can read, and back.
//
// Called from one thread at a time; received() from any thread. All operations are collective and
// block. Errors: those of the communicator. Throws as torch does.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/partition/hops.h"
#include "common/partition/partition_map.h"
#include "common/partition/topology.h"
#include "worker/collective/communicator.h"
#include "worker/collective/compressed_all_reduce.h"
#include "worker/plan/rank_site.h"

namespace longhaul {

// The use of received bytes.
enum class Use { kForward, kBackward, kGradient, kRefresh };
inline constexpr int kUses = 4;

// Bytes that this rank received from other ranks, by Use and by the narrowest level that sender and
// receiver share (kPair, kNode or kPool).
struct ReceivedBytes {
  using ByLevel = std::array<int64_t, 4>;
  std::array<ByLevel, kUses> payload = {};
  // Including the padding of coded pieces.
  std::array<ByLevel, kUses> scales = {};

  int64_t Total(Use use, Level level) const {
    const auto u = static_cast<size_t>(use), l = static_cast<size_t>(level);
    return payload[u][l] + scales[u][l];
  }
  ReceivedBytes operator-(const ReceivedBytes& earlier) const;
};

// One collective on the path between two levels, in the order of the communicator's ranks.
struct Hop : HopGroup {
  Communicator* communicator = nullptr;
};

class PoolExchange {
 public:
  // Makes the groups that the map needs. `device`: where the tensors lie. INVALID_ARGUMENT: the
  // nodes do not have the communicator's number of ranks; nothing was exchanged. Also the errors of
  // CheckTopology. Collective.
  static absl::StatusOr<std::unique_ptr<PoolExchange>> Create(const PoolLink& link,
                                                              const PartitionMap& map,
                                                              at::Device device);

  int rank() const { return link_.communicator == nullptr ? 0 : link_.communicator->rank(); }
  int ranks() const { return topology_.ranks(); }
  const Topology& topology() const { return topology_; }

  // As HopPath. kPair requires that the map uses pairs.
  std::vector<const Hop*> Path(Level wide, Level narrow) const;

  // Over a hop; `parts` by its ranks. `scales`: how many bytes of each part are no payload; none if
  // empty.

  // bytes[parts[r]] as rank r has it, for every r.
  absl::Status AllGather(const Hop& hop, const at::Tensor& bytes, absl::Span<const Part> parts,
                         absl::Span<const int64_t> scales, Use use);
  // `flat` has parts of `counts` float32 elements. This rank's part becomes the sum over the hop's
  // ranks, in their order. The other parts do not change, or become the sums of other ranks.
  absl::Status ReduceScatter(const Hop& hop, const at::Tensor& flat,
                             absl::Span<const int64_t> counts);
  // to[receive_parts[r]] = from[send_parts[this rank]] of rank r, for every other rank r. Both
  // tensors are bytes. Counts as gradients.
  absl::Status AllToAll(const Hop& hop, const at::Tensor& from, absl::Span<const Part> send_parts,
                        const at::Tensor& to, absl::Span<const Part> receive_parts,
                        absl::Span<const int64_t> scales);

  // Over the pool.

  // Sums by element over the ranks, in rank order.
  absl::Status Sum(absl::Span<double> values);
  // The same for a flat float64 tensor. It is not copied if the communicator can read it.
  absl::Status Sum(const at::Tensor& values);
  // Whether the communicator works on device memory.
  bool works_on_device() const { return !stage_.is_cpu(); }
  // `flat`, float32 in host memory, becomes the mean over the ranks, compressed by `reduce`.
  // Requires more than one rank. Counts as gradients.
  absl::Status CompressedMean(CompressedAllReduce& reduce, const at::Tensor& flat);
  // Returns the values of every rank, by rank.
  absl::StatusOr<std::vector<std::vector<int64_t>>> Gather(absl::Span<const int64_t> values);

  ReceivedBytes received() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  PoolExchange(const PoolLink& link, Topology topology, at::Device device);

  absl::Status MakeHop(HopGroup group);
  const Hop* FindHop(HopLevels levels) const;
  at::Tensor Stage(const at::Tensor& tensor) const { return tensor.to(stage_); }
  CallOptions Options() const;
  void Count(const Hop& hop, absl::Span<const Part> parts, absl::Span<const int64_t> scales,
             Use use) ABSL_LOCKS_EXCLUDED(mutex_);

  const PoolLink link_;
  const Topology topology_;
  // The device whose memory the communicator reads and writes.
  const at::Device stage_;
  // Without the pool's communicator.
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::vector<Hop> hops_;
  mutable absl::Mutex mutex_;
  ReceivedBytes received_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
