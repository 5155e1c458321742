#include "worker/engine/unit_gather.h"

#include "common/base/status_macros.h"

namespace longhaul {

absl::Status GatherFloats(PoolExchange& exchange, const ShardPlan& plan, int unit,
                          const at::Tensor& floats, int64_t first, Level wide, Level narrow,
                          Use use) {
  constexpr int64_t kSize = sizeof(float);
  const at::Tensor bytes = floats.view(at::kByte);
  for (const Hop* hop : exchange.Path(wide, narrow)) {
    std::vector<Part> parts;
    for (const int rank : hop->ranks) {
      const ElementRange held = plan.Held(unit, hop->wide, rank);
      parts.push_back({(held.first - first) * kSize, held.count * kSize});
    }
    LH_RETURN_IF_ERROR(exchange.AllGather(*hop, bytes, parts, {}, use));
  }
  return absl::OkStatus();
}

absl::Status GatherCoded(PoolExchange& exchange, const ShardPlan& plan, const UnitCode& code,
                         const at::Tensor& coded, Level wide, Level narrow, Use use) {
  for (const Hop* hop : exchange.Path(wide, narrow)) {
    std::vector<Part> parts;
    std::vector<int64_t> scales;
    for (const int rank : hop->ranks) {
      const PieceRange held = plan.topology().Pieces(hop->wide, rank);
      parts.push_back(code.PartOf(held));
      scales.push_back(code.ScaleBytes(held));
    }
    LH_RETURN_IF_ERROR(exchange.AllGather(*hop, coded, parts, scales, use));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
