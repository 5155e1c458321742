// The engine's collectives: operations on tensors, wherever those lie, over the groups of ranks that
// the pool's topology gives. Without a communicator the pool is one rank and nothing moves. Tensors
// that the communicator cannot read where they lie are staged through memory that it can.
//
// Used from one thread at a time; received() from any. Collective, blocking. Errors: those of the
// communicator. Throws as torch does.
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
#include "common/partition/partition_map.h"
#include "common/partition/topology.h"
#include "worker/collective/communicator.h"
#include "worker/collective/compressed_all_reduce.h"

namespace longhaul {

// How a rank reaches its peers.
struct PoolLink {
  // Null: this rank is the pool. Else it must outlive what it is given to.
  Communicator* communicator = nullptr;
  std::vector<int> ranks_of_node;  // Empty: all ranks are on one node.
  bool on_device = false;  // The communicator works on device memory (nccl), else on host memory.
  absl::Duration timeout = absl::Minutes(5);  // Of each collective.
};

// What bytes are received for.
enum class Use { kForward, kBackward, kGradient, kRefresh };
inline constexpr int kUses = 4;

// Bytes that this rank received from others, by Use and by the narrowest level that the sender
// shares with it (of kPair, kNode, kPool).
struct ReceivedBytes {
  using ByLevel = std::array<int64_t, 4>;
  std::array<ByLevel, kUses> payload = {};
  std::array<ByLevel, kUses> scales = {};  // With the padding of coded pieces.

  int64_t Total(Use use, Level level) const {
    const auto u = static_cast<size_t>(use), l = static_cast<size_t>(level);
    return payload[u][l] + scales[u][l];
  }
  ReceivedBytes operator-(const ReceivedBytes& earlier) const;
};

// One collective on the way between two levels: a group of ranks, each of which holds a part of
// what they hold together. The parts follow each other in the order of `ranks`, which is that of the
// communicator.
struct Hop {
  Communicator* communicator = nullptr;
  std::vector<int> ranks;
  Level narrow = Level::kRank, wide = Level::kRank;  // Split over `wide`, together over `narrow`.
};

class PoolExchange {
 public:
  // Makes the groups that the map needs. `device`: where the tensors lie. INVALID_ARGUMENT: the
  // nodes' ranks are not the communicator's. Also those of CheckTopology. Nothing was exchanged then.
  static absl::StatusOr<std::unique_ptr<PoolExchange>> Create(const PoolLink& link,
                                                              const PartitionMap& map,
                                                              at::Device device);

  int rank() const { return link_.communicator == nullptr ? 0 : link_.communicator->rank(); }
  int ranks() const { return topology_.ranks(); }
  const Topology& topology() const { return topology_; }

  // The hops that gather what is split over `wide` until it is split over `narrow`. Reductions take
  // them backwards. Empty: the two are the same here. `narrow` is not wider than `wide`; kPair
  // requires that the map uses pairs.
  std::vector<const Hop*> Path(Level wide, Level narrow) const;

  // Over a hop; `parts` by its ranks. `scales`: how many bytes of each part are no payload; none if
  // empty.

  // bytes[parts[r]] as rank r has it, for every r.
  absl::Status AllGather(const Hop& hop, const at::Tensor& bytes, absl::Span<const Part> parts,
                         absl::Span<const int64_t> scales, Use use);
  // This rank's part of `flat`, whose parts have `counts` float32 elements each, becomes the sum
  // over the hop's ranks, in their order; the rest stays as it was or holds other ranks' sums.
  absl::Status ReduceScatter(const Hop& hop, const at::Tensor& flat,
                             absl::Span<const int64_t> counts);
  // to[receive_parts[r]] = what rank r sends this one, for every r but itself. Both tensors are
  // bytes. For gradients.
  absl::Status AllToAll(const Hop& hop, const at::Tensor& from, absl::Span<const Part> send_parts,
                        const at::Tensor& to, absl::Span<const Part> receive_parts,
                        absl::Span<const int64_t> scales);

  // Over the pool.

  // Sums by element over the ranks, in rank order.
  absl::Status Sum(absl::Span<double> values);
  // The same of a flat tensor of float64. Those that lie where collectives work stay there.
  absl::Status Sum(const at::Tensor& values);
  // Whether that is a device, not host memory.
  bool works_on_device() const { return !stage_.is_cpu(); }
  // `flat`, float32 in host memory, becomes the mean over the ranks as `reduce` compresses it. More
  // than one rank. For gradients.
  absl::Status CompressedMean(CompressedAllReduce& reduce, const at::Tensor& flat);
  // Every rank's values, by rank.
  absl::StatusOr<std::vector<std::vector<int64_t>>> Gather(absl::Span<const int64_t> values);

  ReceivedBytes received() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  PoolExchange(const PoolLink& link, Topology topology, at::Device device);

  absl::Status MakeHop(const std::vector<int>& ranks, Level narrow, Level wide);
  const Hop* FindHop(Level narrow, Level wide) const;
  at::Tensor Stage(const at::Tensor& tensor) const { return tensor.to(stage_); }
  CallOptions Options() const;
  void Count(const Hop& hop, absl::Span<const Part> parts, absl::Span<const int64_t> scales,
             Use use) ABSL_LOCKS_EXCLUDED(mutex_);

  const PoolLink link_;
  const Topology topology_;
  const at::Device stage_;                             // Where the communicator reads and writes.
  std::vector<std::unique_ptr<Communicator>> groups_;  // But for the pool's.
  std::vector<Hop> hops_;
  mutable absl::Mutex mutex_;
  ReceivedBytes received_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
