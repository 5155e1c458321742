#include "worker/engine/compute_weights.h"

#include <algorithm>
#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "c10/util/Exception.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/layout/backward_gathers.h"
#include "worker/engine/unit_gather.h"

namespace longhaul {
namespace {

// Makes a leaf on a storage. It is not a view, since autograd would track the history of a view's
// base.
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
                               PoolExchange& exchange, at::Device device, at::ScalarType compute,
                               const HostWeights& host_weights, const SegmentKernels* kernels)
    : layout_(layout),
      plan_(plan),
      exchange_(exchange),
      device_(device),
      compute_(compute),
      host_weights_(host_weights),
      units_(layout.units.size()) {
  LH_CHECK(!host_weights.weights || (host_weights.masters && split()),
           "weights in host memory go with masters there, and are gathered");
  LH_CHECK(!host_weights.masters || host_weights.movement != nullptr, "nothing moves");
  const PartitionMap& map = plan.map();
  const int computed_bits = IsFloat() ? 32 : 16;
  for (int i = 0; i < static_cast<int>(units_.size()); ++i) {
    Unit& unit = units_[i];
    const UnitLayout& unit_layout = layout.units[i];
    const ElementRange kept = plan.Held(i, map.weights.level), held = plan.Held(i, map.optimizer);
    unit.kept =
        MakeValues(unit_layout, kept, host_weights.weights ? Memory::kHost : Memory::kDevice);
    unit.master =
        IsFloat() && host_weights.masters == host_weights.weights
            ? unit.kept.flat.narrow(0, held.first - kept.first, held.count)
            : Zeros(held.count, at::kFloat, host_weights.masters ? Memory::kHost : Memory::kDevice);
    const auto code = [&](int bits) {
      return std::make_unique<UnitCode>(unit_layout, plan.pieces(i),
                                        bits == 0 ? computed_bits : bits, kernels);
    };
    if (!IsFloat()) unit.computed = code(0);
    if (split()) unit.wire = code(map.weights.bits);
    if (map.secondary.has_value() && GathersForBackward(layout, i)) {
      unit.rest = code(map.secondary->bits);
      const PieceRange pieces = plan.topology().Pieces(map.secondary->level, plan.rank());
      unit.secondary =
          at::empty({unit.rest->PartOf(pieces).size}, c10::TensorOptions(at::kByte).device(device));
    }
    MakeLeaves(unit_layout, unit);
  }
}

at::Tensor ComputeWeights::Zeros(int64_t elements, at::ScalarType type, Memory memory) const {
  if (memory == Memory::kDevice)
    return at::zeros({elements}, c10::TensorOptions(type).device(device_));
  return ZerosOn(*host_weights_.movement,
                 memory == Memory::kHost ? MemorySide::kHost : MemorySide::kDevice, elements, type,
                 device_, "the parameters of a unit");
}

UnitValues ComputeWeights::MakeValues(const UnitLayout& layout, const ElementRange& range,
                                      Memory memory) const {
  UnitValues values{.flat = Zeros(range.count, compute_, memory), .first = range.first};
  if (!IsFloat()) values.vectors = Zeros(VectorElements(layout), at::kFloat, memory);
  return values;
}

void ComputeWeights::MakeLeaves(const UnitLayout& layout, Unit& unit) {
  // If weights are split, this memory is freed at once; the storages stay.
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

at::Tensor ComputeWeights::Shadow(int unit, const ElementRange& range) const {
  if (!HasShadow()) return {};
  const UnitValues& kept = units_[unit].kept;
  return kept.flat.narrow(0, range.first - kept.first, range.count);
}

// From masters in host memory, which is pinned, the copies are only enqueued, here and in Refresh.
// Nothing changes masters before the next step has waited for the device, but a write, and that one
// is published by a later copy on the same stream.
void ComputeWeights::CopyVectors(int unit) {
  const Unit& u = units_[unit];
  const ElementRange held = plan_.Held(unit, plan_.map().optimizer);
  for (const KindRun& run : RunsOf(layout_.units[unit])) {
    const int64_t first = std::max(run.range.first, held.first);
    const int64_t count = std::min(run.range.end(), held.end()) - first;
    if (!run.vector || count <= 0) continue;
    u.kept.vectors.narrow(0, run.vectors_before + first - run.range.first, count)
        .copy_(u.master.narrow(0, first - held.first, count), /*non_blocking=*/true);
  }
}

absl::Status ComputeWeights::Refresh(int unit, From from) {
  Unit& u = units_[unit];
  ++u.version;
  const Level masters = plan_.map().optimizer, weights = plan_.map().weights.level;
  if (IsFloat()) {
    if (host_weights_.masters && !host_weights_.weights) {
      const ElementRange held = plan_.Held(unit, masters);
      u.kept.flat.narrow(0, held.first - u.kept.first, held.count)
          .copy_(u.master, /*non_blocking=*/true);
    }
    return GatherFloats(exchange_, plan_, unit, u.kept.flat, u.kept.first, masters, weights,
                        Use::kRefresh);
  }
  if (!HasShadow()) from = From::kMasters;
  if (from == From::kShadow) {
    CopyVectors(unit);
    if (exchange_.Path(masters, weights).empty()) return absl::OkStatus();
  }
  const PieceRange held = plan_.topology().Pieces(masters, plan_.rank());
  const UnitValues master{.flat = u.master, .first = plan_.Held(unit, masters).first};
  const at::Tensor coded = Scratch(*u.computed);
  u.computed->Encode(held, from == From::kShadow ? u.kept : master, coded, 0, {}, loss_);
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

void ComputeWeights::Open(int unit, Pass pass) {
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
  const bool own = pass != Pass::kBackward || !u.secondary.defined();
  if (host_weights_.weights && own) Fetch(unit);
}

void ComputeWeights::Fetch(int unit) {
  Unit& u = units_[unit];
  const UnitLayout& layout = layout_.units[unit];
  std::vector<UnitValues>& free = free_staged_[{u.kept.flat.numel(), VectorElements(layout)}];
  if (free.empty()) {
    u.staged = MakeValues(layout, {u.kept.first, u.kept.flat.numel()}, Memory::kStaging);
  } else {
    u.staged = std::move(free.back());
    u.staged.first = u.kept.first;
    free.pop_back();
  }
  // The device may still read the staged memory for another unit.
  const absl::StatusOr<MoveToken> before = host_weights_.movement->Fork();
  TORCH_CHECK(before.ok(), std::string(before.status().message()));
  u.fetches.clear();
  for (const auto& [from, to] :
       {std::pair{&u.kept.flat, &u.staged.flat}, {&u.kept.vectors, &u.staged.vectors}}) {
    if (!from->defined()) continue;
    Unit::Fetch& fetch = u.fetches.emplace_back();
    fetch.from = BufferOn(*from, MemorySide::kHost, layout.name);
    fetch.to = BufferOn(*to, MemorySide::kDevice, absl::StrCat("staged ", layout.name));
    fetch.from->SetVersion(u.version);
    u.fetched = host_weights_.movement->Copy(
        {Direction::kUp, MoveClass::kWeights}, {fetch.from.get(), u.version},
        {fetch.to.get(), u.version}, fetch.from->bytes(), {*before});
  }
}

absl::StatusOr<const UnitValues*> ComputeWeights::Fetched(Unit& unit) {
  if (!host_weights_.weights) return &unit.kept;
  LH_RETURN_IF_ERROR(host_weights_.movement->Wait(unit.fetched, "weights coming from host memory"));
  for (const Unit::Fetch& fetch : unit.fetches)
    LH_RETURN_IF_ERROR(Movement::Expect({fetch.to.get(), unit.version}));
  return &unit.staged;
}

void ComputeWeights::Close(int unit) {
  Unit& u = units_[unit];
  LH_CHECK(u.whole.flat.defined(), "a unit is closed that is not open");
  Point(u.flat, {}, device_);
  if (u.vectors) Point(u.vectors, {}, device_);
  free_[SizeOf(unit)].push_back(std::exchange(u.whole, {}));
  if (!u.staged.flat.defined()) return;
  // If the gather never ran, nobody has waited for the copies.
  host_weights_.movement->Wait(u.fetched, "weights that nobody wants").IgnoreError();
  u.fetches.clear();
  free_staged_[{u.kept.flat.numel(), VectorElements(layout_.units[unit])}].push_back(
      std::exchange(u.staged, {}));
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
  if (pass == Pass::kBackward && u.secondary.defined()) {
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
  LH_ASSIGN_OR_RETURN(const UnitValues* own, Fetched(u));
  at::Tensor coded;
  if (raw) {
    u.whole.flat.narrow(0, own->first, own->flat.numel()).copy_(own->flat);
    LH_RETURN_IF_ERROR(
        GatherFloats(exchange_, plan_, unit, u.whole.flat, 0, kept, Level::kRank, use));
  } else {
    coded = Scratch(*u.wire);
    u.wire->Encode(pieces(kept), *own, coded, 0, {}, loss_);
    LH_RETURN_IF_ERROR(GatherCoded(exchange_, plan_, *u.wire, coded, kept, Level::kRank, use));
    u.wire->Decode(all, coded, 0, u.whole);
  }
  if (pass != Pass::kForward || !u.secondary.defined()) return absl::OkStatus();
  u.secondary_version = u.version;
  const PieceRange rests = pieces(secondary->level);
  if (!raw && u.rest->bits() == u.wire->bits()) {
    u.secondary.copy_(own_part(*u.wire, coded, secondary->level));
    return absl::OkStatus();
  }
  u.rest->Encode(rests, u.whole, u.secondary, rests.first, {}, loss_);
  return absl::OkStatus();
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
    const bool inside = IsFloat() && host_weights_.masters == host_weights_.weights;
    const int64_t weights = BytesOf(unit.kept) - (inside ? masters : 0);
    bytes.masters += masters;
    bytes.weights += weights;
    bytes.host += (host_weights_.masters ? masters : 0) + (host_weights_.weights ? weights : 0);
    if (unit.secondary.defined()) bytes.secondary += static_cast<int64_t>(unit.secondary.nbytes());
  }
  return bytes;
}

}  // namespace longhaul
