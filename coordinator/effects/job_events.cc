#include "coordinator/effects/job_events.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/utf8.h"
#include "common/wire/proto_values.h"

namespace longhaul::coordinator {
namespace {

// How many norms determine the usual one, and how many are needed for it.
constexpr size_t kNormsKept = 16, kNormsNeeded = 5;
constexpr double kNormRatio = 10;

// Shortens the text, but never inside a character.
void Bound(size_t bytes_max, std::string* text) { text->resize(ClipUtf8(*text, bytes_max).size()); }

// All events of a job fit one message.
void BoundTexts(v1::JobEvent& event) {
  Bound(JobEvents::kMessageBytesMax, event.mutable_message());
  Bound(JobEvents::kMessageBytesMax, event.mutable_hint());
  Bound(JobEvents::kNameBytesMax, event.mutable_code());
  Bound(JobEvents::kNameBytesMax, event.mutable_pool());
}

void SetFault(const JobFault& fault, v1::JobEvent& event) {
  event.set_code(fault.code);
  event.set_hint(fault.hint);
  if (event.pool().empty()) event.set_pool(fault.pool);
}

}  // namespace

void JobEvents::Add(v1::JobEvent event, absl::Time now) {
  event.set_sequence(++newest_);
  *event.mutable_at() = ToProto(now);
  BoundTexts(event);
  events_.push_back(std::move(event));
  if (events_.size() > kEventsMax) events_.pop_front();
}

std::vector<v1::JobEvent> JobEvents::After(int64_t sequence) const {
  std::vector<v1::JobEvent> events;
  for (const v1::JobEvent& event : events_) {
    if (event.sequence() > sequence) events.push_back(event);
  }
  return events;
}

std::vector<EventRecord> JobEvents::Unsaved(const std::string& job_id) const {
  std::vector<EventRecord> records;
  if (newest_ == saved_) return records;
  for (const v1::JobEvent& event : After(saved_)) {
    records.push_back(
        {job_id, event.sequence(), events_.front().sequence(), event.SerializeAsString()});
  }
  return records;
}

void JobEvents::Restore(const std::vector<std::string>& events) {
  for (const std::string& bytes : events) {
    v1::JobEvent event;
    if (!event.ParseFromString(bytes) || event.sequence() <= newest_) continue;
    newest_ = event.sequence();
    BoundTexts(event);
    events_.push_back(std::move(event));
    if (events_.size() > kEventsMax) events_.pop_front();
  }
  saved_ = newest_;
}

std::optional<std::string> NormWatch::Observe(const CommitRecord& commit) {
  if (commit.round.kind != RoundKind::kOuter) return std::nullopt;
  const double norm = commit.outer_gradient_norm;
  Fragment& fragment = fragments_[commit.round.fragment];
  std::vector<double> usual(fragment.norms.begin(), fragment.norms.end());
  std::sort(usual.begin(), usual.end());
  const double median = usual.size() < kNormsNeeded ? 0 : usual[usual.size() / 2];
  const bool finite = std::isfinite(norm) && std::isfinite(commit.outer_parameter_norm);
  if (finite && (median == 0 || norm <= kNormRatio * median)) {
    fragment.alert.clear();
    fragment.norms.push_back(norm);
    if (fragment.norms.size() > kNormsKept) fragment.norms.pop_front();
    return std::nullopt;
  }
  if (!fragment.alert.empty()) return std::nullopt;
  if (!finite) {
    return fragment.alert = absl::StrFormat(
               "fragment %d version %d: the outer gradient or the parameters are not "
               "finite: training has diverged",
               commit.round.fragment, commit.round.version);
  }
  return fragment.alert = absl::StrFormat(
             "fragment %d version %d: the outer gradient's norm is %.3g, %.0f times the usual %.3g",
             commit.round.fragment, commit.round.version, norm, norm / median, median);
}

std::string NormWatch::alert() const {
  for (const auto& [index, fragment] : fragments_)
    if (!fragment.alert.empty()) return fragment.alert;
  return "";
}

v1::JobEvent MakeEvent(v1::EventKind kind, v1::EventSeverity severity, std::string message) {
  v1::JobEvent event;
  event.set_kind(kind);
  event.set_severity(severity);
  event.set_message(std::move(message));
  return event;
}

v1::JobEvent EventOf(const StoreJobState& record) {
  const v1::EventSeverity severity = record.state == JobState::kFailed      ? v1::ERROR
                                     : record.state == JobState::kCancelled ? v1::WARNING
                                                                            : v1::INFO;
  std::string words = absl::StrCat("is ", JobStateName(record.state));
  if (record.fault.has_value()) absl::StrAppend(&words, ": ", record.fault->message);
  v1::JobEvent event = MakeEvent(v1::STATE_CHANGED, severity, std::move(words));
  if (record.fault.has_value()) SetFault(*record.fault, event);
  return event;
}

v1::JobEvent EventOf(const StorePause& record) {
  std::string words = "was resumed";
  if (record.stage == PauseStage::kPausing) words = "is PAUSING";
  if (record.stage == PauseStage::kPaused) words = "is PAUSED";
  if (!record.by.empty()) absl::StrAppend(&words, ", by ", record.by);
  if (!record.reason.empty()) absl::StrAppend(&words, ": ", record.reason);
  return MakeEvent(v1::STATE_CHANGED, v1::INFO, std::move(words));
}

v1::JobEvent EventOf(const StorePlace& record) {
  const RecoveredPlace& place = record.place;
  v1::JobEvent event;
  if (place.missed) {
    event =
        MakeEvent(v1::POOL_LATE, v1::WARNING, "a round was applied without it; it must restart");
  } else if (place.gone) {
    event = MakeEvent(v1::POOL_LEFT, v1::INFO, absl::StrCat("gave up place ", place.ordinal));
  } else if (place.return_until != absl::InfinitePast()) {
    event = MakeEvent(
        v1::POOL_AWAY, v1::INFO,
        absl::StrCat("drained and left; place ", place.ordinal, " is reserved until ",
                     absl::FormatTime(absl::RFC3339_sec, place.return_until, absl::UTCTimeZone())));
  } else if (place.start_step.has_value()) {
    event = MakeEvent(
        v1::POOL_JOINED, v1::INFO,
        absl::StrCat("is ready in place ", place.ordinal, ", from step ", *place.start_step));
    event.set_step(*place.start_step);
  } else {
    event = MakeEvent(v1::POOL_ASSIGNED, v1::INFO,
                      absl::StrCat("is assigned to place ", place.ordinal));
  }
  event.set_pool(place.pool);
  return event;
}

v1::JobEvent EventOf(const PoolPresence& notice) {
  v1::JobEvent event = notice.live
                           ? MakeEvent(v1::POOL_BACK, v1::INFO, "is back in its place")
                           : MakeEvent(v1::POOL_LOST, v1::WARNING, "is lost: its lease expired");
  event.set_pool(notice.pool);
  return event;
}

v1::JobEvent EventOf(const PoolFellBehind& notice) {
  v1::JobEvent event = MakeEvent(
      v1::POOL_LATE, v1::WARNING,
      absl::StrCat(notice.rounds, " rounds in a row continued without it: it contributes nothing"));
  event.set_hint(
      "if the pool trains, sync.quorum.grace_seconds is too short for it: it needs time to pull "
      "all parameters, run one step and push");
  event.set_pool(notice.pool);
  return event;
}

v1::JobEvent EventOf(const PoolLeftOut& notice) {
  const std::string round =
      absl::StrFormat("fragment %d version %d: ", notice.round.fragment, notice.round.version);
  v1::JobEvent event = MakeEvent(
      v1::POOL_LEFT_OUT, v1::WARNING,
      notice.overruled
          ? absl::StrCat(round, "too few contributed to leave out its contribution: ", notice.why)
          : absl::StrCat(round, "its contribution is left out: ", notice.why));
  event.set_hint(
      "look at the pool's loss, data and devices; if its contributions are as they should be, "
      "resubmit with a larger guard.outer_norm, or guard.outer_cosine: -1");
  event.set_pool(notice.pool);
  event.set_fragment(notice.round.fragment);
  event.set_version(notice.round.version);
  return event;
}

v1::JobEvent EventOf(const PoolSetAside& notice) {
  v1::JobEvent event =
      MakeEvent(v1::POOL_SET_ASIDE, v1::WARNING,
                absl::StrCat("is set aside for ", absl::FormatDuration(notice.retry_after), ": ",
                             notice.fault.message));
  event.set_pool(notice.pool);
  SetFault(notice.fault, event);
  return event;
}

v1::JobEvent EventOf(const EndJob& notice) {
  v1::JobEvent event =
      MakeEvent(v1::STATE_CHANGED, v1::ERROR,
                absl::StrCat("is ", JobStateName(notice.state),
                             notice.fault.has_value() ? ": " + notice.fault->message : ""));
  if (notice.fault.has_value()) SetFault(*notice.fault, event);
  return event;
}

v1::JobEvent EventOf(const PublishCommit& notice) {
  v1::JobEvent event =
      MakeEvent(v1::ROUND_SKIPPED, v1::WARNING,
                absl::StrFormat("fragment %d version %d was skipped: no pool could contribute",
                                notice.round.fragment, notice.round.version));
  event.set_fragment(notice.round.fragment);
  event.set_version(notice.round.version);
  return event;
}

}  // namespace longhaul::coordinator
