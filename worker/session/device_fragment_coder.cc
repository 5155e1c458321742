#include "worker/session/device_fragment_coder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/session/host_fragment_coder.h"

namespace longhaul::session {

using Queue = DeviceRuntime::Queue;

DeviceFragmentCoder::DeviceFragmentCoder(const Options& options,
                                         std::shared_ptr<DeviceCodec> device,
                                         std::function<void(const std::string&)> warn)
    : options_(options),
      device_(std::move(device)),
      warn_(std::move(warn)),
      elements_(options.map->elements()) {}

absl::Status DeviceFragmentCoder::TakeSnapshot(Replica& replica) {
  snapshot_ = {};
  has_snapshot_ = true;
  const auto& pieces = options_.map->pieces();
  const bool in_host_memory =
      std::any_of(pieces.begin(), pieces.end(), [&](const FragmentMap::Piece& piece) {
        return replica.DeviceParameters(piece.unit, piece.unit_offset) == nullptr;
      });
  // Offloaded masters are coded on the host, too.
  if (in_host_memory) {
    snapshot_.host.assign(elements_, 0.0f);
    return options_.map->Read(replica, absl::MakeSpan(snapshot_.host));
  }
  absl::StatusOr<DeviceFloats> floats = device_->AllocateFloats(elements_);
  if (absl::IsResourceExhausted(floats.status())) {
    WarnOnce(floats.status());
    snapshot_.host.assign(elements_, 0.0f);
    return options_.map->Read(replica, absl::MakeSpan(snapshot_.host));
  }
  LH_ASSIGN_OR_RETURN(snapshot_.device, std::move(floats));
  return EnqueueSnapshot(replica, snapshot_.device.get());
}

absl::Status DeviceFragmentCoder::EnqueueSnapshot(Replica& replica, float* to) {
  DeviceRuntime& runtime = device_->runtime();
  int64_t copied = 0;
  for (const FragmentMap::Piece& piece : options_.map->pieces()) copied += piece.elements;
  if (copied < elements_)
    LH_RETURN_IF_ERROR(runtime.Zero(Queue::kTraining, to, elements_ * sizeof(float)));
  for (const FragmentMap::Piece& piece : options_.map->pieces()) {
    const float* const live = replica.DeviceParameters(piece.unit, piece.unit_offset);
    LH_RETURN_IF_ERROR(runtime.Copy(Queue::kTraining, to + piece.local_offset, live,
                                    piece.elements * sizeof(float)));
  }
  return runtime.FollowTraining();
}

absl::StatusOr<std::shared_ptr<CodedContribution>> DeviceFragmentCoder::Code(
    RoundKind kind, uint64_t noise_key, absl::Span<const float> outer) {
  has_snapshot_ = false;
  Values snapshot = std::exchange(snapshot_, {});
  const bool seed = kind == RoundKind::kSeed;
  const bool feedback = options_.error_feedback && !seed;
  const Codec& codec = seed ? *options_.exact : *options_.up;
  absl::StatusOr<std::shared_ptr<CodedContribution>> coded;
  bool on_host = snapshot.device == nullptr;
  if (!on_host) {
    coded = CodeOnDevice(codec, seed, feedback, noise_key, outer, snapshot);
    on_host = absl::IsResourceExhausted(coded.status());
    if (on_host) WarnOnce(coded.status());
  }
  if (on_host) {
    LH_RETURN_IF_ERROR(BringToHost(snapshot));
    if (feedback) LH_RETURN_IF_ERROR(BringToHost(feedback_));
    coded = CodeOnHost(*options_.map, codec, noise_key, seed, outer,
                       feedback ? absl::MakeConstSpan(feedback_.host) : absl::Span<const float>(),
                       absl::MakeSpan(snapshot.host));
  }
  if (coded.ok() && feedback) next_feedback_ = std::move(snapshot);
  return coded;
}

// RESOURCE_EXHAUSTED: nothing was coded, and the snapshot is unchanged.
absl::StatusOr<std::shared_ptr<CodedContribution>> DeviceFragmentCoder::CodeOnDevice(
    const Codec& codec, bool seed, bool feedback, uint64_t noise_key, absl::Span<const float> outer,
    const Values& snapshot) {
  if (feedback) LH_RETURN_IF_ERROR(BringToDevice(feedback_));
  std::vector<DeviceCodec::Segment> segments;
  int64_t bytes = 0;
  for (const SegmentRef& segment : options_.map->segments()) {
    segments.push_back({.offset = options_.map->LocalOffset(segment),
                        .elements = segment.elements,
                        .noise = {.key = noise_key, .first_block = segment.first_block}});
    bytes += codec.PayloadBytes(segment.elements);
  }
  LH_ASSIGN_OR_RETURN(std::shared_ptr<uint8_t> payload, device_->AllocatePinned(bytes));
  DeviceCodec::Input input = {.segments = segments};
  if (seed) {
    input.values = snapshot.device.get();
  } else {
    input.host_values = outer;
    input.minus = snapshot.device.get();
  }
  if (feedback) {
    input.error = feedback_.device.get();
    input.lost = snapshot.device.get();
  }
  LH_ASSIGN_OR_RETURN(const std::vector<cuda::EncodeReport> reports,
                      device_->Encode(codec, input, payload.get()));
  auto result = std::make_shared<CodedContribution>();
  result->blocks = {options_.map->segments(), AlignedBuffer(std::move(payload), bytes)};
  ContributionTotals totals;
  for (size_t i = 0; i < reports.size(); ++i) {
    SegmentRef& segment = result->blocks.segments[i];
    if (reports[i].first_bad >= 0) {
      return CodingError(
          *options_.map, segment,
          absl::InvalidArgumentError(absl::StrFormat("%s: element %d of the segment is NaN or Inf",
                                                     codec.name(), reports[i].first_bad)));
    }
    segment.base_exponent = reports[i].base_exponent;
    totals.Add(reports[i].error_energy, reports[i].signal_energy);
  }
  totals.Write(feedback, *result);
  return result;
}

absl::Status DeviceFragmentCoder::BringToDevice(Values& values) {
  if (values.device != nullptr) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(DeviceFloats floats, device_->AllocateFloats(elements_));
  LH_RETURN_IF_ERROR(values.host.empty() ? device_->Zero(floats.get(), elements_)
                                         : device_->Upload(values.host, floats.get()));
  values = {.device = std::move(floats)};
  return absl::OkStatus();
}

absl::Status DeviceFragmentCoder::BringToHost(Values& values) {
  if (values.device == nullptr) {
    values.host.resize(elements_);
    return absl::OkStatus();
  }
  std::vector<float> host(elements_);
  LH_RETURN_IF_ERROR(device_->Download(values.device.get(), absl::MakeSpan(host)));
  values = {.host = std::move(host)};
  return absl::OkStatus();
}

void DeviceFragmentCoder::Commit(bool contributed) {
  const bool coded = next_feedback_.device != nullptr || !next_feedback_.host.empty();
  if (contributed && coded) feedback_ = std::move(next_feedback_);
  next_feedback_ = {};
}

void DeviceFragmentCoder::Reset() { feedback_ = {}; }

absl::Status DeviceFragmentCoder::ReadFeedback(absl::Span<float> out) {
  if (feedback_.device != nullptr) return device_->Download(feedback_.device.get(), out);
  std::fill(out.begin(), out.end(), 0.0f);
  std::copy(feedback_.host.begin(), feedback_.host.end(), out.begin());
  return absl::OkStatus();
}

// Keeps the values in host memory until a contribution is coded on the device.
absl::Status DeviceFragmentCoder::WriteFeedback(absl::Span<const float> values) {
  feedback_ = {.host = std::vector<float>(values.begin(), values.end())};
  return absl::OkStatus();
}

void DeviceFragmentCoder::WarnOnce(const absl::Status& status) {
  if (std::exchange(warned_, true)) return;
  warn_(absl::StrCat(
      "fragment '", options_.map->layout().name,
      "' is coded on the host where the device lacks memory for it: ", status.message()));
}

}  // namespace longhaul::session
