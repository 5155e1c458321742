// The server's side of a stream of messages to one client: one write in progress, and a bounded
// queue. The object lives as long as the call, and as long as somebody else holds it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/support/server_callback.h"

namespace longhaul::coordinator {

// `Reactor`: one that writes messages to the client; a class may derive from the stream to read
// beside that. Thread-safe; never blocks.
template <typename Message, typename Reactor = grpc::ServerWriteReactor<Message>>
class OutgoingStream : public Reactor {
 public:
  // The RPC's method returns it.
  static std::shared_ptr<OutgoingStream> Open(size_t queue_max) {
    std::shared_ptr<OutgoingStream> stream(new OutgoingStream(queue_max));
    stream->self_ = stream;
    return stream;
  }

  // Does not wait for a slow client: when the queue is full, the stream ends with
  // RESOURCE_EXHAUSTED. The client may open another one.
  void Send(Message message) {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (!Enqueue(message) && !ended_)
        Close(absl::ResourceExhaustedError("the client reads the stream too slowly"));
    });
  }

  // As Send, but if there is no room or the stream has ended, it does nothing and returns false.
  bool Offer(Message message) {
    bool taken = false;
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { taken = Enqueue(message); });
    return taken;
  }

  // As Send, but first drops the messages that wait. take_over(older, newer) is called for each of
  // them, from the newest to the oldest, and may copy parts of it into the new message.
  template <typename TakeOver>
  void SendNewest(Message message, TakeOver take_over) {
    {
      absl::MutexLock lock(&mutex_);
      for (auto older = queue_.rbegin(); older != queue_.rend(); ++older)
        take_over(*older, message);
      queue_.clear();
    }
    Send(std::move(message));
  }

  // Ends the stream after the messages that wait. Later calls do nothing.
  void End(const absl::Status& status) {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (!std::exchange(ended_, true)) last_ = status;
    });
  }

  bool ended() const {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 protected:
  explicit OutgoingStream(size_t queue_max) : queue_max_(queue_max) {}
  void OnDone() override { const std::shared_ptr<OutgoingStream> end = std::move(self_); }

  std::shared_ptr<OutgoingStream> self_;  // Until the call is done.

 private:
  enum class Step { kNothing, kWrite, kFinish };

  void OnWriteDone(bool ok) override {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      writing_ = false;
      if (!ok) Close(absl::CancelledError("the client disconnected"));
    });
  }
  void OnCancel() override {
    Change([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      Close(absl::CancelledError("the client disconnected"));
    });
  }

  // Makes a change, then does what follows from it.
  template <typename Make>
  void Change(Make make) {
    Step step;
    {
      absl::MutexLock lock(&mutex_);
      make();
      step = Next();
    }
    Do(step);
  }
  bool Enqueue(Message& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ended_ || queue_.size() >= queue_max_) return false;
    queue_.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    queue_.clear();
    if (!ended_) last_ = std::move(status);
    ended_ = true;
  }
  // What the caller must do after it has released the lock, since gRPC may call back at once.
  Step Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return Step::kNothing;
    if (!queue_.empty()) {
      in_flight_ = std::move(queue_.front());
      queue_.pop_front();
      writing_ = true;
      return Step::kWrite;
    }
    if (!ended_) return Step::kNothing;
    finished_ = true;
    return Step::kFinish;
  }
  // in_flight_ and last_ do not change while their operation is under way.
  void Do(Step step) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (step == Step::kWrite) this->StartWrite(&in_flight_);
    if (step == Step::kFinish) this->Finish(ToGrpcStatus(last_));
  }

  const size_t queue_max_;
  mutable absl::Mutex mutex_;
  std::deque<Message> queue_ ABSL_GUARDED_BY(mutex_);
  Message in_flight_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
