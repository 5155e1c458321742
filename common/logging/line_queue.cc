#include "common/logging/line_queue.h"

#include <signal.h>

#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"

namespace longhaul {
namespace {

constexpr absl::Duration kEndPatience = absl::Seconds(1);

struct QueuedLine {
  std::string text;
  // Lines that were dropped before this one.
  int64_t dropped = 0;
};

}  // namespace

struct LineQueue::State {
  State(Write writes, size_t bytes) : write(std::move(writes)), bytes_max(bytes) {}

  const Write write;
  const size_t bytes_max;
  absl::Mutex mutex;
  Notice notice ABSL_GUARDED_BY(mutex);
  std::deque<QueuedLine> lines ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;
  // Dropped since the newest line that waits, or that was written; and altogether.
  int64_t untold ABSL_GUARDED_BY(mutex) = 0, dropped ABSL_GUARDED_BY(mutex) = 0;
  // Lines that were accepted, and those of them that the sink took or refused.
  uint64_t accepted ABSL_GUARDED_BY(mutex) = 0, done ABSL_GUARDED_BY(mutex) = 0;
  // InfinitePast: no write runs.
  absl::Time writing_since ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  bool failing ABSL_GUARDED_BY(mutex) = false, retry ABSL_GUARDED_BY(mutex) = false;
  bool started ABSL_GUARDED_BY(mutex) = false, ending ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  // Returns the number of the line, or 0: it was dropped.
  uint64_t Accept(std::string line, bool important, const std::shared_ptr<State>& self)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const size_t room = important ? bytes_max + bytes_max / 16 : bytes_max;
    if (!lines.empty() && bytes + line.size() + sizeof(QueuedLine) > room) {
      ++untold;
      ++dropped;
      return 0;
    }
    bytes += line.size() + sizeof(QueuedLine);
    lines.push_back({std::move(line), std::exchange(untold, 0)});
    StartThread(self);
    return ++accepted;
  }

  // It must not get the signals for which the program waits elsewhere. The system may refuse a
  // thread; the next line tries again.
  void StartThread(const std::shared_ptr<State>& self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (started || writing_since != absl::InfinitePast()) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([self] { self->Run(); }).detach();
      started = true;
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // Lines for which somebody waits are written by this thread if the system refuses another.
  void WriteWithoutThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    while (!started && writing_since == absl::InfinitePast() && (!lines.empty() || TellsNow()))
      WriteNext();
  }

  bool TellsNow() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return untold > 0 && notice != nullptr && (!failing || retry);
  }
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex) {
    return !lines.empty() || ending || TellsNow();
  }

  void Run() {
    mutex.Lock();
    while (true) {
      mutex.Await(absl::Condition(
          +[](State* s) ABSL_NO_THREAD_SAFETY_ANALYSIS { return s->HasWork(); }, this));
      if (lines.empty() && !TellsNow()) break;
      WriteNext();
    }
    ended = true;
    mutex.Unlock();
  }

  // A line, or the notice alone. Others add lines meanwhile.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const bool of_line = !lines.empty();
    QueuedLine line{.dropped = of_line ? 0 : std::exchange(untold, 0)};
    if (of_line) {
      line = std::move(lines.front());
      lines.pop_front();
      bytes -= line.text.size() + sizeof(QueuedLine);
    }
    retry = false;
    const Notice tell = line.dropped > 0 ? notice : nullptr;
    writing_since = SteadyTime();
    mutex.Unlock();
    bool written = tell == nullptr || write(tell(line.dropped));
    if (written) line.dropped = 0;
    written = written && (!of_line || write(line.text));
    mutex.Lock();
    writing_since = absl::InfinitePast();
    failing = !written;
    if (!written) {
      dropped += of_line;
      (lines.empty() ? untold : lines.front().dropped) += line.dropped + of_line;
    }
    done += of_line;
  }
};

LineQueue::LineQueue(Write write, size_t bytes_max)
    : state_(std::make_shared<State>(std::move(write), bytes_max)) {}

LineQueue::~LineQueue() {
  absl::MutexLock lock(&state_->mutex);
  state_->ending = true;
  state_->WriteWithoutThread();
  const auto ended =
      +[](State* s) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !s->started || s->ended; };
  (void)state_->mutex.AwaitWithTimeout(absl::Condition(ended, state_.get()), kEndPatience);
}

void LineQueue::SetNotice(Notice notice) {
  absl::MutexLock lock(&state_->mutex);
  state_->notice = std::move(notice);
}

void LineQueue::Add(std::string line, bool important) {
  absl::MutexLock lock(&state_->mutex);
  (void)state_->Accept(std::move(line), important, state_);
}

void LineQueue::AddAndWait(std::string line, absl::Duration patience) {
  State& s = *state_;
  absl::MutexLock lock(&s.mutex);
  const bool stands =
      s.writing_since != absl::InfinitePast() && SteadyTime() - s.writing_since >= patience;
  const uint64_t number = s.Accept(std::move(line), /*important=*/false, state_);
  if (number == 0 || stands) return;
  s.WriteWithoutThread();
  const auto done = [&s, number]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return s.done >= number; };
  (void)s.mutex.AwaitWithTimeout(absl::Condition(&done), patience);
}

void LineQueue::Retry() {
  absl::MutexLock lock(&state_->mutex);
  state_->retry = state_->failing;
}

bool LineQueue::Flush(absl::Duration patience) {
  State& s = *state_;
  absl::MutexLock lock(&s.mutex);
  s.WriteWithoutThread();
  const auto done = [&s]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return s.done == s.accepted && (!s.started || !s.TellsNow()) &&
           s.writing_since == absl::InfinitePast();
  };
  return s.mutex.AwaitWithTimeout(absl::Condition(&done), patience);
}

int64_t LineQueue::dropped() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->dropped;
}

bool LineQueue::failing() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->failing;
}

absl::Duration LineQueue::stalled_for() const {
  absl::MutexLock lock(&state_->mutex);
  if (state_->writing_since == absl::InfinitePast()) return absl::ZeroDuration();
  return SteadyTime() - state_->writing_since;
}

}  // namespace longhaul
