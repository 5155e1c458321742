#include "worker/session/outer_fragment.h"

#include <atomic>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/session/device_fragment_coder.h"
#include "worker/session/host_fragment_coder.h"
#include "worker/session/merge_parameters.h"

namespace longhaul::session {

namespace {

absl::Status NotMerged() {
  return absl::FailedPreconditionError("a commit came before the one before it was merged");
}

std::unique_ptr<FragmentCoder> MakeCoder(const FragmentMap& map,
                                         const OuterFragment::Options& options,
                                         std::shared_ptr<SpareBuffers> spare) {
  const FragmentCoder::Options of_coder = {.map = &map,
                                           .up = options.up,
                                           .exact = options.exact,
                                           .error_feedback = options.error_feedback,
                                           .spare = std::move(spare)};
  if (options.device == nullptr) return std::make_unique<HostFragmentCoder>(of_coder);
  return std::make_unique<DeviceFragmentCoder>(
      of_coder, options.device,
      [log = options.log](const std::string& warning) { log.Warning(warning); });
}

}  // namespace

OuterFragment::OuterFragment(FragmentMap map, Options options)
    : map_(std::move(map)),
      options_(std::move(options)),
      spare_(options_.spare != nullptr ? options_.spare : std::make_shared<SpareBuffers>()),
      outer_(std::make_shared<std::vector<float>>(map_.elements())),
      coder_(MakeCoder(map_, options_, spare_)) {}

absl::Status OuterFragment::TakeSnapshot(Replica& replica, const Round& round) {
  absl::MutexLock lock(&mutex_);
  round_ = round;
  return coder_->TakeSnapshot(replica);
}

absl::StatusOr<std::shared_ptr<const CodedContribution>> OuterFragment::Encode(int64_t version) {
  absl::MutexLock lock(&mutex_);
  if (version != round_.version) return nullptr;
  if (!coder_->has_snapshot()) return kept_;
  LH_ASSIGN_OR_RETURN(const std::shared_ptr<CodedContribution> coded,
                      coder_->Code(round_.kind, round_.noise_key, *outer_));
  coded->kind = round_.kind;
  coded->weight = round_.weight;
  kept_ = coded;
  return kept_;
}

PulledParameters OuterFragment::BeginWhole() const {
  return PulledParameters(
      {.map = &map_, .codec = options_.exact, .values = spare_->Take(map_.elements())});
}

void OuterFragment::SetOuter(std::vector<float> values) {
  const auto old = std::exchange(outer_, std::make_shared<std::vector<float>>(std::move(values)));
  if (old.use_count() > 1) return;
  // The last pull that read it has ended; its reads come before the reuse.
  std::atomic_thread_fence(std::memory_order_acquire);
  spare_->Give(std::move(*old));
}

void OuterFragment::LoadWhole(int64_t version, PulledParameters pulled) {
  absl::MutexLock lock(&mutex_);
  loaded_version_ = version;
  staged_version_.reset();
  SetOuter(std::move(pulled).Release());
  // Those of a seed, which has arrived: they are no contribution to a round.
  kept_ = nullptr;
  coder_->Reset();
}

absl::StatusOr<std::optional<PulledParameters>> OuterFragment::BeginDownlink(
    int64_t version) const {
  absl::MutexLock lock(&mutex_);
  if (staged_version_ == version) return std::nullopt;
  if (staged_version_.has_value()) return NotMerged();
  return PulledParameters({.map = &map_,
                           .codec = options_.down,
                           .base = outer_,
                           .values = spare_->Take(map_.elements())});
}

absl::Status OuterFragment::StageDownlink(int64_t version, PulledParameters pulled) {
  absl::MutexLock lock(&mutex_);
  if (staged_version_ == version || version <= loaded_version_) return absl::OkStatus();
  if (staged_version_.has_value()) return NotMerged();
  staged_ = std::move(pulled).Release();
  staged_version_ = version;
  return absl::OkStatus();
}

absl::Status OuterFragment::Merge(Replica& replica, double alpha, bool contributed) {
  absl::MutexLock lock(&mutex_);
  LH_CHECK(staged_version_.has_value(), "Merge needs a staged downlink");
  staged_version_.reset();
  SetOuter(std::exchange(staged_, {}));
  kept_ = nullptr;
  coder_->Commit(contributed);
  if (alpha == 0) return map_.Write(replica, *outer_);
  if (alpha == 1) return absl::OkStatus();
  std::vector<float> live = spare_->Take(map_.elements());
  LH_RETURN_IF_ERROR(map_.Read(replica, absl::MakeSpan(live)));
  MergeParameters(alpha, *outer_, absl::MakeSpan(live), options_.team);
  const absl::Status written = map_.Write(replica, live);
  spare_->Give(std::move(live));
  return written;
}

absl::Status OuterFragment::Install(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  return map_.Write(replica, *outer_);
}

absl::Status OuterFragment::SaveLive(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  saved_live_.assign(map_.elements(), 0.0f);
  return map_.Read(replica, absl::MakeSpan(saved_live_));
}

absl::Status OuterFragment::RestoreLive(Replica& replica) {
  absl::MutexLock lock(&mutex_);
  const std::vector<float> live = std::exchange(saved_live_, {});
  return map_.Write(replica, live);
}

absl::Status OuterFragment::ReadFeedback(absl::Span<float> out) const {
  absl::MutexLock lock(&mutex_);
  return coder_->ReadFeedback(out);
}

absl::Status OuterFragment::WriteFeedback(absl::Span<const float> values) {
  absl::MutexLock lock(&mutex_);
  return coder_->WriteFeedback(values);
}

void OuterFragment::ForgetFeedback() {
  absl::MutexLock lock(&mutex_);
  coder_->Reset();
}

std::vector<float> OuterFragment::outer() const {
  absl::MutexLock lock(&mutex_);
  return *outer_;
}

}  // namespace longhaul::session
