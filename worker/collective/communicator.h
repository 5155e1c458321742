// The collective operations of a group of ranks, on raw buffers.
//
// Every rank of the group calls the same operations in the same order with the same sizes.
// Implementations: `thread` (in-process, the reference), `gloo` (TCP between processes), `nccl`
// (GPUs; see nccl_communicator.h for the differences) and `stream` (in-process, on a device's
// streams; see stream_communicator.h, also for when its calls return). Reductions of all but `nccl`
// are the rank-order sum ((r0 + r1) + r2) + ..., bit for bit the same on every rank and in every
// run.
//
// Threads: one thread at a time calls the collectives. Abort and traffic() may be called from any
// thread. Blocking: a collective returns when this rank's result is complete and its input may be
// reused, or with an error. Errors of every collective:
//   INVALID_ARGUMENT     sizes contradict each other or the timeout is not positive; nothing was
//                        exchanged
//   DEADLINE_EXCEEDED    the timeout passed; the message says what was waited for
//   UNAVAILABLE          a peer is gone or the communicator was aborted; the message names the
//                        operation and the peer
//   CANCELLED            a peer has left normally: it destroyed its communicator, or saw another
//                        one do so (`nccl` cannot tell this from UNAVAILABLE)
//   FAILED_PRECONDITION  the ranks called different operations or sizes (reported by `thread`
//                        and `stream`; with the others this ends in DEADLINE_EXCEEDED)
// DEADLINE_EXCEEDED, UNAVAILABLE and CANCELLED are marked as faults of peers (MarkPeerFault). After
// any of these but INVALID_ARGUMENT the communicator is aborted on this rank, and its peers soon
// fail with UNAVAILABLE (after CANCELLED with CANCELLED). Output buffers hold unspecified values,
// and a new group must be made.
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
  // From the call to its return. There is no default, since a wait must have a bound.
  absl::Duration timeout = absl::ZeroDuration();
  // `nccl`, `stream`: the operation runs on this stream (cudaStream_t), after the work that is
  // queued there. Null: on a stream of the communicator; then the caller has waited for the work
  // that fills the buffers. Buffers are device memory. The other implementations ignore it.
  void* stream = nullptr;
};

// Payload that this rank has exchanged with others since the communicator was made. It is that of
// the direct algorithm (each byte is sent once, from its owner to its reader), whatever the
// implementation really sends. A barrier and a Split are operations without payload, whatever they
// exchange.
struct Traffic {
  int64_t sent_bytes = 0;
  int64_t received_bytes = 0;
  int64_t operations = 0;
};

// Hears of operations, and chooses their timeouts. Called on the thread of the operation.
class CollectiveWatch {
 public:
  virtual ~CollectiveWatch() = default;
  // Returns the timeout of the operation that begins now.
  virtual absl::Duration BeginCollective() = 0;
  virtual void EndCollective() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // data = sum over ranks of data, on every rank. The double version is for norms and counters.
  virtual absl::Status AllReduceSum(absl::Span<float> data, const CallOptions& options) = 0;
  virtual absl::Status AllReduceSum(absl::Span<double> data, const CallOptions& options) = 0;

  // output = the sum over ranks of this rank's part of `input`. The parts of `input` have
  // counts[0], counts[1], ... elements and follow each other. `output` may be this rank's own part
  // of `input`; otherwise they must not overlap.
  virtual absl::Status ReduceScatterSum(absl::Span<const float> input,
                                        absl::Span<const int64_t> counts, absl::Span<float> output,
                                        const CallOptions& options) = 0;

  // output[parts[r]] = the input of rank r, for every r. Parts are in bytes, must not overlap, and
  // are the same on every rank. `input` may be this rank's own part of `output`; otherwise they
  // must not overlap.
  virtual absl::Status AllGather(absl::Span<const std::byte> input, absl::Span<const Part> parts,
                                 absl::Span<std::byte> output, const CallOptions& options) = 0;

  // data = the data of rank `root`.
  virtual absl::Status Broadcast(absl::Span<std::byte> data, int root,
                                 const CallOptions& options) = 0;

  // output[receive_parts[r]] = input[send_parts[this rank]] of rank r, for every r. Parts are in
  // bytes. rank a's send_parts[b].size equals rank b's receive_parts[a].size. `input` and `output`
  // must not overlap.
  virtual absl::Status AllToAll(absl::Span<const std::byte> input,
                                absl::Span<const Part> send_parts, absl::Span<std::byte> output,
                                absl::Span<const Part> receive_parts,
                                const CallOptions& options) = 0;

  // Returns when every rank has called it.
  virtual absl::Status Barrier(const CallOptions& options) = 0;

  // Makes a communicator of some ranks of this one: `members`, which are numbered in their order.
  // It is a collective of this communicator: every rank calls it with the members of its own group,
  // including itself, and all ranks of a group give the same members. The result has its own
  // connections and may outlive this one. Abort of one does not affect the other. Takes at most
  // twice the timeout. Also
  //   INVALID_ARGUMENT  this rank is not among the members, or one of them is not a rank of this
  //                     communicator, or is named twice; nothing was exchanged
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::Span<const int> members,
                                                              const CallOptions& options) = 0;

  // Wakes the operation in progress, if any. It and all later ones return UNAVAILABLE with
  // `reason`; the first reason stays. Peers see the same as if this rank had gone.
  virtual void Abort(absl::string_view reason) = 0;

  virtual Traffic traffic() const = 0;

  // `watch` outlives the object and all that Split makes of it from now on, which have it, too; its
  // timeouts replace those of CallOptions. Not during an operation.
  virtual void SetWatch(CollectiveWatch* watch) = 0;
};

}  // namespace longhaul
