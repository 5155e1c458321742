#include "worker/engine/compute_weights.h"

#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/engine/unit_gather.h"

namespace longhaul {
namespace {

// A leaf of its own (not a view, which autograd would tie to a buffer's history) on a storage.
at::Tensor MakeLeaf(const c10::Storage& storage, const c10::TensorOptions& options, int64_t offset,
                    const TensorLayout& tensor) {
  std::vector<int64_t> strides(tensor.shape.size(), 1);
  for (size_t d = tensor.shape.size() - 1; d > 0; --d)
    strides[d - 1] = strides[d] * tensor.shape[d];
  at::Tensor leaf = at::empty({0}, options);
  leaf.set_(storage, offset, tensor.shape, strides);
  return leaf.requires_grad_();
}

void Point(const c10::Storage& storage, const at::Tensor& memory, at::Device device) {
  void* const data = memory.defined() ? memory.data_ptr() : nullptr;
  storage.set_data_ptr_noswap(at::DataPtr(data, device));
}

int64_t BytesOf(const UnitValues& values) {
  return static_cast<int64_t>(values.flat.nbytes() +
                              (values.vectors.defined() ? values.vectors.nbytes() : 0));
}

}  // namespace

ComputeWeights::ComputeWeights(const ModelLayout& layout, const ShardPlan& plan,
                               PoolExchange& exchange, at::Device device, at::ScalarType compute)
    : layout_(layout),
      plan_(plan),
      exchange_(exchange),
      device_(device),
      compute_(compute),
      units_(layout.units.size()) {
  const PartitionMap& map = plan.map();
  const int computed_bits = IsFloat() ? 32 : 16;
  for (int i = 0; i < static_cast<int>(units_.size()); ++i) {
    Unit& unit = units_[i];
    const UnitLayout& unit_layout = layout.units[i];
    const ElementRange kept = plan.Held(i, map.weights.level), held = plan.Held(i, map.optimizer);
    unit.kept = MakeValues(unit_layout, kept);
    unit.master = IsFloat()
                      ? unit.kept.flat.narrow(0, held.first - kept.first, held.count)
                      : at::zeros({held.count}, c10::TensorOptions(at::kFloat).device(device));
    const auto code = [&](int bits) {
      return std::make_unique<UnitCode>(unit_layout, plan.pieces(i),
                                        bits == 0 ? computed_bits : bits);
    };
    if (!IsFloat()) unit.computed = code(0);
    if (split()) unit.wire = code(map.weights.bits);
    if (map.secondary.has_value()) {
      unit.rest = code(map.secondary->bits);
      const PieceRange pieces = plan.topology().Pieces(map.secondary->level, plan.rank());
      unit.secondary =
          at::empty({unit.rest->PartOf(pieces).size}, c10::TensorOptions(at::kByte).device(device));
    }
    MakeLeaves(unit_layout, unit);
  }
}

UnitValues ComputeWeights::MakeValues(const UnitLayout& layout, const ElementRange& range) const {
  const auto options = c10::TensorOptions().device(device_);
  UnitValues values{.flat = at::zeros({range.count}, options.dtype(compute_)),
                    .first = range.first};
  if (!IsFloat()) values.vectors = at::zeros({VectorElements(layout)}, options.dtype(at::kFloat));
  return values;
}

void ComputeWeights::MakeLeaves(const UnitLayout& layout, Unit& unit) {
  // Where weights are split, this memory is given back at once, and the storages stay.
  const UnitValues memory = split() ? MakeValues(layout, {0, layout.elements}) : unit.kept;
  unit.flat = memory.flat.storage();
  if (memory.vectors.defined()) unit.vectors = memory.vectors.storage();
  int64_t vectors = 0;
  for (const TensorLayout& tensor : layout.tensors) {
    const bool vector = tensor.shape.size() < 2;
    unit.leaves.push_back(vector && memory.vectors.defined()
                              ? MakeLeaf(unit.vectors, memory.vectors.options(), vectors, tensor)
                              : MakeLeaf(unit.flat, memory.flat.options(), tensor.offset, tensor));
    if (vector) vectors += tensor.elements;
  }
  if (!split()) return;
  Point(unit.flat, {}, device_);
  if (unit.vectors) Point(unit.vectors, {}, device_);
}

at::Tensor ComputeWeights::Master(int unit, const ElementRange& range) const {
  return units_[unit].master.narrow(0, range.first - plan_.Held(unit, plan_.map().optimizer).first,
                                    range.count);
}

absl::Status ComputeWeights::SpreadMasters(int unit) {
  return GatherFloats(exchange_, plan_, unit, units_[unit].master,
                      plan_.Held(unit, plan_.map().optimizer).first, Level::kPool,
                      plan_.map().optimizer, Use::kRefresh);
}

absl::Status ComputeWeights::Refresh(int unit) {
  Unit& u = units_[unit];
  ++u.version;
  const Level masters = plan_.map().optimizer, weights = plan_.map().weights.level;
  if (IsFloat()) {
    return GatherFloats(exchange_, plan_, unit, u.kept.flat, u.kept.first, masters, weights,
                        Use::kRefresh);
  }
  const PieceRange held = plan_.topology().Pieces(masters, plan_.rank());
  const UnitValues master{.flat = u.master, .first = plan_.Held(unit, masters).first};
  const at::Tensor coded = Scratch(*u.computed);
  LH_RETURN_IF_ERROR(u.computed->Encode(held, master, coded, 0, {}, loss_));
  LH_RETURN_IF_ERROR(
      GatherCoded(exchange_, plan_, *u.computed, coded, masters, weights, Use::kRefresh));
  u.computed->Decode(plan_.topology().Pieces(weights, plan_.rank()), coded, 0, u.kept);
  return absl::OkStatus();
}

at::Tensor ComputeWeights::Scratch(const UnitCode& code) {
  if (!scratch_.defined() || scratch_.numel() < code.bytes())
    scratch_ = at::empty({code.bytes()}, c10::TensorOptions(at::kByte).device(device_));
  return scratch_.narrow(0, 0, code.bytes());
}

void ComputeWeights::Open(int unit) {
  Unit& u = units_[unit];
  LH_CHECK(split() && !u.whole.flat.defined(), "a unit is opened twice");
  std::vector<UnitValues>& free = free_[SizeOf(unit)];
  if (free.empty()) {
    u.whole = MakeValues(layout_.units[unit], {0, layout_.units[unit].elements});
  } else {
    u.whole = std::move(free.back());
    free.pop_back();
  }
  Point(u.flat, u.whole.flat, device_);
  if (u.vectors) Point(u.vectors, u.whole.vectors, device_);
}

void ComputeWeights::Close(int unit) {
  Unit& u = units_[unit];
  LH_CHECK(u.whole.flat.defined(), "a unit is closed that is not open");
  Point(u.flat, {}, device_);
  if (u.vectors) Point(u.vectors, {}, device_);
  free_[SizeOf(unit)].push_back(std::exchange(u.whole, {}));
}

absl::Status ComputeWeights::Gather(int unit, Pass pass) {
  Unit& u = units_[unit];
  const PieceRange all{0, plan_.topology().ranks()};
  const auto pieces = [&](Level level) { return plan_.topology().Pieces(level, plan_.rank()); };
  const auto own_part = [&](const UnitCode& code, const at::Tensor& coded, Level level) {
    const Part part = code.PartOf(pieces(level));
    return coded.narrow(0, part.offset, part.size);
  };
  const auto& secondary = plan_.map().secondary;
  const Level kept = plan_.map().weights.level;
  if (pass == Pass::kBackward && secondary.has_value()) {
    if (u.secondary_version != u.version) {
      return absl::InternalError(
          absl::StrFormat("the secondary copy of %s is of version %d of its weights, not %d",
                          layout_.units[unit].name, u.secondary_version, u.version));
    }
    const at::Tensor coded = Scratch(*u.rest);
    own_part(*u.rest, coded, secondary->level).copy_(u.secondary);
    LH_RETURN_IF_ERROR(GatherCoded(exchange_, plan_, *u.rest, coded, secondary->level, Level::kRank,
                                   Use::kBackward));
    u.rest->Decode(all, coded, 0, u.whole);
    return absl::OkStatus();
  }
  const Use use = pass == Pass::kBackward ? Use::kBackward : Use::kForward;
  const bool raw = IsFloat() && u.wire->bits() == 32;
  at::Tensor coded;
  if (raw) {
    u.whole.flat.narrow(0, u.kept.first, u.kept.flat.numel()).copy_(u.kept.flat);
    LH_RETURN_IF_ERROR(
        GatherFloats(exchange_, plan_, unit, u.whole.flat, 0, kept, Level::kRank, use));
  } else {
    coded = Scratch(*u.wire);
    LH_RETURN_IF_ERROR(u.wire->Encode(pieces(kept), u.kept, coded, 0, {}, loss_));
    LH_RETURN_IF_ERROR(GatherCoded(exchange_, plan_, *u.wire, coded, kept, Level::kRank, use));
    u.wire->Decode(all, coded, 0, u.whole);
  }
  if (pass != Pass::kForward || !secondary.has_value()) return absl::OkStatus();
  u.secondary_version = u.version;
  const PieceRange rests = pieces(secondary->level);
  if (!raw && u.rest->bits() == u.wire->bits()) {
    u.secondary.copy_(own_part(*u.wire, coded, secondary->level));
    return absl::OkStatus();
  }
  return u.rest->Encode(rests, u.whole, u.secondary, rests.first, {}, loss_);
}

std::vector<at::Tensor> ComputeWeights::Leaves(int unit,
                                               absl::Span<const TensorRef> borrowed) const {
  std::vector<at::Tensor> leaves = units_[unit].leaves;
  for (const TensorRef& ref : borrowed) leaves.push_back(units_[ref.unit].leaves[ref.tensor]);
  return leaves;
}

ComputeWeights::Bytes ComputeWeights::kept_bytes() const {
  Bytes bytes;
  for (const Unit& unit : units_) {
    const auto masters = static_cast<int64_t>(unit.master.nbytes());
    bytes.masters += masters;
    bytes.weights += BytesOf(unit.kept) - (IsFloat() ? masters : 0);
    if (unit.secondary.defined()) bytes.secondary += static_cast<int64_t>(unit.secondary.nbytes());
  }
  return bytes;
}

}  // namespace longhaul
