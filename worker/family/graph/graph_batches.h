// The batches of a graph model: a rank's share of the seeds, what is sampled around them, and the
// features of all that. Without torch.
//
// For part p of the plan's `accumulation` parts of the share, tensors named "features/p" float,
// "nodes/p", "level_ends/p", "indptr/p", "seed_rows/p", "labels/p" int64, "source_rows/p" int32: as
// worker/model/graph_batch.h. A part may have no seeds, and then no tensors. "dropout_key" int64
// [1]: of the step.
//
// A held-out batch has one part: "layer_targets/0", "layer_target_ends/0" and "labels/0". What else
// its evaluation reads is in the folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/base/thread_team.h"
#include "common/graph/graph_folder.h"
#include "worker/data/batch.h"
#include "worker/graph/feature_table.h"
#include "worker/graph/neighbor_sampler.h"
#include "worker/graph/seed_plan.h"

namespace longhaul {

// "features/0".
std::string PartName(absl::string_view tensor, int part);

// Batches do not depend on how many threads, or kinds of access, make them; nor does what a seed
// reads depend on the number of ranks or parts.
class GraphBatches : public BatchMaker {
 public:
  struct Options {
    // See GraphSageShape.
    std::vector<int64_t> fanout;
    uint64_t seed = 0;
    int64_t pool = 0;
    // Seeds of the pool in a step.
    int64_t batch = 0;
    int accumulation = 1;
    int rank = 0, ranks = 1;
    bool training_edges = false;
    int threads = 1;
    // False: batches of training have no features, since a device gathers them.
    bool gathers = true;
  };
  // `rows`: a copy of the features. Null: they are read from the folder's mapping.
  // INVALID_ARGUMENT: those of NeighborSampler::Create and SeedPlan::Create.
  static absl::StatusOr<std::unique_ptr<GraphBatches>> Create(
      const Options& options, std::shared_ptr<const GraphFolder> folder,
      std::shared_ptr<HostRows> rows);

  // How many of these nodes have a label.
  static int64_t Labelled(const GraphFolder& folder, absl::Span<const int64_t> nodes);

  absl::StatusOr<ExampleBatch> Make(int64_t step) const override;
  // Validation nodes with all their neighbors: all nodes are cut into `count` batches.
  absl::StatusOr<ExampleBatch> MakeHeldOut(int64_t index, int64_t count) const override;
  absl::StatusOr<int64_t> HeldOutWeight(int64_t count) const override;
  absl::StatusOr<ExampleBatch> MakeTest(int64_t index, int64_t count) const override;
  int64_t TestWeight() const override;
  absl::Status Check() const override { return folder_->Check(); }

 protected:
  // What one thread at a time samples and gathers with.
  struct Reader {
    Reader(const Options& options, const GraphFolder& folder, std::shared_ptr<HostRows> rows,
           NeighborSampler sampler, bool gathers);

    // Otherwise what it samples has no features.
    const bool gathers;
    absl::Mutex mutex;
    std::unique_ptr<ThreadTeam> team;
    NeighborSampler sampler ABSL_GUARDED_BY(mutex);
    std::unique_ptr<FeatureTable> table ABSL_GUARDED_BY(mutex);
  };

  GraphBatches(const Options& options, std::shared_ptr<const GraphFolder> folder,
               const SeedPlan& plan);
  void AddDropoutKey(int64_t step, ExampleBatch& batch) const;
  // All tensors of a part but its labels. `excluded`: see NeighborSampler::Sample.
  absl::Status AddSample(Reader& reader, int64_t step, absl::Span<const int64_t> seeds,
                         absl::Span<const NodePair> excluded, int part, ExampleBatch& batch) const;
  absl::Status AddPart(Reader& reader, int64_t step, absl::Span<const int64_t> seeds, int part,
                       ExampleBatch& batch) const;
  // This rank's part of batch `index` of `count` of these nodes.
  absl::StatusOr<ExampleBatch> MakeEvaluation(absl::Span<const int64_t> nodes, int64_t index,
                                              int64_t count) const;
  int64_t Labelled(absl::Span<const int64_t> nodes) const { return Labelled(*folder_, nodes); }

  const Options options_;
  const std::shared_ptr<const GraphFolder> folder_;
  const SeedPlan plan_;
  std::unique_ptr<Reader> training_;
};

}  // namespace longhaul
