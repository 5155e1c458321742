#include "coordinator/cli/watch.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/rpc/retry.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

class Watching {
 public:
  Watching(Client& client, Clock& clock, const std::string& job, const WatchOptions& options,
           Progress& progress)
      : client_(client), clock_(clock), name_(job), options_(options), progress_(progress) {}

  absl::StatusOr<v1::Job> Run() {
    for (int attempt = 0;;) {
      const bool answered = StreamOnce();
      if (!heard_) return absl::CancelledError("nobody reads the updates");
      if (Rests(job_)) return job_;
      if (answered) attempt = 0;
      if (absl::Status given_up = Judge(); !given_up.ok()) return given_up;
      if (status_.code() == absl::StatusCode::kDeadlineExceeded)
        continue;  // The limit of the stream, not the user's deadline.
      Wait(attempt++);
    }
  }

 private:
  // True if anything came.
  bool StreamOnce() {
    const int64_t before = updates_;
    const absl::Time begun = clock_.Now();
    // By its id: if the job was deleted, another job may have its name now.
    status_ = client_.WatchJob(
        updates_ == 0 ? name_ : job_.id(), cursor_,
        InSteadyTime(clock_, std::min(options_.deadline, clock_.Now() + kStreamMax)),
        [this](const v1::WatchJobResponse& update) { return OnUpdate(update); },
        options_.on_event ? std::optional(events_after_) : std::nullopt);
    // Nothing comes while nothing changes.
    if (WasOpen(clock_.Now() - begun)) heard_at_ = clock_.Now();
    return updates_ != before;
  }

  // False: nobody listens any more.
  bool OnUpdate(const v1::WatchJobResponse& update) {
    const absl::Time now = clock_.Now();
    if (lost_) progress_.Note("connected again");
    lost_ = false;
    heard_at_ = now;
    ++updates_;
    cursor_ = update.cursor();
    job_ = update.job();
    for (const v1::JobEvent& event : update.events()) {
      if (event.sequence() <= events_after_) continue;
      events_after_ = event.sequence();
      options_.on_event(event);
    }
    if (!options_.quiet) progress_.Show(job_, now);
    heard_ = !options_.on_job || options_.on_job(job_);
    return heard_;
  }

  // OK to go on; the error to return otherwise.
  absl::Status Judge() {
    if (clock_.Now() >= options_.deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("job ", updates_ == 0 ? name_ : job_.spec().name(), " has not ended in time",
                       updates_ == 0 ? "" : absl::StrCat(": ", ProgressText(job_, clock_.Now()))));
    }
    switch (status_.code()) {
      case absl::StatusCode::kOk:
      case absl::StatusCode::kDeadlineExceeded:
        return absl::OkStatus();
      case absl::StatusCode::kOutOfRange:  // The coordinator's clock was set back.
        if (cursor_ == 0) return status_;
        cursor_ = 0;
        return absl::OkStatus();
      case absl::StatusCode::kNotFound:
        if (updates_ == 0) return status_;
        return absl::NotFoundError(
            absl::StrCat("job ", name_,
                         " was deleted; its last known state: ", ProgressText(job_, clock_.Now())));
      case absl::StatusCode::kResourceExhausted:  // Too many watch, or call.
        if (updates_ == 0) return status_;
        [[fallthrough]];
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kCancelled:
        if (updates_ == 0 && !options_.contacted) return status_;
        if (clock_.Now() - heard_at_ > kSilentMax) return status_;
        return absl::OkStatus();
      default:
        return status_;
    }
  }

  void Wait(int attempt) {
    if (!lost_ && !status_.ok()) {
      progress_.Note(absl::StrCat("connection lost (", Printable(status_.message()),
                                  "); the job continues, reconnecting to ", client_.address()));
    }
    lost_ = lost_ || !status_.ok();
    const absl::Time until =
        clock_.Now() + absl::Milliseconds(50) + FullJitter({}, attempt, random_);
    clock_.SleepUntil(std::min(until, options_.deadline));
  }

  Client& client_;
  Clock& clock_;
  const std::string name_;
  const WatchOptions options_;
  Progress& progress_;
  Random random_{static_cast<uint64_t>(absl::ToUnixNanos(clock_.Now()))};

  v1::Job job_;
  int64_t cursor_ = 0;
  int64_t events_after_ = options_.events_after;
  int64_t updates_ = 0;
  absl::Time heard_at_ = clock_.Now();  // The server was there.
  absl::Status status_;                 // Of the newest stream.
  bool heard_ = true;                   // The caller still takes updates.
  bool lost_ = false;                   // The user was told that the connection is lost.
};

}  // namespace

absl::StatusOr<v1::Job> WatchToEnd(Client& client, Clock& clock, const std::string& job,
                                   const WatchOptions& options, Progress& progress) {
  absl::StatusOr<v1::Job> result = Watching(client, clock, job, options, progress).Run();
  progress.Finish();
  return result;
}

}  // namespace longhaul::cli
