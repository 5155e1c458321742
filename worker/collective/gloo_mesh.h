// Point-to-point messages between the ranks of a gloo context, made abortable and watched.
//
// gloo does not tell an operation whose transfer has begun that its connection failed, and closing
// connections does not wake those who wait. So every buffer in use is registered here: Abort marks
// the mesh, wakes every registered wait, and then closes all connections by letting a receive of
// its own time out. A sentinel thread waits for a receive that every peer satisfies only as its
// last act (a goodbye): a connection that fails before ends the wait with an error, the sentinel
// aborts the mesh, and the peers see this rank's connections fail in turn, so a death spreads to
// all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gloo/transport/unbound_buffer.h"
#include "worker/collective/gloo_context.h"
#include "worker/collective/rendezvous.h"

namespace longhaul {

// Transfers are made and waited for by one thread; Abort may be called from any.
class GlooMesh {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // One message under way. The memory stays valid until the transfer is destroyed, which must be
  // before the mesh is.
  class Transfer {
   public:
    ~Transfer();

   private:
    friend class GlooMesh;
    enum class Kind { kSend, kReceive };
    Transfer(GlooMesh* mesh, Kind kind, int peer) : mesh_(mesh), kind_(kind), peer_(peer) {}

    GlooMesh* const mesh_;
    const Kind kind_;
    const int peer_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

  // Connects all ranks: see GlooContext::Connect for arguments and errors. The caller runs a
  // barrier next, since a connected peer may already be dead.
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Connect(int rank, int size,
                                                           const std::string& hostname,
                                                           Rendezvous& rendezvous,
                                                           absl::Duration timeout);
  // Says goodbye to the peers unless the mesh is aborted. Blocks briefly.
  ~GlooMesh();

  int rank() const { return context_->rank; }
  int size() const { return context_->size; }

  // Start a message of `bytes` > 0 to or from `peer`. Both sides name the same slot and size;
  // messages of one slot arrive in order. UNAVAILABLE: the mesh is aborted, or becomes so because
  // the peer is gone. CANCELLED: the same, where a peer has said goodbye.
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, uint64_t slot, const void* data,
                                                 int64_t bytes);
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, uint64_t slot, void* data,
                                                    int64_t bytes);

  // Blocks until the transfer is complete. UNAVAILABLE, CANCELLED: as above. DEADLINE_EXCEEDED: the
  // deadline passed. All abort the mesh and name the peer.
  absl::Status Wait(Transfer& transfer, Deadline deadline);

  // UNAVAILABLE or CANCELLED with the reason once the mesh is aborted.
  absl::Status status() const;

  // The first reason stays. Does nothing when already aborted. Blocks for about a millisecond.
  void Abort(absl::string_view reason);

 private:
  explicit GlooMesh(std::unique_ptr<GlooContext> context);

  absl::StatusOr<std::unique_ptr<Transfer>> Start(Transfer::Kind kind, int peer, uint64_t slot,
                                                  void* data, int64_t bytes);
  void End(absl::Status reason);
  absl::Status Lost(int peer, absl::string_view cause);
  void WatchPeers();
  std::string FailedPeers();
  void SayGoodbye();

  // Destroyed last: every buffer refers to it.
  const std::unique_ptr<GlooContext> context_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_set<gloo::transport::UnboundBuffer*> buffers_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // Not OK: the mesh is aborted.

  // By rank, what it said: not 0 once it said goodbye. A connection delivers it before its end.
  std::vector<char> said_;
  // The receives of these that the sentinel waits for.
  std::unique_ptr<gloo::transport::UnboundBuffer> goodbyes_;
  std::thread sentinel_;
};

}  // namespace longhaul
