// The interface between training and the exchange (worker/session): one rank's part of a pool's
// DiLoCo replica. The session never sees tensors, devices or collectives; the trainer never sees
// the coordinator.
//
// Implementations: TorchReplica (worker/trainer: a real model), SyntheticReplica (this folder: adds
// a constant each step; needs no framework, and serves as documentation).
//
// After a step the ranks of a pool may hold different parameters (local steps of an inner
// optimizer), until Settle. Before parameters are read, written or evaluated, Settle must be
// called, with no step in between.
//
// Called from one thread, the training thread. Every rank of a pool calls the collective methods in
// the same order. All methods may block; an implementation bounds the wait for its peers. Errors:
// UNAVAILABLE or DEADLINE_EXCEEDED (a peer rank is gone or makes no progress), CANCELLED (a peer
// left normally), INTERNAL (framework).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/layout/fragment_layout.h"
#include "common/layout/model_layout.h"
#include "worker/replica/inner_state.h"

namespace longhaul {

// Bytes that this rank received from other ranks of its pool: from the other rank of its pair, from
// other pairs of its node, from other nodes.
struct InPoolBytes {
  int64_t pair = 0, node = 0, pool = 0;
  InPoolBytes& operator+=(const InPoolBytes& other) {
    pair += other.pair;
    node += other.node;
    pool += other.pool;
    return *this;
  }
};
// By use: weights gathered for forward or evaluation, weights gathered for backward, gradients,
// weights after updates and merges.
struct InPoolTraffic {
  InPoolBytes forward, backward, gradient, refresh;
  InPoolTraffic& operator+=(const InPoolTraffic& other) {
    forward += other.forward;
    backward += other.backward;
    gradient += other.gradient;
    refresh += other.refresh;
    return *this;
  }
};

struct StepStats {
  // Mean cross-entropy over the pool's targets of this step on which the loss is, nats a token.
  double loss = 0;
  // Of the whole pool.
  int64_t tokens = 0;
  // Those of them on which the loss is, if it is not on all. Otherwise 0.
  int64_t target_tokens = 0;
  // L2 norm before clipping.
  double gradient_norm = 0;
  double learning_rate = 0;
  // The gradient was not finite: nothing was updated.
  bool skipped = false;
  // Forward, backward, in-pool collectives, inner optimizer.
  double compute_seconds = 0;
  // Since the previous step.
  InPoolTraffic received;
  // Normalized mean squared error of the weights and gradients that were quantized in this step. 0:
  // none were.
  double weights_nmse = 0, gradients_nmse = 0;
};

struct EvalStats {
  // Mean cross-entropy over held-out tokens of the whole pool, nats a token: over `tokens`, those
  // on which the loss is.
  double loss = 0;
  int64_t tokens = 0;
  // All measurements by name, `loss` included.
  std::vector<NamedValue> metrics;
};

class Replica {
 public:
  virtual ~Replica() = default;

  virtual const ModelLayout& layout() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // One line for the log: the device, the precision and the like. May be empty.
  virtual std::string Describe() const { return {}; }
  // See DataSummary.features of job.proto. Empty: the data is no graph.
  virtual std::string DescribeFeatures() const { return {}; }
  // The blocks of a unit that this rank owns. Every block has exactly one owner.
  virtual BlockRange OwnedBlocks(int unit) const {
    return longhaul::OwnedBlocks(layout().units[unit].elements, rank(), ranks());
  }

  // Runs inner step `step` (1-based). Data and learning rate depend on the step number alone, so a
  // replica may begin at any step. Collective.
  virtual absl::StatusOr<StepStats> Step(int64_t step) = 0;

  // Makes all ranks hold the same parameters. Does nothing if they do. Returns the bytes received
  // for it. Collective.
  virtual absl::StatusOr<InPoolTraffic> Settle() { return InPoolTraffic(); }
  // Whether the ranks hold the same parameters. All ranks give the same answer.
  virtual bool settled() const { return true; }

  // Copy the live fp32 (master) parameters [offset, offset + size) of a unit out or in. The
  // elements must lie in blocks that this rank owns. Local.
  virtual absl::Status Read(int unit, int64_t offset, absl::Span<float> out) = 0;
  virtual absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) = 0;

  // The address of this rank's live parameters of a unit, from element `offset` on, which it owns.
  // It is memory of a CUDA device, and stays valid as long as the replica lives. Steps change it on
  // the device's default stream, so a copy that is enqueued there sees the result of all steps so
  // far; nobody needs to wait. Null: the parameters do not lie on such a device. Thread-safe.
  virtual const float* DeviceParameters(int unit, int64_t offset) const { return nullptr; }

  // Sends the owned blocks of these units to the other ranks, after Write. Collective.
  virtual absl::Status Publish(absl::Span<const int> units) = 0;

  // The loss of the live parameters on the held-out data. Changes nothing. Collective.
  virtual absl::StatusOr<EvalStats> Evaluate() = 0;

  // At the end: the metrics of the live parameters on the test data, with names that begin with
  // "test_"; "test_examples" is how many examples they are the means of. Empty: there is no such
  // data. Collective.
  virtual absl::StatusOr<std::vector<NamedValue>> EvaluateTest() {
    return std::vector<NamedValue>();
  }
  // An evaluation takes about as long as so many steps, or less, if that does not follow from its
  // number of batches.
  virtual int64_t EvaluationSteps() const { return 1; }

  // --- Evaluation beside training. Optional: UNIMPLEMENTED by default.

  // How many evaluations may be begun before the oldest is taken. 0: the replica does not support
  // it.
  virtual int EvaluationsBeside() const { return 0; }
  // Begins to evaluate a copy of the live parameters, while the replica goes on. The result equals
  // that of Evaluate now, bit for bit. Collective.
  virtual absl::Status BeginEvaluation() {
    return absl::UnimplementedError("this replica evaluates in training's place");
  }
  // The result of the oldest evaluation that was not taken yet. Empty: some rank has not finished
  // it. With `wait`, blocks until all have. All ranks get the same answer. Collective.
  virtual absl::StatusOr<std::optional<EvalStats>> TakeEvaluation(bool wait) {
    return absl::UnimplementedError("this replica evaluates in training's place");
  }

  // --- The state of the inner optimizer, between two steps. Optional: UNIMPLEMENTED by default.

  // The slots that this rank holds of a state with this phase. Empty: the replica has no state.
  // Local.
  virtual std::vector<InnerStateSlot> InnerStateSlots(absl::Span<const NamedValue> phase) const {
    return {};
  }
  // The current phase.
  virtual std::vector<NamedValue> InnerStatePhase() const { return {}; }
  // Copies the state to host memory, and reuses the memory that `state` has from an earlier call.
  // Changes nothing in training. Training that is restored from `state` gives the same bits, except
  // that ranks share the error feedback of gradients differently (decision 021).
  // Collective, unless `alone`: then the rank leaves out what it cannot know by itself (kinds that
  // are IsOptional).
  virtual absl::Status TakeInnerState(InnerState& state, bool alone) {
    return absl::UnimplementedError("this replica has no inner state");
  }
  // Restores the state; parameters are not part of it. Slots of InnerStateSlots(phase) that are
  // IsOptional may be missing and count as zero. Parts that are not among those slots are ignored.
  // Collective.
  virtual absl::Status PutInnerState(const InnerState& state) {
    return absl::UnimplementedError("this replica has no inner state");
  }

  // The values of every rank, by rank. For small agreements. Every rank gives as many values.
  // Collective.
  virtual absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) = 0;
};

}  // namespace longhaul
