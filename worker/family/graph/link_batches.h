// The batches of link prediction: a rank's share of the pairs, their negatives, and what is sampled
// around the ends of both. Without torch.
//
// The tensors of GraphBatches without labels. The seeds of "seed_rows/p" are the sources of the
// part's pairs, their targets, and negatives. In training each pair has `negatives` of its own, one
// after another. In a held-out batch pairs share those of their group: "group_ends/0" int64 has
// where each group ends among the pairs, from 0 on, and each has `eval_negatives`.
// "uncounted/p" int64: the places (pair * negatives of a pair + negative) that do not count, since
// the two are linked. "pairs/p" int64 [1]: how many pairs.
//
// Pairs of a batch, of all ranks, are no edges when it is sampled, nor are their reverses and
// duplicates; so are all pairs of the split in evaluations.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/family/graph/graph_batches.h"
#include "worker/graph/link_pairs.h"

namespace longhaul {

// See LinkTask of model.proto.
struct LinkOptions {
  int64_t negatives = 1, eval_negatives = 1000;
  bool keep_targets = false;
};

// Batches do not depend on the number of threads, or on the kind of access; pairs, negatives and
// what they read not on the number of ranks or parts. Held-out pairs have the same negatives in any
// number of batches.
class LinkBatches : public GraphBatches {
 public:
  // The pairs to train on: the graph's training pairs, or its edges if it has none.
  static int64_t TrainingPairs(const GraphFolder& folder);

  // `options.batch`: pairs of the pool in a step. INVALID_ARGUMENT: those of
  // NeighborSampler::Create and SeedPlan::Create.
  static absl::StatusOr<std::unique_ptr<LinkBatches>> Create(
      const Options& options, const LinkOptions& links, std::shared_ptr<const GraphFolder> folder,
      std::shared_ptr<HostRows> rows);

  absl::StatusOr<ExampleBatch> Make(int64_t step) const override;
  absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const override;
  absl::StatusOr<int64_t> HeldOutWeight(int64_t count) const override;
  absl::StatusOr<ExampleBatch> MakeTest(int64_t index, int64_t count) const override;
  int64_t TestWeight() const override;

 private:
  struct Part;
  // A batch of validation or test pairs.
  absl::StatusOr<ExampleBatch> MakeEvaluation(absl::Span<const NodePair> split, int64_t index,
                                              int64_t count) const;
  LinkBatches(const Options& options, const LinkOptions& links,
              std::shared_ptr<const GraphFolder> folder, const SeedPlan& plan);
  NodePair TrainingPair(int64_t number) const;
  absl::Status AddLinks(Reader& reader, int64_t step, const Part& of,
                        absl::Span<const NodePair> excluded, ExampleBatch& batch) const;

  const LinkOptions links_;
  // Of evaluations, which may run while a batch of training is made.
  std::unique_ptr<Reader> held_out_;
  // A negative of training is linked by no edge and no training pair, one of evaluations by no pair
  // of any split either.
  const LinkedPairs trained_, known_;
  // Validation and test pairs. Edges among them, which an import may keep, are not trained on.
  const LinkedPairs held_out_pairs_;
};

}  // namespace longhaul
