// Answers a pull: blocks of a downlink or of the outer parameters, with the digest of the
// parameters that the pool must have afterwards.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/refusal.h"
#include "coordinator/fragments/stream_account.h"

namespace longhaul::coordinator {
namespace {

struct Pull {
  std::shared_ptr<JobFragments> job;
  JobStore* store = nullptr;
  int fragment = 0;
  int64_t version = 0;
  std::vector<BlockRange> blocks;
};

absl::StatusOr<Pull> Check(const Fragments& fragments, const v1::PullRequest& request) {
  Pull pull{.job = fragments.Find(request.job_id()),
            .fragment = request.fragment(),
            .version = request.version()};
  if (!pull.job) return UnknownJob(request.job_id());
  if (!pull.job->Has(pull.fragment)) return UnknownFragment(pull.fragment);
  // -1 means the newest.
  if (pull.version < (request.whole() ? -1 : 0)) {
    return BadRequestError(
        {{"version", absl::StrCat(pull.version, " is not a version: give one from 0",
                                  request.whole() ? ", or -1 for the newest" : "")}});
  }
  LH_RETURN_IF_ERROR(fragments.parts().arbiter->CheckReader(request.job_id(), request.pool(),
                                                            request.incarnation()));
  pull.blocks = BlocksFromProto(request.blocks());
  LH_RETURN_IF_ERROR(CheckBlocksField(pull.blocks, pull.job->elements(pull.fragment)));
  pull.store = pull.job->store();
  if (pull.store == nullptr) return NotSeeded(pull.fragment);
  return pull;
}

absl::StatusOr<PullSource> ReadWhole(const Pull& pull) {
  LH_ASSIGN_OR_RETURN(const int64_t newest, pull.store->Version(pull.fragment));
  if (newest < 0) return NotSeeded(pull.fragment);
  LH_ASSIGN_OR_RETURN(OuterBlocks read, pull.store->ReadOuter(pull.fragment, pull.blocks));
  if (pull.version >= 0 && pull.version != read.version) {
    return VersionMismatch(pull.fragment, pull.version, read.version);
  }
  PullSource answer;
  answer.header.set_version(read.version);
  answer.header.set_codec(v1::FP32);
  Digester digester;
  for (const absl::Span<const float> values : read.values) digester.Update(values);
  *answer.header.mutable_digest() = ToProto(digester.Value());
  answer.source.segments = CutSegments(pull.blocks, pull.job->elements(pull.fragment));
  answer.source.owner = std::move(read.owner);
  // The payload of fp32 is the values as they lie in memory. A segment lies in one range.
  auto range = read.values.begin();
  for (const SegmentRef& segment : answer.source.segments) {
    if (range->empty()) ++range;
    const absl::Span<const float> values = range->first(segment.elements);
    range->remove_prefix(values.size());
    answer.source.payloads.emplace_back(reinterpret_cast<const uint8_t*>(values.data()),
                                        values.size() * sizeof(float));
  }
  return answer;
}

absl::StatusOr<PullSource> ReadDownlink(const Pull& pull) {
  absl::StatusOr<DownlinkBlocks> read =
      pull.store->ReadDownlink(pull.fragment, pull.version, pull.blocks);
  LH_ASSIGN_OR_RETURN(const OuterDigest digest,
                      pull.store->DigestOuter(pull.fragment, pull.blocks));
  // The digest is read second. So if its version is the requested one, the downlink was of that
  // version too.
  if (digest.version != pull.version)
    return VersionMismatch(pull.fragment, pull.version, digest.version);
  LH_RETURN_IF_ERROR(read.status());
  PullSource answer;
  answer.header.set_version(digest.version);
  // CodecKind and v1::Codec have the same numbers.
  answer.header.set_codec(static_cast<v1::Codec>(read->codec));
  *answer.header.mutable_digest() = ToProto(digest.digest);
  answer.source.segments = std::move(read->segments);
  answer.source.payloads = std::move(read->payloads);
  answer.source.owner = std::move(read->owner);
  return answer;
}

// One stream. The functions of its handler share it.
class PullStream {
 public:
  explicit PullStream(Fragments* fragments) : fragments_(fragments) {}

  absl::StatusOr<PullSource> Read(const v1::PullRequest& request) {
    LH_ASSIGN_OR_RETURN(const Pull pull, Check(*fragments_, request));
    absl::StatusOr<PullSource> answer = request.whole() ? ReadWhole(pull) : ReadDownlink(pull);
    fragments_->Note(*pull.job, answer.status());
    if (answer.ok())
      account_ = {pull.job, pull.fragment,
                  CodecName(static_cast<CodecKind>(answer->header.codec()))};
    return answer;
  }

  void End(const absl::Status& status, const WireBytes& bytes) const {
    account_.Book(fragments_->parts(), "down", status, bytes);
  }

 private:
  Fragments* const fragments_;
  StreamAccount account_;
};

}  // namespace

PullHandler Fragments::MakePullHandler() {
  auto stream = std::make_shared<PullStream>(this);
  return {.on_request = [stream](const v1::PullRequest& request) { return stream->Read(request); },
          .on_end = [stream](const absl::Status& status,
                             const WireBytes& bytes) { stream->End(status, bytes); }};
}

}  // namespace longhaul::coordinator
