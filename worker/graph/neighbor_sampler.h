// Samples the neighborhood of seed nodes for GraphSAGE, hop by hop, without replacement. The
// neighbors that are drawn for a node at a hop are a pure function of (seed, step, node, hop), so
// what a seed reads does not depend on the other seeds of its batch, nor on the number of ranks and
// threads, nor on the width of the graph's arrays.
//
// A node with at most as many in-edges as the fan-out gives all of them; one without in-edges has
// none. Equal edges, where the import kept them, are drawn one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/thread_team.h"
#include "common/graph/graph_folder.h"

namespace longhaul {

// For one layer of a model: sources pass their values to targets. The targets are the first rows of
// the sources.
struct GraphBlock {
  int64_t targets = 0, sources = 0;
  // targets + 1.
  absl::Span<const int64_t> indptr;
  // Rows, below `sources`: those of target t are from indptr[t] to indptr[t + 1].
  absl::Span<const int32_t> source_rows;
};

// Rows come in levels: the seeds, then the nodes one hop away, and so on. Nodes differ within a
// level, and ascend but for the seeds. A node that is reached over several numbers of hops has a
// row in each of these levels, since each has neighbors of its own.
struct SampledBatch {
  // By row: the graph's node. Its features are the input of the first layer.
  std::vector<int64_t> nodes;
  // Where each level ends; one more than there are hops.
  std::vector<int64_t> level_ends;
  // Of all levels but the last.
  std::vector<int64_t> indptr;
  std::vector<int32_t> source_rows;
  // The row of each seed, in the order they were given. Equal seeds have one row.
  std::vector<int32_t> seed_rows;

  int layers() const { return static_cast<int>(level_ends.size()) - 1; }
  // Layer 0 is computed first, and reads the features of all rows. The last one gives the seeds'.
  GraphBlock Block(int layer) const;
};

// Not thread-safe: one for each thread that calls Sample. Its tables take a quarter byte for each
// node.
class NeighborSampler {
 public:
  static constexpr int kHopsMax = 8;
  static constexpr int64_t kFanoutMax = 1 << 20;

  struct Options {
    // One for each hop; the first is for the hop next to the seeds. -1: all neighbors.
    std::vector<int64_t> fanout;
    uint64_t seed = 0;
    // Only edges count whose source and target are among `members`.
    bool members_only = false;
    absl::Span<const int64_t> members;
    // More edges in a batch are refused. Below 2^31.
    int64_t edges_max = (int64_t{1} << 31) - 1;
  };
  // The arrays of `edges` outlive the object. INVALID_ARGUMENT: a fan-out is out of range, or a
  // member is not a node.
  static absl::StatusOr<NeighborSampler> Create(const GraphEdges& edges, const Options& options);

  // `excluded`: these edges, and those in the other direction, do not count: the pairs that link
  // prediction is to predict. To get the same for any number of ranks, give those of the whole
  // pool. `team` may be null. Blocks on the disk, where the graph is mapped.
  // INVALID_ARGUMENT: a seed is not a node. DATA_LOSS: the graph's arrays have changed, and are no
  // graph now. RESOURCE_EXHAUSTED: more than edges_max.
  absl::StatusOr<SampledBatch> Sample(int64_t step, absl::Span<const int64_t> seeds,
                                      absl::Span<const NodePair> excluded = {},
                                      ThreadTeam* team = nullptr);

 private:
  // 64 nodes: which are in the level, and how many are in it before them.
  struct alignas(16) Word {
    uint64_t bits = 0;
    int64_t rank = 0;
  };
  struct Chunk {
    // Of each target, and all of them one after another.
    std::vector<uint32_t> counts, sources;
  };
  struct Excluded {
    uint32_t target, source;
    auto operator<=>(const Excluded&) const = default;
  };
  enum class ChunkEnd { kWhole, kBroken, kTooMany };

  NeighborSampler(const GraphEdges& edges, const Options& options);
  absl::Status AddSeeds(absl::Span<const int64_t> seeds, SampledBatch& batch) const;
  void SetExcluded(absl::Span<const NodePair> excluded);
  absl::Status AddLevel(int64_t step, int hop, ThreadTeam* team, SampledBatch& batch);
  template <typename Source>
  ChunkEnd SampleChunk(const Source* sources, int64_t step, int hop,
                       absl::Span<const int64_t> targets, bool shared, Chunk& chunk);
  template <typename Source>
  bool TakeFiltered(const Source* sources, uint32_t target, int64_t begin, int64_t degree,
                    std::vector<uint32_t>& candidates) const;
  bool IsMember(int64_t node) const { return (members_[node >> 6] >> (node & 63) & 1) != 0; }

  GraphEdges edges_;
  int64_t edge_count_;
  Options options_;
  std::vector<uint64_t> members_;
  std::vector<Excluded> excluded_;
  std::vector<Word> words_;
  std::vector<Chunk> chunks_;
};

}  // namespace longhaul
