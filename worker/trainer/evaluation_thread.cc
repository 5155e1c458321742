#include "worker/trainer/evaluation_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {
namespace {

// Against training's threads, which get about nine times as much of a core that both want.
constexpr int kNiceness = 10;

}  // namespace

EvaluationThread::EvaluationThread(int64_t batches, Patience patience)
    : batches_(batches), patience_(std::move(patience)), thread_([this] { Work(); }) {}

EvaluationThread::~EvaluationThread() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

void EvaluationThread::Begin(Batch batch) {
  absl::MutexLock lock(&mutex_);
  evaluations_.emplace_back().batch = std::move(batch);
}

bool EvaluationThread::Done() const {
  absl::MutexLock lock(&mutex_);
  LH_CHECK(!evaluations_.empty(), "no evaluation was begun");
  return evaluations_.front().done;
}

absl::StatusOr<std::vector<EvaluationThread::Sums>> EvaluationThread::Take() {
  absl::MutexLock lock(&mutex_);
  LH_CHECK(!evaluations_.empty(), "no evaluation was begun");
  const auto done = [this]()
                        ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return evaluations_.front().done; };
  const absl::Duration patience = patience_.now();
  if (!mutex_.AwaitWithTimeout(absl::Condition(&done), patience)) {
    return absl::DeadlineExceededError(
        absl::StrCat("an evaluation alongside training has not ended after ",
                     absl::FormatDuration(patience), " in which training waited for it"));
  }
  absl::StatusOr<std::vector<Sums>> sums = std::move(evaluations_.front().sums);
  evaluations_.pop_front();
  return sums;
}

EvaluationThread::Evaluation* EvaluationThread::Next() {
  const auto next = std::find_if(evaluations_.begin(), evaluations_.end(),
                                 [](const Evaluation& evaluation) { return !evaluation.done; });
  return next == evaluations_.end() ? nullptr : &*next;
}

absl::StatusOr<std::vector<EvaluationThread::Sums>> EvaluationThread::Run(const Batch& batch) {
  std::vector<Sums> sums;
  for (int64_t index = 0; index < batches_; ++index) {
    {
      absl::MutexLock lock(&mutex_);
      if (ends_) return absl::CancelledError("the evaluation was given up");
    }
    LH_ASSIGN_OR_RETURN(sums.emplace_back(), batch(index));
  }
  return sums;
}

void EvaluationThread::Work() {
  // Of this thread alone, on Linux. Without it evaluation is as important as training.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ends_ || Next() != nullptr;
  };
  for (;;) {
    Evaluation* evaluation;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (ends_) return;
      evaluation = Next();  // Stays where it is: only one that is done is taken.
    }
    absl::StatusOr<std::vector<Sums>> sums = Run(evaluation->batch);
    const Batch drop = std::move(evaluation->batch);  // What it holds goes outside the lock.
    absl::MutexLock lock(&mutex_);
    evaluation->sums = std::move(sums);
    evaluation->done = true;
  }
}

}  // namespace longhaul
