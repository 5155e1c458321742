#include "worker/engine/gradient_reduction.h"

#include <algorithm>

#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"
#include "absl/algorithm/container.h"
#include "common/base/status_macros.h"
#include "worker/engine/unit_gather.h"

namespace longhaul {
namespace {

at::Tensor MakeBytes(int64_t bytes, at::Device device) {
  return at::empty({bytes}, c10::TensorOptions(at::kByte).device(device));
}

}  // namespace

GradientReduction::GradientReduction(const ModelLayout& layout, const ShardPlan& plan,
                                     PoolExchange& exchange, at::Device device, int computed_bits,
                                     const SegmentKernels* kernels)
    : plan_(plan),
      exchange_(exchange),
      device_(device),
      bits_(plan.map().gradients.bits == 0 ? computed_bits : plan.map().gradients.bits),
      feedback_(plan.map().error_feedback && bits_ < 16 && plan.topology().ranks() > 1),
      owed_(layout.units.size()) {
  for (int unit = 0; unit < static_cast<int>(layout.units.size()); ++unit) {
    const auto code = [&](int bits) {
      return std::make_unique<UnitCode>(layout.units[unit], plan.pieces(unit), bits, kernels,
                                        plan.map().error_beta);
    };
    if (bits_ < 32) codes_.push_back(code(bits_));
    if (computed_bits < 32) computed_.push_back(code(computed_bits));
  }
}

absl::Status GradientReduction::Reduce(int unit, const at::Tensor& flat, int64_t first,
                                       Level narrow, Level wide) {
  std::vector<const Hop*> hops = exchange_.Path(wide, narrow);
  std::reverse(hops.begin(), hops.end());
  if (bits_ < 32) return ReduceCoded(unit, hops, {.flat = flat, .first = first});
  return ReduceFloats(unit, hops, flat, first);
}

absl::Status GradientReduction::ReduceFloats(int unit, absl::Span<const Hop* const> hops,
                                             const at::Tensor& flat, int64_t first) {
  for (const Hop* hop : hops) {
    const ElementRange held = plan_.Held(unit, hop->narrow);
    std::vector<int64_t> counts;
    for (const int rank : hop->ranks) counts.push_back(plan_.Held(unit, hop->wide, rank).count);
    LH_RETURN_IF_ERROR(
        exchange_.ReduceScatter(*hop, flat.narrow(0, held.first - first, held.count), counts));
  }
  return absl::OkStatus();
}

absl::Status GradientReduction::ReduceCoded(int unit, absl::Span<const Hop* const> hops,
                                            const UnitValues& values) {
  const UnitCode& code = *codes_[unit];
  const Topology& topology = plan_.topology();
  // From the ranks of the previous hop.
  at::Tensor received;
  // Parts of `received`, by rank. Empty before the first hop.
  std::vector<UnitCode::Addend> addends;
  // Ends the previous hop: sums the pieces that this rank received, and codes them for the next
  // hop.
  const auto sum = [&](const PieceRange& pieces, const at::Tensor& to, int to_first,
                       const at::Tensor& error) {
    if (!addends.empty()) return code.Reduce(pieces, addends, values, to, to_first, error, loss_);
    if (to.defined()) code.Encode(pieces, values, to, to_first, error, loss_);
  };
  for (const Hop* hop : hops) {
    const PieceRange held = topology.Pieces(hop->narrow, plan_.rank());
    const PieceRange own = topology.Pieces(hop->wide, plan_.rank());
    const int64_t base = code.PartOf(held).offset, size = code.PartOf(own).size;
    const at::Tensor sent = MakeBytes(code.PartOf(held).size, device_);
    std::vector<Part> sends, receives;
    std::vector<int64_t> scales;
    for (const int rank : hop->ranks) {
      const PieceRange pieces = topology.Pieces(hop->wide, rank);
      const Part part = code.PartOf(pieces);
      const bool self = rank == plan_.rank();
      sends.push_back({part.offset - base, self ? 0 : part.size});
      receives.push_back({static_cast<int64_t>(receives.size()) * size, self ? 0 : size});
      scales.push_back(code.ScaleBytes(own));
      if (self) {
        sum(pieces, {}, 0, {});
      } else {
        sum(pieces, sent, held.first, ErrorFor(unit, *hop, rank));
      }
    }
    received = MakeBytes(size * static_cast<int64_t>(hop->ranks.size()), device_);
    LH_RETURN_IF_ERROR(exchange_.AllToAll(*hop, sent, sends, received, receives, scales));
    addends.clear();
    for (size_t i = 0; i < hop->ranks.size(); ++i) {
      if (hop->ranks[i] == plan_.rank()) {
        addends.push_back({.values = values});
      } else {
        addends.push_back({received.narrow(0, receives[i].offset, size), own.first, {}});
      }
    }
  }
  if (!hops.empty()) sum(topology.Pieces(hops.back()->wide, plan_.rank()), {}, 0, {});
  return absl::OkStatus();
}

// Each hop has its own error feedback.
at::Tensor GradientReduction::ErrorFor(int unit, const Hop& hop, int rank) {
  if (!feedback_) return {};
  const ElementRange held = plan_.Held(unit, hop.narrow), range = plan_.Held(unit, hop.wide, rank);
  return ErrorsOf(unit, hop).narrow(0, range.first - held.first, range.count);
}

at::Tensor& GradientReduction::ErrorsOf(int unit, const Hop& hop) {
  at::Tensor& errors = errors_[{unit, hop.narrow}];
  if (!errors.defined()) {
    errors = at::zeros({plan_.Held(unit, hop.narrow).count},
                       c10::TensorOptions(at::kBFloat16).device(device_));
  }
  return errors;
}

const Hop* GradientReduction::LastHop() const {
  const Level level = plan_.map().gradients.level;
  std::vector<const Hop*> hops = exchange_.Path(Level::kPool, level);
  if (hops.empty()) hops = exchange_.Path(level, Level::kRank);
  return hops.empty() ? nullptr : hops.front();
}

absl::Status GradientReduction::CollectErrors(int unit) {
  if (!feedback_) return absl::OkStatus();
  const ElementRange all = plan_.Held(unit, Level::kRank), owned = plan_.owned(unit);
  const at::Tensor sum = at::zeros({all.count}, c10::TensorOptions(at::kFloat).device(device_));
  for (const auto& [key, errors] : errors_) {
    if (key.first != unit) continue;
    const ElementRange held = plan_.Held(unit, key.second);
    sum.narrow(0, held.first, held.count).add_(errors);
  }
  std::vector<const Hop*> hops = exchange_.Path(Level::kPool, Level::kRank);
  std::reverse(hops.begin(), hops.end());
  LH_RETURN_IF_ERROR(ReduceFloats(unit, hops, sum, 0));
  // In the form that SpreadErrors restores.
  owed_[unit] = sum.narrow(0, owned.first, owned.count).to(at::kBFloat16).to(at::kFloat).cpu();
  return absl::OkStatus();
}

// The whole error feedback goes to the last hop: for each owner, the rank after it takes it over,
// since that rank codes values for the owner in the next reduction.
absl::Status GradientReduction::SpreadErrors(int unit) {
  const Hop* const hop = LastHop();
  if (!feedback_ || hop == nullptr) return absl::OkStatus();
  std::erase_if(errors_, [&](const auto& entry) { return entry.first.first == unit; });
  const auto ranks = static_cast<int>(hop->ranks.size());
  const int own = static_cast<int>(absl::c_find(hop->ranks, plan_.rank()) - hop->ranks.begin());
  const int before = hop->ranks[(own + ranks - 1) % ranks];
  const ElementRange given = plan_.owned(unit), taken = plan_.Held(unit, Level::kPool, before);
  constexpr int64_t kSize = sizeof(at::BFloat16);
  const c10::TensorOptions options = c10::TensorOptions(at::kBFloat16).device(device_);
  const at::Tensor from = at::zeros({given.count}, options), to = at::zeros({taken.count}, options);
  if (owed_[unit].defined()) from.copy_(owed_[unit]);
  std::vector<Part> sends(ranks), receives(ranks);
  sends[(own + 1) % ranks].size = given.count * kSize;
  receives[(own + ranks - 1) % ranks].size = taken.count * kSize;
  LH_RETURN_IF_ERROR(
      exchange_.AllToAll(*hop, from.view(at::kByte), sends, to.view(at::kByte), receives, {}));
  const ElementRange held = plan_.Held(unit, hop->narrow);
  ErrorsOf(unit, *hop).narrow(0, taken.first - held.first, taken.count).copy_(to);
  return absl::OkStatus();
}

absl::Status GradientReduction::Spread(int unit, const at::Tensor& flat, int64_t first,
                                       Level narrow) {
  if (computed_.empty()) {
    return GatherFloats(exchange_, plan_, unit, flat, first, Level::kPool, narrow, Use::kGradient);
  }
  if (exchange_.Path(Level::kPool, narrow).empty()) return absl::OkStatus();
  const UnitCode& code = *computed_[unit];
  const UnitValues values{.flat = flat, .first = first};
  const at::Tensor coded = MakeBytes(code.bytes(), device_);
  const Topology& topology = plan_.topology();
  code.Encode(topology.Pieces(Level::kPool, plan_.rank()), values, coded, 0, {}, loss_);
  LH_RETURN_IF_ERROR(
      GatherCoded(exchange_, plan_, code, coded, Level::kPool, narrow, Use::kGradient));
  // Codes this rank's own piece, too: all ranks that hold it must have the same values.
  code.Decode(topology.Pieces(narrow, plan_.rank()), coded, 0, values);
  return absl::OkStatus();
}

int64_t GradientReduction::kept_bytes() const {
  int64_t bytes = 0;
  for (const auto& [key, error] : errors_) bytes += static_cast<int64_t>(error.nbytes());
  return bytes;
}

}  // namespace longhaul
