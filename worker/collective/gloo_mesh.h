// Point-to-point messages between the ranks of a gloo context. They can be aborted, and connections
// are watched.
//
// Once a transfer has begun, gloo does not tell its operation that the connection failed, and
// closing connections does not wake threads that wait. So every buffer in use is registered here.
// Abort marks the mesh, wakes every registered wait, and then closes all connections, by letting a
// receive of its own time out.
// A sentinel thread waits for a receive that every peer completes only at its end (a goodbye). If a
// connection fails earlier, that wait ends with an error, and the sentinel aborts the mesh. Then
// the peers see this rank's connections fail. So all ranks notice a death.
#pragma once

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
#include "worker/collective/steady_deadline.h"

namespace longhaul {

// One thread makes transfers and waits for them. Abort may be called from any thread.
class GlooMesh {
 public:
  // One message in progress. The memory stays valid until the transfer is destroyed, which must
  // happen before the mesh is destroyed.
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

  // Connects all ranks. See GlooContext::Connect for arguments and errors. The caller must run a
  // barrier next, since a connected peer may already be dead.
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Connect(int rank, int size,
                                                           const std::string& hostname,
                                                           Rendezvous& rendezvous,
                                                           absl::Duration timeout);
  // Says goodbye to the peers, unless the mesh is aborted. Blocks briefly.
  ~GlooMesh();

  int rank() const { return context_->rank; }
  int size() const { return context_->size; }

  // Start a message of `bytes` > 0 to or from `peer`. Both sides name the same slot and size.
  // Messages of one slot arrive in order. UNAVAILABLE: the mesh is aborted, or becomes so because
  // the peer is gone. CANCELLED: the same after a peer has said goodbye.
  absl::StatusOr<std::unique_ptr<Transfer>> Send(int peer, uint64_t slot, const void* data,
                                                 int64_t bytes);
  absl::StatusOr<std::unique_ptr<Transfer>> Receive(int peer, uint64_t slot, void* data,
                                                    int64_t bytes);

  // Blocks until the transfer is complete. UNAVAILABLE, CANCELLED: as above. DEADLINE_EXCEEDED: the
  // deadline passed. All errors abort the mesh and name the peer.
  absl::Status Wait(Transfer& transfer, SteadyDeadline deadline);

  // UNAVAILABLE or CANCELLED, with the reason, if the mesh is aborted.
  absl::Status status() const;

  // The first reason stays. Does nothing if already aborted. Blocks for about a millisecond.
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

  // Destroyed last, since every buffer refers to it.
  const std::unique_ptr<GlooContext> context_;

  mutable absl::Mutex mutex_;
  absl::flat_hash_set<gloo::transport::UnboundBuffer*> buffers_ ABSL_GUARDED_BY(mutex_);
  // Not OK if the mesh is aborted.
  absl::Status end_ ABSL_GUARDED_BY(mutex_);

  // By rank: not 0 if it said goodbye. A connection delivers a goodbye before its end.
  std::vector<char> said_;
  // The receives for which the sentinel waits.
  std::unique_ptr<gloo::transport::UnboundBuffer> goodbyes_;
  std::thread sentinel_;
};

}  // namespace longhaul
