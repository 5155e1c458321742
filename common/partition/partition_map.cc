#include "common/partition/partition_map.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"

namespace longhaul {
namespace {

constexpr const char* kPresets[] = {"ddp", "zero1", "zero2", "zero3", "zeropp", "frontier3"};

void CheckBits(const char* field, int bits, std::vector<PartitionProblem>& problems) {
  for (const int known : {0, 4, 6, 8, 16, 32}) {
    if (bits == known) return;
  }
  problems.push_back({field, absl::StrCat("found ", bits, ", expected 4, 6, 8, 16 or 32"),
                      "leave it out for the precision that the model computes in"});
}

}  // namespace

bool PartitionMap::uses_pairs() const {
  return weights.level == Level::kPair || gradients.level == Level::kPair ||
         optimizer == Level::kPair || (secondary.has_value() && secondary->level == Level::kPair);
}

bool PartitionMap::quantizes() const {
  const auto narrow = [](const Spread& spread) { return spread.bits > 0 && spread.bits <= 8; };
  return narrow(weights) || narrow(gradients) || (secondary.has_value() && narrow(*secondary));
}

bool PartitionMap::replicates() const {
  return weights.level == Level::kRank && gradients.level == Level::kRank &&
         optimizer == Level::kRank && !secondary.has_value() && !quantizes();
}

absl::Span<const char* const> PartitionPresets() { return kPresets; }

absl::StatusOr<PartitionMap> PartitionPreset(std::string_view name) {
  constexpr Level kPair = Level::kPair, kNode = Level::kNode, kPool = Level::kPool;
  if (name.empty() || name == "ddp") return PartitionMap{};
  if (name == "zero1") return PartitionMap{.optimizer = kPool};
  if (name == "zero2") return PartitionMap{.gradients = {kPool}, .optimizer = kPool};
  if (name == "zero3")
    return PartitionMap{.weights = {kPool}, .gradients = {kPool}, .optimizer = kPool};
  if (name == "zeropp") {
    return PartitionMap{.weights = {kPool, 8},
                        .secondary = Spread{kNode},
                        .gradients = {kPool, 4},
                        .optimizer = kPool};
  }
  if (name == "frontier3") {
    return PartitionMap{.weights = {kPair, 8},
                        .secondary = Spread{kNode, 8},
                        .gradients = {kNode, 4},
                        .optimizer = kPool};
  }
  return absl::InvalidArgumentError(absl::StrCat("partition.preset: '", std::string(name),
                                                 "' is unknown; use ",
                                                 absl::StrJoin(kPresets, ", ")));
}

std::vector<PartitionProblem> FindProblems(const PartitionMap& map) {
  std::vector<PartitionProblem> problems;
  CheckBits("weights.bits", map.weights.bits, problems);
  CheckBits("gradients.bits", map.gradients.bits, problems);
  if (map.weights.level > map.optimizer) {
    problems.push_back({"weights.level",
                        "is wider than the optimizer's, whose master parameters "
                        "every rank would hold anyway",
                        "split the optimizer at least as widely"});
  }
  if (map.gradients.level > map.optimizer) {
    problems.push_back({"gradients.level",
                        "is wider than the optimizer's, which needs the gradient of all that it "
                        "updates",
                        "split the optimizer at least as widely"});
  }
  if (map.weights.level == Level::kRank && map.weights.bits != 0) {
    problems.push_back({"weights.bits",
                        "has no effect: weights that every rank holds are not "
                        "gathered",
                        "leave it out"});
  }
  if (map.error_feedback && (map.gradients.bits == 0 || map.gradients.bits > 8)) {
    problems.push_back({"gradients.error_feedback",
                        "has no effect on gradients that are not "
                        "quantized",
                        "set gradients.bits to 4, 6 or 8, or leave it out"});
  }
  if (!(map.error_beta >= 0 && map.error_beta < 1)) {
    problems.push_back({"gradients.error_beta", absl::StrCat("is ", map.error_beta),
                        "set it to at least 0 and less than 1"});
  }
  if (map.error_reset_steps < 0) {
    problems.push_back({"gradients.error_reset_steps", absl::StrCat("is ", map.error_reset_steps),
                        "set it to 0 (never) or more"});
  }
  for (const auto& [field, set] : {std::pair{"gradients.error_beta", map.error_beta != 0},
                                   {"gradients.error_reset_steps", map.error_reset_steps != 0}}) {
    if (!set || map.error_feedback) continue;
    problems.push_back({field, "has no effect without error feedback",
                        "set gradients.error_feedback, or leave it out"});
  }
  if (!map.secondary.has_value()) return problems;
  CheckBits("secondary.bits", map.secondary->bits, problems);
  if (map.weights.level == Level::kRank) {
    problems.push_back(
        {"secondary", "has no effect: every rank holds the weights", "leave it out"});
  } else if (map.secondary->level == map.weights.level) {
    problems.push_back({"secondary.level", "is that of the weights, which backward can gather from",
                        "leave secondary out, or choose another level"});
  } else if (map.secondary->level == Level::kRank) {
    problems.push_back({"secondary.level", "would keep all weights on every rank",
                        "leave secondary out, and do not split the weights"});
  }
  return problems;
}

PartitionMap Normalized(const PartitionMap& map, const Topology& topology) {
  if (topology.ranks() == 1) return {};
  PartitionMap result = map;
  const auto whole = [&](Level level) {
    return topology.Pieces(level, 0).count == topology.ranks();
  };
  if (whole(map.weights.level)) result.weights = {};
  if (whole(map.gradients.level)) result.gradients.level = Level::kRank;
  if (whole(map.optimizer)) result.optimizer = Level::kRank;
  const bool useless = map.secondary.has_value() && topology.Pieces(map.secondary->level, 0) ==
                                                        topology.Pieces(map.weights.level, 0);
  if (useless || result.weights.level == Level::kRank) result.secondary.reset();
  return result;
}

absl::Status CheckTopology(const PartitionMap& map, const Topology& topology) {
  const auto check = [&](const char* field, Level level) {
    const absl::Status even = topology.CheckEven(level);
    if (even.ok()) return even;
    return AboutField("partition",
                      absl::FailedPreconditionError(absl::StrCat(
                          field, " over the ", LevelName(level), ": ", even.message())));
  };
  LH_RETURN_IF_ERROR(check("weights", map.weights.level));
  if (map.secondary.has_value()) LH_RETURN_IF_ERROR(check("secondary", map.secondary->level));
  LH_RETURN_IF_ERROR(check("gradients", map.gradients.level));
  return check("optimizer", map.optimizer);
}

}  // namespace longhaul
