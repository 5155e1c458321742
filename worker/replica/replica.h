// What the exchange (worker/session) needs of the thing that trains: one rank's part of a pool's
// DiLoCo replica. The session never sees tensors, devices or collectives; the trainer never sees
// the coordinator.
//
// Implementations: TorchReplica (worker/trainer: a real model), SyntheticReplica (this folder: adds
// a constant each step; needs no framework, and serves as documentation).
//
// After a step the ranks of a pool may hold different parameters (local steps of an inner optimizer),
// until Settle. What reads, writes or evaluates parameters comes after Settle, with no step between.
//
// Used from one thread, the training thread. Every rank of a pool calls the collective methods in
// the same order. All methods may block. Errors: UNAVAILABLE or DEADLINE_EXCEEDED (a peer rank is
// gone or stands still), CANCELLED (it left in an orderly way), INTERNAL (framework).
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

// Bytes that this rank received from others of its pool: from its pair, from other pairs of its
// node, from other nodes.
struct InPoolBytes {
  int64_t pair = 0, node = 0, pool = 0;
  InPoolBytes& operator+=(const InPoolBytes& other) {
    pair += other.pair;
    node += other.node;
    pool += other.pool;
    return *this;
  }
};
// Weights gathered for forward or evaluation and for backward, gradients, weights after updates and
// merges.
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
  double loss = 0;           // Mean over the pool's tokens of this step, nats.
  int64_t tokens = 0;        // Of the whole pool in this step.
  double gradient_norm = 0;  // Before clipping.
  double learning_rate = 0;
  bool skipped = false;        // The gradient was not finite: nothing was updated.
  double compute_seconds = 0;  // Forward, backward, in-pool collectives, inner optimizer.
  InPoolTraffic received;      // Since the step before.
  // Of what was quantized for them in this step; 0: nothing was.
  double weights_nmse = 0, gradients_nmse = 0;
};

struct EvalStats {
  double loss = 0;  // Mean cross-entropy over held-out tokens of the whole pool, nats a token.
  int64_t tokens = 0;
  // Everything that was measured, by name; `loss` is among it.
  std::vector<NamedValue> metrics;
};

class Replica {
 public:
  virtual ~Replica() = default;

  virtual const ModelLayout& layout() const = 0;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // What it trains with, in one line for the log. Empty: nothing to say.
  virtual std::string Describe() const { return {}; }
  // Which blocks of a unit this rank owns. The ranks together own every block, each once.
  virtual BlockRange OwnedBlocks(int unit) const {
    return longhaul::OwnedBlocks(layout().units[unit].elements, rank(), ranks());
  }

  // Runs inner step `step` (1-based). The step number alone decides data and learning rate, so a
  // replica may begin at any step. Collective.
  virtual absl::StatusOr<StepStats> Step(int64_t step) = 0;

  // Makes ranks that differ hold the same parameters; else it does nothing. What was received for it.
  // Collective.
  virtual absl::StatusOr<InPoolTraffic> Settle() { return InPoolTraffic(); }
  // Whether the ranks hold the same parameters. All ranks give the same answer.
  virtual bool settled() const { return true; }

  // Copies live fp32 (master) parameters [offset, offset + size) of a unit out or in. Only elements
  // of the blocks that this rank owns. Local.
  virtual absl::Status Read(int unit, int64_t offset, absl::Span<float> out) = 0;
  virtual absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) = 0;

  // Where this rank's live parameters of a unit lie from element `offset` on, which it owns, as long
  // as the replica lives, if that is memory of a CUDA device on whose default stream they are
  // trained: whoever enqueues a copy there copies what the steps so far make of them, without
  // waiting. Null: not so. Thread-safe.
  virtual const float* DeviceParameters(int unit, int64_t offset) const { return nullptr; }

  // Makes what the ranks wrote to their blocks of these units visible to all of them. Collective.
  virtual absl::Status Publish(absl::Span<const int> units) = 0;

  // Loss of the live parameters on the held-out data. Changes nothing. Collective.
  virtual absl::StatusOr<EvalStats> Evaluate() = 0;

  // --- Evaluation beside training, of replicas that were made for it.

  // How many evaluations may be begun and not taken. 0: the replica was not made for it.
  virtual int EvaluationsBeside() const { return 0; }
  // Begins the evaluation of the live parameters as they are now: of a copy, while the replica goes
  // on. Its result is Evaluate's, bit for bit. Collective.
  virtual absl::Status BeginEvaluation() {
    return absl::UnimplementedError("this replica evaluates in training's place");
  }
  // The oldest that was begun and not taken, once it is done on all ranks: nothing if it is not yet,
  // unless `wait`. The same on every rank. Collective.
  virtual absl::StatusOr<std::optional<EvalStats>> TakeEvaluation(bool wait) {
    return absl::UnimplementedError("this replica evaluates in training's place");
  }

  // --- What the inner optimizer remembers, of replicas that remember something: between two steps.

  // What this rank holds of a state with this phase. Empty: there is no state. Local.
  virtual std::vector<InnerStateSlot> InnerStateSlots(absl::Span<const NamedValue> phase) const {
    return {};
  }
  // As it is now.
  virtual std::vector<NamedValue> InnerStatePhase() const { return {}; }
  // Copies it to host memory, into what `state` has from an earlier call. A pool that goes on has the
  // bits of one that is put back from it. Collective; but `alone`: then what this rank does not know by
  // itself (of kinds that are IsOptional) is left out.
  virtual absl::Status TakeInnerState(InnerState& state, bool alone) {
    return absl::UnimplementedError("this replica has no inner state");
  }
  // Goes on as if it were the replica that the state was taken from, but for the parameters, which
  // are not part of it. Of the slots for the state's phase those that are IsOptional may be missing:
  // nothing is owed there. Any other part is ignored. Collective.
  virtual absl::Status PutInnerState(const InnerState& state) {
    return absl::UnimplementedError("this replica has no inner state");
  }

  // values[i] of every rank, by rank: for small agreements. Every rank gives the same count.
  // Collective.
  virtual absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) = 0;
};

}  // namespace longhaul
