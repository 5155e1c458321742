// Receives contributions: judges the header, writes the chunks to the job's log, and reports a
// complete contribution to the arbiter. Also tells which blocks of a contribution have arrived.
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/part_intake.h"
#include "coordinator/fragments/refusal.h"
#include "coordinator/fragments/stream_account.h"

namespace longhaul::coordinator {
namespace {

struct Accepted {
  std::shared_ptr<JobFragments> job;
  std::shared_ptr<SharedStore> store;
  ContributionKey key;

  RoundKind kind() const { return key.round.kind; }
  ContributionId id() const { return {job->id(), key.pool, key.incarnation, key.round}; }
};

// Checks a PushHeader or a GetContributionRequest: whether such a contribution may come. Returns at
// once.
template <typename Message>
absl::StatusOr<Accepted> Judge(const Fragments& fragments, const Message& message) {
  Accepted accepted{
      .job = fragments.Find(message.job_id()),
      .key = {{message.fragment(), message.version()}, message.pool(), message.incarnation()}};
  if (!accepted.job) return UnknownJob(message.job_id());
  if (!accepted.job->Has(message.fragment())) return UnknownFragment(message.fragment());
  const std::optional<RoundKind> kind = RoundKindFromProto(message.kind());
  if (!kind.has_value() || *kind == RoundKind::kSkipped) {
    return BadRequestError({{"kind", "is not SEED, OUTER or FINAL"}});
  }
  accepted.key.round.kind = *kind;
  LH_RETURN_IF_ERROR(fragments.parts().arbiter->Judge(accepted.id()));
  accepted.store = accepted.job->store();
  if (accepted.store == nullptr) return absl::UnavailableError("the job's store is being opened");
  return accepted;
}

absl::Status CheckWeight(const JobFragments& job, RoundKind kind, const v1::PushHeader& header) {
  const int64_t most = kind == RoundKind::kSeed ? 1 : job.weight_max();
  const double weight = header.weight();
  if (weight >= 1 && weight <= static_cast<double>(most) && weight == std::floor(weight))
    return absl::OkStatus();
  return BadRequestError(
      {{"weight", most == 1 ? absl::StrCat(weight, ": every pool has the weight 1 here")
                            : absl::StrFormat("%g: expected inner steps, 1 to %d", weight, most)}});
}

absl::Status CheckCoding(const Accepted& accepted, const v1::PushHeader& header) {
  LH_RETURN_IF_ERROR(CheckWeight(*accepted.job, accepted.kind(), header));
  const Codec& codec = accepted.job->CodecFor(accepted.kind());
  // CodecKind and v1::Codec have the same numbers.
  if (static_cast<int>(header.codec()) == static_cast<int>(codec.kind())) return absl::OkStatus();
  return WithErrorInfo(
      absl::InvalidArgumentError(absl::StrCat(
          "codec ", v1::Codec_Name(header.codec()), ": the job has ", std::string(codec.name()),
          " for rounds of kind ", RoundKindName(accepted.kind()))),
      {"CODEC_MISMATCH",
       {{"fragment", absl::StrCat(header.fragment())}, {"expected", std::string(codec.name())}}});
}

// One stream. The functions of its handler share it.
class PushStream {
 public:
  explicit PushStream(Fragments* fragments) : fragments_(fragments) {}

  absl::StatusOr<StreamLimits> Begin(const v1::PushHeader& header) {
    LH_ASSIGN_OR_RETURN(accepted_, Judge(*fragments_, header));
    LH_RETURN_IF_ERROR(CheckCoding(accepted_, header));
    const std::shared_ptr<JobFragments>& job = accepted_.job;
    const Codec& codec = job->CodecFor(accepted_.kind());
    account_ = {job, header.fragment(), codec.name()};
    if (std::isfinite(header.nmse())) {
      job->ShowUnlessHidden([&] {
        fragments_->parts()
            .metrics->uplink_nmse
            .With({{kJobLabel, job->name()}, {"fragment", absl::StrCat(header.fragment())}})
            .Set(header.nmse());
      });
    }
    intake_.emplace(job, accepted_.store, accepted_.key, header.weight());
    // `job` in the lambda keeps the codec alive.
    return StreamLimits{
        .fragment_elements = job->elements(header.fragment()),
        .payload_bytes_max = codec.FragmentBytesMax(job->elements(header.fragment())),
        .segment_bytes = [job, &codec](int32_t elements) { return codec.PayloadBytes(elements); }};
  }

  absl::Status Take(const CodedChunk& chunk) {
    if (accepted_.store->closing()) return absl::UnavailableError("the job's store is closed");
    return Explain(intake_->Take(chunk));
  }

  absl::StatusOr<v1::PushResponse> Complete() {
    LH_RETURN_IF_ERROR(Explain(intake_->Finish()));
    v1::PushResponse response;
    response.set_contribution_complete(accepted_.store->contributions().Whole(accepted_.key));
    if (response.contribution_complete())
      LH_RETURN_IF_ERROR(fragments_->parts().arbiter->Complete(accepted_.id()));
    return response;
  }

  // The next stream of the contribution continues behind what came.
  void Keep() {
    if (intake_.has_value()) Explain(intake_->Finish()).IgnoreError();
  }

  void End(const absl::Status& status, const WireBytes& bytes) const {
    account_.Book(fragments_->parts(), "up", status, bytes);
  }

 private:
  // Turns an error of the log into one of the contract.
  absl::Status Explain(const absl::Status& status) const {
    if (status.ok()) return status;
    fragments_->Note(*accepted_.job, status);
    if (absl::IsResourceExhausted(status)) return WithRetryDelay(status, absl::Seconds(5));
    // Another version may have been committed meanwhile. Then Judge gives the exact refusal.
    if (absl::IsFailedPrecondition(status))
      LH_RETURN_IF_ERROR(fragments_->parts().arbiter->Judge(accepted_.id()));
    return status;
  }

  Fragments* const fragments_;
  StreamAccount account_;
  Accepted accepted_;
  // Set once the header was accepted.
  std::optional<PartIntake> intake_;
};

}  // namespace

PushHandler Fragments::MakePushHandler() {
  auto stream = std::make_shared<PushStream>(this);
  return {.on_header = [stream](const v1::PushHeader& header) { return stream->Begin(header); },
          .on_chunk = [stream](const v1::PushHeader&,
                               const CodedChunk& chunk) { return stream->Take(chunk); },
          .on_complete = [stream](const v1::PushHeader&) { return stream->Complete(); },
          .on_broken = [stream] { stream->Keep(); },
          .on_end = [stream](const absl::Status& status,
                             const WireBytes& bytes) { stream->End(status, bytes); }};
}

absl::StatusOr<v1::GetContributionResponse> Fragments::FindContribution(
    const v1::GetContributionRequest& request) {
  LH_ASSIGN_OR_RETURN(const Accepted accepted, Judge(*this, request));
  const Contributions& contributions = accepted.store->contributions();
  v1::GetContributionResponse response;
  *response.mutable_blocks() = BlocksToProto(contributions.Blocks(accepted.key));
  response.set_complete(contributions.Whole(accepted.key));
  if (response.complete()) LH_RETURN_IF_ERROR(parts_.arbiter->Complete(accepted.id()));
  return response;
}

}  // namespace longhaul::coordinator
