#include "coordinator/service/pull_source.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/names.h"
#include "coordinator/service/refusal.h"
#include "coordinator/service/stream_accounts.h"

namespace longhaul::coordinator {
namespace {

struct Pull {
  std::shared_ptr<LiveJob> job;
  JobStore* store = nullptr;
  int fragment = 0;
  int64_t version = 0;
  std::vector<BlockRange> blocks;
};

absl::StatusOr<Pull> Check(Runtime& runtime, const v1::PullRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(request.pool(), request.incarnation()));
  Pull pull{.job = runtime.jobs().Find(request.job_id()),
            .fragment = request.fragment(),
            .version = request.version()};
  if (!pull.job) {
    return ToStatus({.status = absl::NotFoundError(absl::StrCat("no live job ", request.job_id())),
                     .reason = "JOB_UNKNOWN"});
  }
  if (!pull.job->HasFragment(pull.fragment)) {
    return ToStatus({.status = absl::NotFoundError(absl::StrCat("no fragment ", pull.fragment)),
                     .reason = "FRAGMENT_UNKNOWN"});
  }
  LH_RETURN_IF_ERROR(pull.job->CheckPlace(request.pool(), request.incarnation()));
  pull.blocks = BlocksFromProto(request.blocks());
  LH_RETURN_IF_ERROR(CheckBlocksField(pull.blocks, pull.job->elements(pull.fragment)));
  pull.store = pull.job->store();
  if (pull.store == nullptr) {
    return ToStatus(
        {.status = absl::FailedPreconditionError("the job has no initial parameters yet"),
         .reason = "NOT_SEEDED"});
  }
  return pull;
}

absl::StatusOr<PullSource> ReadWhole(const Pull& pull) {
  LH_ASSIGN_OR_RETURN(const int64_t newest, pull.store->Version(pull.fragment));
  if (newest < 0) {
    return ToStatus({.status = absl::FailedPreconditionError(
                         absl::StrCat("fragment ", pull.fragment, " is not seeded yet")),
                     .reason = "NOT_SEEDED"});
  }
  LH_ASSIGN_OR_RETURN(OuterBlocks read, pull.store->ReadOuter(pull.fragment, pull.blocks));
  if (pull.version >= 0 && pull.version != read.version) {
    return VersionMismatch(pull.fragment, pull.version, read.version);
  }
  const auto outer = std::make_shared<const OuterBlocks>(std::move(read));
  PullSource answer;
  answer.header.set_version(outer->version);
  answer.header.set_codec(v1::FP32);
  *answer.header.mutable_digest() = ToProto(DigestOf(BytesOf(outer->values)));
  answer.source.segments = CutSegments(pull.blocks, pull.job->elements(pull.fragment));
  answer.source.owner = outer;
  // fp32 payloads are the values as they lie in memory.
  const auto* next = reinterpret_cast<const uint8_t*>(outer->values.data());
  for (const SegmentRef& segment : answer.source.segments) {
    answer.source.payloads.emplace_back(next, segment.elements * sizeof(float));
    next += segment.elements * sizeof(float);
  }
  return answer;
}

absl::StatusOr<PullSource> ReadDownlink(const Pull& pull) {
  absl::StatusOr<DownlinkBlocks> read =
      pull.store->ReadDownlink(pull.fragment, pull.version, pull.blocks);
  LH_ASSIGN_OR_RETURN(const OuterDigest digest,
                      pull.store->DigestOuter(pull.fragment, pull.blocks));
  // The digest is read second: an equal version means that the downlink was of it too.
  if (digest.version != pull.version)
    return VersionMismatch(pull.fragment, pull.version, digest.version);
  LH_RETURN_IF_ERROR(read.status());
  PullSource answer;
  answer.header.set_version(digest.version);
  answer.header.set_codec(ToProto(read->codec));
  *answer.header.mutable_digest() = ToProto(digest.digest);
  for (const SegmentRef& segment : read->segments) {
    answer.source.segments.push_back(
        {segment.first_block, segment.elements, segment.base_exponent});
  }
  answer.source.payloads = std::move(read->payloads);
  answer.source.owner = std::move(read->owner);
  return answer;
}

}  // namespace

absl::StatusOr<PullSource> ReadPull(Runtime& runtime, const v1::PullRequest& request) {
  LH_ASSIGN_OR_RETURN(const Pull pull, Check(runtime, request));
  absl::StatusOr<PullSource> answer = request.whole() ? ReadWhole(pull) : ReadDownlink(pull);
  runtime.Note(answer.status());
  return answer;
}

PullHandler MakePullHandler(Runtime* runtime) {
  auto account = std::make_shared<StreamAccount>();
  return {.on_request = [runtime,
                         account](const v1::PullRequest& request) -> absl::StatusOr<PullSource> {
            LH_ASSIGN_OR_RETURN(PullSource answer, ReadPull(*runtime, request));
            *account = {runtime->jobs().Find(request.job_id()),
                        CodecName(static_cast<CodecKind>(answer.header.codec()))};
            return answer;
          },
          .on_end =
              [runtime, account](const absl::Status& status, const WireBytes& bytes) {
                BookStream(*runtime, "down", *account, status, bytes);
              }};
}

}  // namespace longhaul::coordinator
