#include "coordinator/service/push_intake.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/names.h"
#include "coordinator/service/refusal.h"
#include "coordinator/service/stream_accounts.h"

namespace longhaul::coordinator {
namespace {

absl::Status CheckHeader(const LiveJob& job, const v1::PushHeader& header) {
  const std::optional<RoundKind> kind = RoundKindFromProto(header.kind());
  if (!kind.has_value() || *kind == RoundKind::kSkipped) {
    return BadRequestError({{"kind", "is not SEED, OUTER or FINAL"}});
  }
  if (header.weight() != 1) {
    return BadRequestError(
        {{"weight", absl::StrCat(header.weight(), ": in lockstep every pool has the weight 1")}});
  }
  const Codec& codec = job.CodecFor(*kind);
  if (header.codec() == ToProto(codec.kind())) return absl::OkStatus();
  return WithErrorInfo(
      absl::InvalidArgumentError(absl::StrCat("codec ", v1::Codec_Name(header.codec()),
                                              ": the job has ", std::string(codec.name()),
                                              " for rounds of kind ", RoundKindName(*kind))),
      {"CODEC_MISMATCH",
       {{"fragment", absl::StrCat(header.fragment())}, {"expected", std::string(codec.name())}}});
}

absl::Status BadSegment(int fragment, int64_t block, const absl::Status& cause) {
  return WithErrorInfo(
      absl::InvalidArgumentError(absl::StrCat("fragment ", fragment, ", the segment at block ",
                                              block, ": ", cause.message())),
      {"BAD_SEGMENT", {{"fragment", absl::StrCat(fragment)}, {"block", absl::StrCat(block)}}});
}

absl::StatusOr<ShardInfo> Validate(const LiveJob& job, const v1::PushHeader& header,
                                   const CodedBlocks& blocks) {
  const RoundKind kind = *RoundKindFromProto(header.kind());
  const Codec& codec = job.CodecFor(kind);
  ShardInfo shard{.fragment = header.fragment(),
                  .version = header.version(),
                  .kind = kind,
                  .pool = header.pool(),
                  .codec = codec.kind()};
  absl::Span<const uint8_t> rest = blocks.payload.span();
  for (const SegmentRef& segment : blocks.segments) {
    const absl::Span<const uint8_t> payload = rest.subspan(0, codec.PayloadBytes(segment.elements));
    const absl::Status valid = codec.Validate(segment.base_exponent, payload, segment.elements);
    if (!valid.ok()) return BadSegment(header.fragment(), segment.first_block, valid);
    shard.segments.push_back({segment.first_block, segment.elements, segment.base_exponent});
    rest.remove_prefix(payload.size());
  }
  return shard;
}

absl::Status Append(Runtime& runtime, LiveJob& job, const ContributionKey& key,
                    const v1::PushHeader& header, const CodedBlocks& blocks) {
  LH_ASSIGN_OR_RETURN(const ShardInfo shard, Validate(job, header, blocks));
  const std::vector<BlockRange> ranges = BlocksFromProto(header.blocks());
  switch (job.contributions().Reserve(key, ranges)) {
    case Reservation::kTaken:
      break;
    case Reservation::kRepeated:
      return absl::OkStatus();
    case Reservation::kBusy:
      return absl::UnavailableError("another stream is bringing these blocks");
    case Reservation::kOverlap:
      return WithErrorInfo(absl::InvalidArgumentError(
                               "some of these blocks are here already and some are not: push them "
                               "cut as they were"),
                           {"PARTLY_REPEATED", {{"fragment", absl::StrCat(key.fragment)}}});
  }
  const absl::StatusOr<ShardRef> appended = job.store()->AppendShard(shard, blocks.payload.span());
  if (appended.ok()) {
    job.contributions().Confirm(key, ranges, *appended);
    return absl::OkStatus();
  }
  job.contributions().Release(key, ranges);
  runtime.Note(appended.status());
  if (absl::IsResourceExhausted(appended.status()))
    return WithRetryDelay(appended.status(), absl::Seconds(5));
  return appended.status();
}

}  // namespace

absl::StatusOr<StreamLimits> AcceptPush(Runtime& runtime, const v1::PushHeader& header) {
  LH_RETURN_IF_ERROR(CheckPool(header.pool(), header.incarnation()));
  const std::shared_ptr<LiveJob> job = runtime.jobs().Find(header.job_id());
  if (!job) {
    return ToStatus({.status = absl::NotFoundError(absl::StrCat("no live job ", header.job_id())),
                     .reason = "JOB_UNKNOWN"});
  }
  if (!job->HasFragment(header.fragment())) {
    return ToStatus({.status = absl::NotFoundError(absl::StrCat("no fragment ", header.fragment())),
                     .reason = "FRAGMENT_UNKNOWN"});
  }
  LH_RETURN_IF_ERROR(CheckHeader(*job, header));
  const RoundKind kind = *RoundKindFromProto(header.kind());
  LH_RETURN_IF_ERROR(
      runtime.Judge(ContributionBegins{header.job_id(), header.pool(), header.incarnation(),
                                       header.fragment(), header.version(), kind}));
  if (job->store() == nullptr) return absl::UnavailableError("the job's store is being made");
  const Codec& codec = job->CodecFor(kind);
  // The codec lives as long as the job, and the job as long as this function.
  return StreamLimits{
      .fragment_elements = job->elements(header.fragment()),
      .payload_bytes_max = codec.PayloadBytes(job->elements(header.fragment())),
      .segment_bytes = [job, &codec](int32_t elements) { return codec.PayloadBytes(elements); }};
}

absl::StatusOr<v1::PushResponse> TakePush(Runtime& runtime, const v1::PushHeader& header,
                                          CodedBlocks blocks) {
  const std::shared_ptr<LiveJob> job = runtime.jobs().Find(header.job_id());
  if (!job)
    return ToStatus({.status = absl::NotFoundError("the job has ended"), .reason = "JOB_UNKNOWN"});
  const ContributionKey key{header.fragment(), header.version(), header.pool(),
                            header.incarnation()};
  const RoundKind kind = *RoundKindFromProto(header.kind());
  const ContributionBegins begins{job->id(),    key.pool,    key.incarnation,
                                  key.fragment, key.version, kind};
  if (const absl::Status appended = Append(runtime, *job, key, header, blocks); !appended.ok()) {
    // A version that went on while the bytes came: the core says it in the contract's words.
    if (absl::IsFailedPrecondition(appended)) LH_RETURN_IF_ERROR(runtime.Judge(begins));
    return appended;
  }
  v1::PushResponse response;
  response.set_contribution_complete(job->contributions().Whole(key));
  if (!response.contribution_complete()) return response;
  LH_RETURN_IF_ERROR(
      runtime.Complete({job->id(), key.pool, key.incarnation, key.fragment, key.version, kind}));
  return response;
}

PushHandler MakePushHandler(Runtime* runtime) {
  // The header names what the end of the stream is booked to.
  auto account = std::make_shared<StreamAccount>();
  return {
      .on_header = [runtime,
                    account](const v1::PushHeader& header) -> absl::StatusOr<StreamLimits> {
        LH_ASSIGN_OR_RETURN(StreamLimits limits, AcceptPush(*runtime, header));
        *account = {runtime->jobs().Find(header.job_id()),
                    CodecName(static_cast<CodecKind>(header.codec()))};
        if (account->job && std::isfinite(header.nmse())) {
          runtime->parts()
              .metrics->uplink_nmse
              .With({{"job", account->job->name()}, {"fragment", absl::StrCat(header.fragment())}})
              .Set(header.nmse());
        }
        return limits;
      },
      .on_complete =
          [runtime](const v1::PushHeader& header, CodedBlocks blocks) {
            return TakePush(*runtime, header, std::move(blocks));
          },
      .on_end =
          [runtime, account](const absl::Status& status, const WireBytes& bytes) {
            BookStream(*runtime, "up", *account, status, bytes);
          }};
}

}  // namespace longhaul::coordinator
