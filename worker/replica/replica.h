// What the exchange (worker/session) needs of the thing that trains: one rank's part of a pool's
// DiLoCo replica. The session never sees tensors, devices or collectives; the trainer never sees
// the coordinator.
//
// Implementations: TorchReplica (worker/trainer: a real model), SyntheticReplica (this folder: adds
// a constant each step; needs no framework, and serves as documentation).
//
// Used from one thread, the training thread. Every rank of a pool calls the collective methods in
// the same order. All methods may block. Errors: UNAVAILABLE or DEADLINE_EXCEEDED (a peer rank is
// gone or stands still), CANCELLED (it has ended in peace), INTERNAL (framework).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/named_value.h"
#include "common/layout/fragment_layout.h"
#include "common/layout/model_layout.h"

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

  // values[i] of every rank, by rank: for small agreements. Every rank gives the same count.
  // Collective.
  virtual absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) = 0;
};

}  // namespace longhaul
