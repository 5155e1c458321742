#include "worker/data/prefetched_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {

PrefetchedBatches::PrefetchedBatches(std::unique_ptr<BatchMaker> maker, Patience patience)
    : maker_(std::move(maker)), patience_(std::move(patience)), thread_([this] { Work(); }) {}

PrefetchedBatches::~PrefetchedBatches() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

bool PrefetchedBatches::Settled() const { return !making_ && !wanted_.has_value(); }

void PrefetchedBatches::Prepare(int64_t step) {
  absl::MutexLock lock(&mutex_);
  wanted_ = step;
}

absl::StatusOr<ExampleBatch> PrefetchedBatches::Take(int64_t step) {
  {
    const absl::Duration patience = patience_.now();
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithTimeout(absl::Condition(this, &PrefetchedBatches::Settled), patience)) {
      return absl::AbortedError(absl::StrCat("the data of step ", step, " was not read within ",
                                             absl::FormatDuration(patience),
                                             ": does the disk respond?"));
    }
    std::optional<absl::StatusOr<ExampleBatch>> ready = std::exchange(ready_, std::nullopt);
    if (ready.has_value() && step_ == step) return *std::move(ready);
  }
  return maker_->Make(step);
}

absl::StatusOr<int64_t> PrefetchedBatches::HeldOutWeight(int64_t count) {
  return maker_->HeldOutWeight(count);
}

absl::StatusOr<ExampleBatch> PrefetchedBatches::TakeHeldOut(int64_t index, int64_t count) {
  return maker_->MakeHeldOut(index, count);
}

absl::StatusOr<ExampleBatch> PrefetchedBatches::TakeTest(int64_t index, int64_t count) {
  return maker_->MakeTest(index, count);
}

int64_t PrefetchedBatches::TestWeight() const { return maker_->TestWeight(); }

absl::Status PrefetchedBatches::Check() const { return maker_->Check(); }

void PrefetchedBatches::Work() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ends_ || wanted_.has_value();
  };
  for (;;) {
    int64_t step;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (ends_) return;
      step = *std::exchange(wanted_, std::nullopt);
      making_ = true;
    }
    absl::StatusOr<ExampleBatch> made = maker_->Make(step);
    absl::MutexLock lock(&mutex_);
    making_ = false;
    step_ = step;
    ready_ = std::move(made);
  }
}

}  // namespace longhaul
