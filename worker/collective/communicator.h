// The collective operations of a group of ranks, on raw buffers.
//
// Every rank of the group calls the same operations in the same order with the same sizes.
// Implementations: `thread` (in-process, the reference), `gloo` (TCP between processes) and `nccl`
// (GPUs; see nccl_communicator.h for what differs). Reductions of `thread` and `gloo` are the
// rank-order sum ((r0 + r1) + r2) + ..., bit for bit the same on every rank and in every run.
//
// Threads: one thread at a time calls the collectives; Abort and traffic() may be called from any
// thread. Blocking: a collective returns when this rank's result is complete and its input may be
// reused, or with an error. Errors of every collective:
//   INVALID_ARGUMENT     sizes contradict each other or the timeout is not positive; nothing was
//                        exchanged
//   DEADLINE_EXCEEDED    the timeout passed; the message says what was waited for
//   UNAVAILABLE          a peer is gone or the communicator was aborted; the message names the
//                        operation and the peer
//   CANCELLED            a peer has left in peace: it destroyed its communicator, or saw another one
//                        do so (`nccl` cannot tell this from UNAVAILABLE)
//   FAILED_PRECONDITION  the ranks called different operations or sizes (reported by `thread`
//                        alone: elsewhere this ends in DEADLINE_EXCEEDED)
// After any of these but INVALID_ARGUMENT the communicator is aborted on this rank, its peers soon
// fail with UNAVAILABLE (after CANCELLED with CANCELLED), output buffers hold unspecified values,
// and the group has to be made anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collective/parts.h"

namespace longhaul {

struct CallOptions {
  // From the call to its return. There is no default: a wait without a bound is a mistake.
  absl::Duration timeout = absl::ZeroDuration();
  // `nccl`: the cudaStream_t behind whose queued work the operation runs; null: one of the
  // communicator's own, and the caller has waited for what fills the buffers. Buffers are device
  // memory. The others ignore it.
  void* stream = nullptr;
};

// Payload that this rank exchanged with others since the communicator was made, by the direct
// algorithm (each byte crosses once from its owner to its reader), whatever the implementation
// sends underneath.
struct Traffic {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t operations = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // data = sum over ranks of data, on every rank. The double version is for norms and counters.
  virtual absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) = 0;
  virtual absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) = 0;

  // output = the sum over ranks of this rank's part of `input`, whose parts of counts[0],
  // counts[1], ... elements follow each other. `output` may be this rank's own part of `input`,
  // else they must not overlap.
  virtual absl::Status ReduceScatterSum(absl::Span<const float> input,
                                        absl::Span<const int64_t> counts, absl::Span<float> output,
                                        const CallOptions& options) = 0;

  // output[parts[r]] = the input of rank r, for every r; parts are in bytes, must not overlap, and
  // are the same on every rank. `input` may be this rank's own part of `output`, else they must not
  // overlap.
  virtual absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                                 absl::Span<std::byte> output, const CallOptions& options) = 0;

  // data = the data of rank `root`.
  virtual absl::Status Broadcast(absl::Span<std::byte> data, int root,
                                 const CallOptions& options) = 0;

  // output[receive_parts[r]] = input[send_parts[this rank]] of rank r, for every r. Parts are in
  // bytes; rank a's send_parts[b].size equals rank b's receive_parts[a].size. `input` and `output`
  // must not overlap.
  virtual absl::Status AllToAll(absl::Span<const std::byte> input,
                                absl::Span<const Part> send_parts, absl::Span<std::byte> output,
                                absl::Span<const Part> receive_parts,
                                const CallOptions& options) = 0;

  // Returns once every rank has called it.
  virtual absl::Status Barrier(const CallOptions& options) = 0;

  // A communicator of some ranks of this one: `members`, which are numbered in their order. A
  // collective of this one: every rank calls it, each with the members of its own group, itself
  // among them, and all of a group with the same. The result has connections of its own and may
  // outlive this one; neither's Abort is the other's. Takes at most twice the timeout. Also
  //   INVALID_ARGUMENT  this rank is not among the members, or one of them is not a rank of this
  //                     communicator, or is named twice; nothing was exchanged
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                              const CallOptions& options) = 0;

  // Wakes the operation in progress, if any; it and all later ones return UNAVAILABLE with
  // `reason`. The first reason stays. Peers notice as if this rank had gone.
  virtual void Abort(absl::string_view reason) = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace longhaul
