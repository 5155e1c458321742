// The chunks of a stream that a client sends, between two threads: gRPC's callbacks read (one at a
// time), and a task of the executor takes the chunks in order. Only for the reactors of such
// streams (fragment_server.h).
//
//   read -> Add -> take        gRPC's thread | the executor's
//   '--- the next read, while fewer than kHeldMax chunks are held ---'
//
// The task runs while there are chunks, so a fast taker is not woken for each of them. Between two
// chunks the task lets other streams run.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/bulk_refusals.h"
#include "common/rpc/executor.h"

namespace longhaul {

// Thread-safe; never blocks. Must not be destroyed before `end` was called, and lives as long as a
// read is in progress.
template <typename Chunk>
class ReceivedChunks {
 public:
  // Chunks that are not taken to their end: one that the task works on, one that waits.
  static constexpr int kHeldMax = 2;

  struct Steps {
    // Starts the next read. Any thread.
    std::function<void()> read;
    // Takes a chunk. An error ends the stream. On the executor; may block.
    std::function<absl::Status(Chunk)> take;
    // All chunks are taken, and reading ended well. On the executor; may block.
    std::function<absl::Status()> complete;
    // All chunks are taken, and reading ended badly. On the executor; may block. May be empty.
    std::function<void()> broken = {};
    // Ends the call, once. The object may be gone when it returns. Any thread; must not block.
    std::function<void(const absl::Status&)> end;
  };
  ReceivedChunks(Executor* executor, Steps steps)
      : executor_(*executor), steps_(std::move(steps)) {}

  // Whose tasks these are (Executor). Call it before Add.
  void SetOwner(std::string owner) { owner_ = std::move(owner); }
  // A chunk was read. The next read begins now, or when a chunk less is held.
  void Add(Chunk chunk) { Hand(std::move(chunk), std::nullopt); }
  // How reading ended: OK, or why the stream cannot go on. What was added is taken first. Only the
  // first call counts.
  void Close(const absl::Status& status) { Hand(std::nullopt, status); }
  // Ends the call at once, on this thread, unless it was closed or has ended. Nothing was added.
  void Refuse(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_ || closed_.has_value()) return;
      ended_ = true;
    }
    steps_.end(status);
  }

 private:
  void Hand(std::optional<Chunk> chunk, std::optional<absl::Status> closed) {
    bool wake, read = false;
    {
      absl::MutexLock lock(&mutex_);
      // The taker refused a chunk, or the stream stalled, while this read was in progress.
      if (ended_ || closed_.has_value()) return;
      if (chunk.has_value()) {
        chunks_.push_back(*std::move(chunk));
        read = ++held_ < kHeldMax;
        held_back_ = !read;
      }
      closed_ = std::move(closed);
      wake = !std::exchange(working_, true);
    }
    if (wake && !executor_.Submit(owner_, [this] { Work(); })) return End(TooManyBulkCalls());
    if (read) steps_.read();
  }

  // The executor's task: works until nothing is left to do. After End it must not touch the object.
  void Work() {
    while (true) {
      std::optional<Chunk> chunk;
      std::optional<absl::Status> closed;
      {
        absl::MutexLock lock(&mutex_);
        if (!chunks_.empty()) {
          chunk = std::move(chunks_.front());
          chunks_.pop_front();
        } else if (closed_.has_value()) {
          closed = closed_;
        } else {
          working_ = false;
          return;
        }
      }
      if (closed.has_value()) {
        if (!closed->ok() && steps_.broken) steps_.broken();
        return End(closed->ok() ? steps_.complete() : *closed);
      }
      if (const absl::Status taken = steps_.take(*std::move(chunk)); !taken.ok()) return End(taken);
      // This frees the memory of the chunk before the next one is read.
      chunk.reset();
      ReadOn();
      if (executor_.crowded() && executor_.Submit(owner_, [this] { Work(); })) return;
    }
  }

  // A chunk less is held.
  void ReadOn() {
    {
      absl::MutexLock lock(&mutex_);
      --held_;
      if (!std::exchange(held_back_, false) || closed_.has_value()) return;
    }
    steps_.read();
  }

  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    steps_.end(status);
  }

  Executor& executor_;
  const Steps steps_;
  // Constant once a chunk was added.
  std::string owner_;
  absl::Mutex mutex_;
  // Chunks that wait for the task.
  std::deque<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  // Those, and the one that the task works on.
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  // No read is in progress, since too many chunks are held.
  bool held_back_ ABSL_GUARDED_BY(mutex_) = false;
  // The task is queued or runs.
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longhaul
