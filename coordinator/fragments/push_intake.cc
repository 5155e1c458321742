#include "coordinator/service/push_intake.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/names.h"
#include "coordinator/service/refusal.h"
#include "coordinator/service/shard_intake.h"
#include "coordinator/service/stream_accounts.h"

namespace longhaul::coordinator {
namespace {

// Of a PushHeader or a GetContributionRequest.
template <typename Message>
ContributionKey KeyOf(const Message& message) {
  return {message.fragment(), message.version(), message.pool(), message.incarnation()};
}

// The job of a contribution that may come. Short: nothing here waits.
template <typename Message>
absl::StatusOr<std::shared_ptr<LiveJob>> Judge(Runtime& runtime, const Message& message) {
  LH_RETURN_IF_ERROR(CheckPool(message.pool(), message.incarnation()));
  std::shared_ptr<LiveJob> job = runtime.jobs().Find(message.job_id());
  if (!job) {
    return ToStatus({.status = absl::NotFoundError(absl::StrCat("no live job ", message.job_id())),
                     .reason = "JOB_UNKNOWN"});
  }
  if (!job->HasFragment(message.fragment())) {
    return ToStatus(
        {.status = absl::NotFoundError(absl::StrCat("no fragment ", message.fragment())),
         .reason = "FRAGMENT_UNKNOWN"});
  }
  const std::optional<RoundKind> kind = RoundKindFromProto(message.kind());
  if (!kind.has_value() || *kind == RoundKind::kSkipped) {
    return BadRequestError({{"kind", "is not SEED, OUTER or FINAL"}});
  }
  LH_RETURN_IF_ERROR(
      runtime.Judge(ContributionBegins{message.job_id(), message.pool(), message.incarnation(),
                                       message.fragment(), message.version(), *kind}));
  if (job->store() == nullptr) return absl::UnavailableError("the job's store is being made");
  return job;
}

absl::Status CheckCoding(const LiveJob& job, const v1::PushHeader& header) {
  if (header.weight() != 1) {
    return BadRequestError(
        {{"weight", absl::StrCat(header.weight(), ": in lockstep every pool has the weight 1")}});
  }
  const Codec& codec = job.CodecFor(*RoundKindFromProto(header.kind()));
  if (header.codec() == ToProto(codec.kind())) return absl::OkStatus();
  return WithErrorInfo(
      absl::InvalidArgumentError(absl::StrCat(
          "codec ", v1::Codec_Name(header.codec()), ": the job has ", std::string(codec.name()),
          " for rounds of kind ", RoundKindName(*RoundKindFromProto(header.kind())))),
      {"CODEC_MISMATCH",
       {{"fragment", absl::StrCat(header.fragment())}, {"expected", std::string(codec.name())}}});
}

absl::Status TellWhole(Runtime& runtime, const LiveJob& job, const ContributionKey& key,
                       RoundKind kind) {
  return runtime.Complete({job.id(), key.pool, key.incarnation, key.fragment, key.version, kind});
}

// One stream. The handler's functions share it.
class PushStream {
 public:
  explicit PushStream(Runtime* runtime) : runtime_(runtime) {}

  absl::StatusOr<StreamLimits> Begin(const v1::PushHeader& header) {
    LH_ASSIGN_OR_RETURN(std::shared_ptr<LiveJob> job, Judge(*runtime_, header));
    LH_RETURN_IF_ERROR(CheckCoding(*job, header));
    const Codec& codec = job->CodecFor(*RoundKindFromProto(header.kind()));
    account_ = {job, codec.name()};
    if (std::isfinite(header.nmse())) {
      runtime_->parts()
          .metrics->uplink_nmse
          .With({{"job", job->name()}, {"fragment", absl::StrCat(header.fragment())}})
          .Set(header.nmse());
    }
    intake_.emplace(job, KeyOf(header), *RoundKindFromProto(header.kind()));
    // The codec lives as long as the job, which the limits keep.
    return StreamLimits{
        .fragment_elements = job->elements(header.fragment()),
        .payload_bytes_max = codec.FragmentBytesMax(job->elements(header.fragment())),
        .segment_bytes = [job, &codec](int32_t elements) { return codec.PayloadBytes(elements); }};
  }

  absl::Status Take(const CodedChunk& chunk) { return Explain(intake_->Take(chunk)); }

  absl::StatusOr<v1::PushResponse> Complete() {
    LH_RETURN_IF_ERROR(Explain(intake_->Finish()));
    v1::PushResponse response;
    response.set_contribution_complete(intake_->job().contributions().Whole(intake_->key()));
    if (response.contribution_complete()) {
      LH_RETURN_IF_ERROR(TellWhole(*runtime_, intake_->job(), intake_->key(), intake_->kind()));
    }
    return response;
  }

  void End(const absl::Status& status, const WireBytes& bytes) const {
    BookStream(*runtime_, "up", account_, status, bytes);
  }

 private:
  // What the log refused, in the contract's words.
  absl::Status Explain(const absl::Status& status) const {
    if (status.ok()) return status;
    runtime_->Note(status);
    if (absl::IsResourceExhausted(status)) return WithRetryDelay(status, absl::Seconds(5));
    if (absl::IsFailedPrecondition(status)) {
      // The version went on while the bytes came.
      const ContributionKey& key = intake_->key();
      LH_RETURN_IF_ERROR(
          runtime_->Judge(ContributionBegins{intake_->job().id(), key.pool, key.incarnation,
                                             key.fragment, key.version, intake_->kind()}));
    }
    return status;
  }

  Runtime* const runtime_;
  StreamAccount account_;
  std::optional<ShardIntake> intake_;  // Once the header was accepted.
};

}  // namespace

PushHandler MakePushHandler(Runtime* runtime) {
  auto stream = std::make_shared<PushStream>(runtime);
  return {.on_header = [stream](const v1::PushHeader& header) { return stream->Begin(header); },
          .on_chunk = [stream](const v1::PushHeader&,
                               const CodedChunk& chunk) { return stream->Take(chunk); },
          .on_complete = [stream](const v1::PushHeader&) { return stream->Complete(); },
          .on_end = [stream](const absl::Status& status,
                             const WireBytes& bytes) { stream->End(status, bytes); }};
}

absl::StatusOr<v1::GetContributionResponse> FindContribution(
    Runtime& runtime, const v1::GetContributionRequest& request) {
  LH_ASSIGN_OR_RETURN(const std::shared_ptr<LiveJob> job, Judge(runtime, request));
  const ContributionKey key = KeyOf(request);
  v1::GetContributionResponse response;
  *response.mutable_blocks() = BlocksToProto(job->contributions().Blocks(key));
  response.set_complete(job->contributions().Whole(key));
  if (response.complete()) {
    LH_RETURN_IF_ERROR(TellWhole(runtime, *job, key, *RoundKindFromProto(request.kind())));
  }
  return response;
}

}  // namespace longhaul::coordinator
