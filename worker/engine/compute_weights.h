// A model's parameters: the float32 masters that this rank updates, and the compute weights that
// are made from them. If weights are split over ranks, a rank keeps its part of each unit and
// gathers the whole unit before a use. Autograd sees leaves that live as long as the object; their
// memory comes with a gather and is freed by Close.
//
// When computing in float32, the kept weights contain the masters. When computing in bf16, matrices
// are kept and gathered in bf16 beside float32 masters; vectors compute in float32.
//
// Masters, and with them the kept weights, may be kept in host memory (HostWeights). Open then
// begins to copy to the device what a gather reads of them. If only the masters are in host memory,
// they are not part of the kept weights.
//
// Versions: each change of a unit's kept weights counts its version up. The secondary copy has the
// version of the weights that it was made from, and cannot be read once they are newer.
//
// Threads: Refresh, Gather and SpreadMasters are collective and run on the engine's queue of
// collectives. All other methods are called by the thread that computes, for units on which no
// collective is running. Throws as torch does.
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
#include "worker/engine/movement_tensor.h"
#include "worker/engine/pool_exchange.h"
#include "worker/engine/shard_plan.h"
#include "worker/engine/unit_code.h"
#include "worker/model/model.h"

namespace longhaul {

// The pass for which weights are gathered.
enum class Pass { kForward, kBackward, kEvaluation };

class ComputeWeights {
 public:
  // `compute`: kFloat or kBFloat16. All values are zero at first. All arguments outlive the object.
  ComputeWeights(const ModelLayout& layout, const ShardPlan& plan, PoolExchange& exchange,
                 at::Device device, at::ScalarType compute, const HostWeights& host_weights = {},
                 const SegmentKernels* kernels = nullptr);

  // --- Masters.

  // float32: the part of the unit that this rank holds on the optimizer's level.
  const at::Tensor& master(int unit) const { return units_[unit].master; }
  // A part of the master. `range` is in elements of the unit.
  at::Tensor Master(int unit, const ElementRange& range) const;
  // Sends each owner's masters to every rank that holds them.
  absl::Status SpreadMasters(int unit);
  // The bf16 memory in the kept weights where the optimizer writes its updated parameters.
  // Undefined when computing in float32, and when the kept weights are in host memory.
  at::Tensor Shadow(int unit, const ElementRange& range) const;
  // Makes the kept weights from changed masters. kShadow: where there is a Shadow, it has them
  // already.
  enum class From { kMasters, kShadow };
  absl::Status Refresh(int unit, From from = From::kMasters);

  // --- Weights in use.

  bool split() const { return plan_.map().weights.level != Level::kRank; }
  // Takes memory for the whole unit. Call before Gather for the same pass. Not needed if weights
  // are not split.
  void Open(int unit, Pass pass = Pass::kForward);
  // Fills the unit. Forward and evaluation read the kept weights, backward reads the secondary copy
  // if the unit has one. Forward makes the secondary copy. INTERNAL: that copy is stale.
  absl::Status Gather(int unit, Pass pass);
  // Frees the memory of the whole unit.
  void Close(int unit);
  // The arguments of a unit's forward: its own tensors, then the borrowed ones. Their units must be
  // open and gathered.
  std::vector<at::Tensor> Leaves(int unit, absl::Span<const TensorRef> borrowed) const;

  // --- What it costs.

  // The memory of state that is kept between two uses, in bytes. Masters inside the kept weights
  // count as masters.
  struct Bytes {
    int64_t weights = 0, secondary = 0, masters = 0;
    // The part of these that is in host memory because of offloading.
    int64_t host = 0;
  };
  Bytes kept_bytes() const;
  // The errors of coding weights.
  CodingLoss& loss() { return loss_; }

 private:
  struct Unit {
    at::Tensor master;
    // If weights are not split, the leaves use this memory, too.
    UnitValues kept;
    // The memory of the gathered unit. Undefined: the unit is closed.
    UnitValues whole;
    // Coded. Undefined: backward gathers from the kept weights, or not at all.
    at::Tensor secondary;
    int64_t version = 0, secondary_version = -1;
    // If kept weights are in host memory: the copy on the device that a gather reads, from Open to
    // Close.
    UnitValues staged;
    struct Fetch {
      std::unique_ptr<VersionedBuffer> from, to;
    };
    std::vector<Fetch> fetches;
    MoveToken fetched;
    // The storage of the leaves.
    c10::Storage flat, vectors;
    // By tensor.
    std::vector<at::Tensor> leaves;
    // Codes of bf16 weights (exact); of gathered weights (weights.bits); of the secondary copy
    // (secondary.bits).
    std::unique_ptr<UnitCode> computed, wire, rest;
  };

  // kStaging: device memory that receives copies from host memory.
  enum class Memory { kHost, kDevice, kStaging };
  UnitValues MakeValues(const UnitLayout& layout, const ElementRange& range,
                        Memory memory = Memory::kDevice) const;
  at::Tensor Zeros(int64_t elements, at::ScalarType type, Memory memory) const;
  bool HasShadow() const { return !IsFloat() && !host_weights_.weights; }
  // Begins to copy kept weights to the device.
  void Fetch(int unit);
  // Waits for that copy, and returns what a gather reads.
  absl::StatusOr<const UnitValues*> Fetched(Unit& unit);
  void MakeLeaves(const UnitLayout& layout, Unit& unit);
  // Copies the vectors of this rank's masters to the kept weights.
  void CopyVectors(int unit);
  // Memory for a coded unit. Called on the queue's thread.
  at::Tensor Scratch(const UnitCode& code);
  // The elements of a unit, and how many of them belong to vectors. Units of one size share memory.
  using Size = std::pair<int64_t, int64_t>;
  Size SizeOf(int unit) const {
    return {layout_.units[unit].elements, VectorElements(layout_.units[unit])};
  }
  bool IsFloat() const { return compute_ == at::kFloat; }

  const ModelLayout& layout_;
  const ShardPlan& plan_;
  PoolExchange& exchange_;
  const at::Device device_;
  const at::ScalarType compute_;
  const HostWeights host_weights_;
  std::vector<Unit> units_;
  std::map<Size, std::vector<UnitValues>> free_;
  // By the size of the kept part.
  std::map<std::pair<int64_t, int64_t>, std::vector<UnitValues>> free_staged_;
  at::Tensor scratch_;
  CodingLoss loss_;
};

}  // namespace longhaul
