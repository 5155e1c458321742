#include "worker/collective/gloo_mesh.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kGoodbyeSlot = ~uint64_t{0};
// Peers always have receive buffers posted, so only a stopped peer makes a goodbye wait.
constexpr milliseconds kGoodbyeWait(200);
// gloo has no wait without a limit, and a wait that expires would close the connections.
constexpr std::chrono::hours kForever(24 * 365 * 10);
// The error that gloo gives to every pending operation when one wait timed out. The thread of that
// wait reports the cause.
constexpr absl::string_view kOwnTimeout = "Application timeout";

// gloo's messages begin with a place in its source: "[pair.cc:589] ...".
absl::string_view WithoutPlace(absl::string_view what) {
  const size_t end = what.find("] ");
  return absl::StartsWith(what, "[") && end != absl::string_view::npos ? what.substr(end + 2)
                                                                       : what;
}

milliseconds TimeLeft(SteadyDeadline deadline) {
  return std::max(std::chrono::ceil<milliseconds>(deadline - SteadyDeadline::clock::now()),
                  milliseconds(1));
}

}  // namespace

GlooMesh::Transfer::~Transfer() {
  absl::MutexLock lock(&mesh_->mutex_);
  mesh_->buffers_.erase(buffer_.get());
}

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Connect(int rank, int size,
                                                            const std::string& hostname,
                                                            Rendezvous& rendezvous,
                                                            absl::Duration timeout) {
  LH_ASSIGN_OR_RETURN(auto context,
                      GlooContext::Connect(rank, size, hostname, rendezvous, timeout));
  auto mesh = absl::WrapUnique(new GlooMesh(std::move(context)));
  if (size == 1) return mesh;
  try {
    mesh->goodbyes_ = mesh->context_->createUnboundBuffer(mesh->said_.data(), size);
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) mesh->goodbyes_->recv(peer, kGoodbyeSlot, peer, 1);
    }
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("a peer left while connecting: ", error.what()));
  }
  mesh->sentinel_ = std::thread([mesh = mesh.get()] { mesh->WatchPeers(); });
  return mesh;
}

GlooMesh::GlooMesh(std::unique_ptr<GlooContext> context)
    : context_(std::move(context)), said_(context_->size) {}

GlooMesh::~GlooMesh() {
  if (!sentinel_.joinable()) return;
  if (status().ok()) SayGoodbye();
  goodbyes_->abortWaitRecv();
  sentinel_.join();
}

absl::StatusOr<std::unique_ptr<GlooMesh::Transfer>> GlooMesh::Send(int peer, uint64_t slot,
                                                                   const void* data,
                                                                   int64_t bytes) {
  return Start(Transfer::Kind::kSend, peer, slot, const_cast<void*>(data), bytes);
}

absl::StatusOr<std::unique_ptr<GlooMesh::Transfer>> GlooMesh::Receive(int peer, uint64_t slot,
                                                                      void* data, int64_t bytes) {
  return Start(Transfer::Kind::kReceive, peer, slot, data, bytes);
}

absl::StatusOr<std::unique_ptr<GlooMesh::Transfer>> GlooMesh::Start(Transfer::Kind kind, int peer,
                                                                    uint64_t slot, void* data,
                                                                    int64_t bytes) {
  auto transfer = absl::WrapUnique(new Transfer(this, kind, peer));
  try {
    transfer->buffer_ = context_->createUnboundBuffer(data, bytes);
    {
      absl::MutexLock lock(&mutex_);
      // From here on either this thread sees the abort, or the abort sees the buffer.
      LH_RETURN_IF_ERROR(end_);
      buffers_.insert(transfer->buffer_.get());
    }
    if (kind == Transfer::Kind::kSend) {
      transfer->buffer_->send(peer, slot);
    } else {
      transfer->buffer_->recv(peer, slot);
    }
  } catch (const std::exception& error) {
    return Lost(peer, error.what());
  }
  return transfer;
}

absl::Status GlooMesh::Wait(Transfer& transfer, SteadyDeadline deadline) {
  const bool sends = transfer.kind_ == Transfer::Kind::kSend;
  try {
    const bool complete = sends ? transfer.buffer_->waitSend(nullptr, TimeLeft(deadline))
                                : transfer.buffer_->waitRecv(nullptr, TimeLeft(deadline));
    if (complete) return absl::OkStatus();
    return status();
  } catch (const std::exception& error) {
    if (SteadyDeadline::clock::now() < deadline || !status().ok())
      return Lost(transfer.peer_, error.what());
  }
  const std::string message =
      absl::StrCat("deadline passed while ", sends ? "sending to" : "waiting for data from",
                   " rank ", transfer.peer_);
  Abort(message);
  return absl::DeadlineExceededError(message);
}

void GlooMesh::Abort(absl::string_view reason) {
  End(absl::UnavailableError(absl::StrCat("aborted: ", reason)));
}

void GlooMesh::End(absl::Status reason) {
  const bool in_peace = absl::IsCancelled(reason);
  {
    absl::MutexLock lock(&mutex_);
    if (!end_.ok()) return;
    end_ = std::move(reason);
    for (gloo::transport::UnboundBuffer* buffer : buffers_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }
  // The peers learn why this rank ended, and not only that a connection broke.
  if (in_peace) SayGoodbye();
  try {
    char byte;
    context_->createUnboundBuffer(&byte, 1)->waitRecv(nullptr, milliseconds(1));
  } catch (const std::exception&) {
    // The wait is expected to time out: this closes every connection.
  }
}

absl::Status GlooMesh::status() const {
  absl::MutexLock lock(&mutex_);
  return end_;
}

absl::Status GlooMesh::Lost(int peer, absl::string_view cause) {
  if (said_[peer] != 0) {
    End(absl::CancelledError(absl::StrCat("rank ", peer, " has left")));
  } else {
    Abort(absl::StrCat("lost rank ", peer, " (", WithoutPlace(cause), ")"));
  }
  return status();
}

void GlooMesh::WatchPeers() {
  try {
    for (int left = size() - 1; left > 0; --left) {
      // This mesh is being destroyed.
      if (!goodbyes_->waitRecv(nullptr, kForever)) return;
    }
  } catch (const std::exception& error) {
    if (absl::StrContains(error.what(), kOwnTimeout)) return;
    Abort(absl::StrCat("lost ", FailedPeers(), " (", WithoutPlace(error.what()), ")"));
  }
}

std::string GlooMesh::FailedPeers() {
  std::vector<std::string> failed;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && context_->HasFailed(peer)) failed.push_back(absl::StrCat("rank ", peer));
  }
  return absl::StrJoin(failed, ", ");
}

void GlooMesh::SayGoodbye() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    try {
      char goodbye = 1;
      auto buffer = context_->createUnboundBuffer(&goodbye, 1);
      buffer->send(peer, kGoodbyeSlot);
      buffer->waitSend(nullptr, kGoodbyeWait);
    } catch (const std::exception&) {
      // The peer has gone first, or it is stopped and will see the connection close.
    }
  }
}

}  // namespace longhaul
