#include "worker/family/graph/link_batches.h"

#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "common/base/share.h"
#include "common/base/status_macros.h"

namespace longhaul {

// A part of a rank's share: pairs, then all negatives, and which of them do not count.
struct LinkBatches::Part {
  int number = 0;
  absl::Span<const NodePair> pairs;
  std::vector<int64_t> negatives, uncounted;
  // Of evaluations.
  std::vector<int64_t> group_ends;
};

int64_t LinkBatches::TrainingPairs(const GraphFolder& folder) {
  const auto given = static_cast<int64_t>(folder.train_pairs().size());
  return given > 0 ? given : folder.manifest().edges;
}

absl::StatusOr<std::unique_ptr<LinkBatches>> LinkBatches::Create(
    const Options& options, const LinkOptions& links, std::shared_ptr<const GraphFolder> folder,
    std::shared_ptr<HostRows> rows) {
  LH_ASSIGN_OR_RETURN(const SeedPlan plan, SeedPlan::Create({.seeds = TrainingPairs(*folder),
                                                             .batch = options.batch,
                                                             .seed = options.seed,
                                                             .pool = options.pool}));
  LH_ASSIGN_OR_RETURN(
      NeighborSampler training,
      NeighborSampler::Create(folder->edges(), {.fanout = options.fanout, .seed = options.seed}));
  const std::vector<int64_t> all(options.fanout.size(), -1);
  LH_ASSIGN_OR_RETURN(NeighborSampler held_out,
                      NeighborSampler::Create(folder->edges(), {.fanout = all}));
  std::unique_ptr<LinkBatches> batches(new LinkBatches(options, links, folder, plan));
  batches->training_ =
      std::make_unique<Reader>(options, *folder, rows, std::move(training), options.gathers);
  batches->held_out_ = std::make_unique<Reader>(options, *folder, std::move(rows),
                                                std::move(held_out), /*gathers=*/true);
  return batches;
}

LinkBatches::LinkBatches(const Options& options, const LinkOptions& links,
                         std::shared_ptr<const GraphFolder> folder, const SeedPlan& plan)
    : GraphBatches(options, std::move(folder), plan),
      links_(links),
      trained_(folder_->edges(), {folder_->train_pairs()}),
      known_(folder_->edges(),
             {folder_->train_pairs(), folder_->valid_pairs(), folder_->test_pairs()}),
      held_out_pairs_({}, {folder_->valid_pairs(), folder_->test_pairs()}) {}

NodePair LinkBatches::TrainingPair(int64_t number) const {
  const absl::Span<const NodePair> given = folder_->train_pairs();
  return given.empty() ? PairOfEdge(folder_->edges(), number) : given[number];
}

absl::StatusOr<ExampleBatch> LinkBatches::Make(int64_t step) const {
  // Of all ranks: they are excluded from what each rank samples, and their targets are negatives.
  std::vector<NodePair> pool;
  const bool edges = folder_->train_pairs().empty();
  for (const int64_t number : plan_.Take(step, 0, 1)) {
    const NodePair pair = TrainingPair(number);
    if (!edges || !held_out_pairs_.Linked(pair.source, pair.target)) pool.push_back(pair);
  }
  const Share mine = ShareOf(static_cast<int64_t>(pool.size()), options_.rank, options_.ranks);
  ExampleBatch batch{.examples = mine.count, .pool_weight = static_cast<int64_t>(pool.size())};
  AddDropoutKey(step, batch);
  const absl::Span<const NodePair> pairs =
      absl::MakeConstSpan(pool).subspan(mine.first, mine.count);
  for (int number = 0; number < options_.accumulation; ++number) {
    const Share of_part = ShareOf(mine.count, number, options_.accumulation);
    Part part{.number = number, .pairs = pairs.subspan(of_part.first, of_part.count)};
    for (const NodePair& pair : part.pairs) {
      for (int64_t i = 0; i < links_.negatives; ++i) {
        int64_t node = NegativeOf(trained_, pool, options_.seed, step, pair, i);
        if (node < 0) {
          part.uncounted.push_back(static_cast<int64_t>(part.negatives.size()));
          node = pair.target;
        }
        part.negatives.push_back(node);
      }
    }
    LH_RETURN_IF_ERROR(AddLinks(*training_, step, part, pool, batch));
  }
  LH_RETURN_IF_ERROR(folder_->Check());
  return batch;
}

absl::StatusOr<ExampleBatch> LinkBatches::MakeHeldOut(int64_t index, int64_t count) const {
  return MakeEvaluation(folder_->valid_pairs(), index, count);
}

absl::StatusOr<ExampleBatch> LinkBatches::MakeTest(int64_t index, int64_t count) const {
  return MakeEvaluation(folder_->test_pairs(), index, count);
}

int64_t LinkBatches::TestWeight() const {
  return static_cast<int64_t>(folder_->test_pairs().size());
}

absl::StatusOr<ExampleBatch> LinkBatches::MakeEvaluation(absl::Span<const NodePair> split,
                                                         int64_t index, int64_t count) const {
  const Share of_batch = ShareOf(static_cast<int64_t>(split.size()), index, count);
  const Share of_rank = ShareOf(of_batch.count, options_.rank, options_.ranks);
  const Share mine{.first = of_batch.first + of_rank.first, .count = of_rank.count};
  ExampleBatch batch{.examples = mine.count, .pool_weight = of_batch.count};
  Part part{.pairs = split.subspan(mine.first, mine.count)};
  for (int64_t place = mine.first; place < mine.end();) {
    const int64_t group = place / kPairsOfGroup;
    const int64_t end = std::min((group + 1) * kPairsOfGroup, mine.end());
    const std::vector<int64_t> negatives =
        NegativesOfGroup(folder_->nodes(), split, options_.seed, group, links_.eval_negatives);
    for (; place < end; ++place) {
      for (size_t i = 0; i < negatives.size(); ++i) {
        if (known_.Linked(split[place].source, negatives[i])) {
          part.uncounted.push_back((place - mine.first) * links_.eval_negatives +
                                   static_cast<int64_t>(i));
        }
      }
    }
    part.negatives.insert(part.negatives.end(), negatives.begin(), negatives.end());
    part.group_ends.push_back(end - mine.first);
  }
  LH_RETURN_IF_ERROR(AddLinks(*held_out_, 0, part, split, batch));
  LH_RETURN_IF_ERROR(folder_->Check());
  return batch;
}

absl::StatusOr<int64_t> LinkBatches::HeldOutWeight(int64_t) const {
  return static_cast<int64_t>(folder_->valid_pairs().size());
}

absl::Status LinkBatches::AddLinks(Reader& reader, int64_t step, const Part& of,
                                   absl::Span<const NodePair> excluded, ExampleBatch& batch) const {
  if (of.pairs.empty()) return absl::OkStatus();
  std::vector<int64_t> seeds;
  for (const NodePair& pair : of.pairs) seeds.push_back(pair.source);
  for (const NodePair& pair : of.pairs) seeds.push_back(pair.target);
  seeds.insert(seeds.end(), of.negatives.begin(), of.negatives.end());
  if (links_.keep_targets) excluded = {};
  LH_RETURN_IF_ERROR(AddSample(reader, step, seeds, excluded, of.number, batch));
  const auto add = [&](absl::string_view name, std::vector<int64_t> values) {
    const auto size = static_cast<int64_t>(values.size());
    batch.tensors.push_back({PartName(name, of.number), {size}, std::move(values)});
  };
  add("pairs", {static_cast<int64_t>(of.pairs.size())});
  add("uncounted", of.uncounted);
  if (!of.group_ends.empty()) add("group_ends", of.group_ends);
  return absl::OkStatus();
}

}  // namespace longhaul
