// A model's parameters: the float32 masters that this rank updates, and the weights that the model
// computes with, made of them. Where the weights are split, a rank keeps its part of each unit and
// gathers the whole before a use; what autograd sees are leaves that live on, whose memory comes
// with a gather and goes with a release.
//
// When computing in float32 the kept weights contain the masters. When computing in bf16, matrices
// are kept and gathered in bf16 beside float32 masters; vectors compute in float32.
//
// Masters, and with them the kept weights, may rest in host memory (WeightPlacement): what a gather
// reads of them is brought to the device from Open on. Masters are then apart from kept weights that
// are not in host memory too.
//
// Versions: a unit's kept weights count up when they change. The secondary copy carries the version
// of the weights that it was made of, and cannot be read once they are newer.
//
// Threads: Refresh, Gather and SpreadMasters are collective and run on the engine's queue of
// collectives; everything else is called by the thread that computes, for units on which no
// collective is under way. Throws as torch does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/layout/model_layout.h"
#include "worker/engine/placed_tensor.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/unit_code.h"
#include "worker/model/model.h"

namespace longhaul {

// What a gather is for.
enum class Pass { kForward, kBackward, kEvaluation };

class ComputeWeights {
 public:
  // `compute`: kFloat or kBFloat16. Values begin as zeros. All arguments outlive the object.
  ComputeWeights(const ModelLayout& layout, const ShardPlan& plan, PoolExchange& exchange,
                 at::Device device, at::ScalarType compute, const WeightPlacement& placement = {},
                 const SegmentKernels* kernels = nullptr);

  // --- Masters.

  // float32: what this rank holds of the optimizer's level.
  const at::Tensor& master(int unit) const { return units_[unit].master; }
  // A part of it; `range` is of the unit.
  at::Tensor Master(int unit, const ElementRange& range) const;
  // Gives every rank that holds a master what its owner has.
  absl::Status SpreadMasters(int unit);
  // Where the optimizer leaves the weights of its masters, bf16; a part of the kept weights.
  // Undefined when computing in float32, and where the kept weights rest in host memory.
  at::Tensor Shadow(int unit, const ElementRange& range) const;
  // Makes the kept weights of masters that changed. kShadow: Shadow, where there is one, has them
  // already.
  enum class From { kMasters, kShadow };
  absl::Status Refresh(int unit, From from = From::kMasters);

  // --- Weights in use.

  bool split() const { return plan_.map().weights.level != Level::kRank; }
  // Memory for the whole unit; before Gather, which is for the same pass. Not needed where weights are
  // not split.
  void Open(int unit, Pass pass = Pass::kForward);
  // Fills it: forward and evaluation from the kept weights, backward from the secondary copy, if
  // there is one. Forward leaves the secondary copy behind. INTERNAL: that copy is stale.
  absl::Status Gather(int unit, Pass pass);
  // Gives the memory back.
  void Close(int unit);
  // What a unit's forward takes: its own tensors, then the borrowed ones. Their units are open and
  // gathered.
  std::vector<at::Tensor> Leaves(int unit, absl::Span<const TensorRef> borrowed) const;

  // --- What it costs.

  // Of state that stays between two uses, in bytes. Masters inside the kept weights count as masters.
  struct Bytes {
    int64_t weights = 0, secondary = 0, masters = 0;
    int64_t host = 0;  // Of them, in host memory for want of the device's.
  };
  Bytes kept_bytes() const;
  // Of coding weights.
  CodingLoss& loss() { return loss_; }

 private:
  struct Unit {
    at::Tensor master;
    UnitValues kept;       // Where weights are not split, this is also what leaves lie in.
    UnitValues whole;      // Memory of the gathered unit. Undefined: closed.
    at::Tensor secondary;  // Coded.
    int64_t version = 0, secondary_version = -1;
    // Where kept weights rest in host memory: from Open to Close, what a gather reads of them.
    UnitValues staged;
    struct Fetch {
      std::unique_ptr<PlacedBuffer> from, to;
    };
    std::vector<Fetch> fetches;
    MoveToken fetched;
    c10::Storage flat, vectors;      // Of the leaves.
    std::vector<at::Tensor> leaves;  // By tensor.
    // Codes: exact, when computing in bf16; weights.bits, where they are split; secondary.bits.
    std::unique_ptr<UnitCode> computed, wire, rest;
  };

  // Where not in host memory, in the device's; `staging`: in the arena that copies go to.
  enum class Memory { kHost, kDevice, kStaging };
  UnitValues MakeValues(const UnitLayout& layout, const ElementRange& range,
                        Memory memory = Memory::kDevice) const;
  at::Tensor Zeros(int64_t elements, at::ScalarType type, Memory memory) const;
  bool HasShadow() const { return !IsFloat() && !placement_.weights; }
  // Kept weights set out for the device.
  void Fetch(int unit);
  // What a gather reads: waits for it.
  absl::StatusOr<const UnitValues*> Fetched(Unit& unit);
  void MakeLeaves(const UnitLayout& layout, Unit& unit);
  // Of this rank's masters, to the kept weights.
  void CopyVectors(int unit);
  // Room for a coded unit, on the queue's thread.
  at::Tensor Scratch(const UnitCode& code);
  // Units of one size share memory.
  using Size = std::pair<int64_t, int64_t>;  // Elements; of them, those of vectors.
  Size SizeOf(int unit) const {
    return {layout_.units[unit].elements, VectorElements(layout_.units[unit])};
  }
  bool IsFloat() const { return compute_ == at::kFloat; }

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  PoolExchange& exchange_;
  const at::Device device_;
  const at::ScalarType compute_;
  const WeightPlacement placement_;
  std::vector<Unit> units_;
  std::map<Size, std::vector<UnitValues>> free_;
  std::map<std::pair<int64_t, int64_t>, std::vector<UnitValues>> free_staged_;  // By kept elements.
  at::Tensor scratch_;
  CodingLoss loss_;
};

}  // namespace longhaul
