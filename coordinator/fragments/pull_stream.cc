// Answers a pull: blocks of a downlink or of the outer parameters, with the digest of the
// parameters that the pool must have afterwards. Each chunk is copied when it is sent, if the
// fragment still has the version of the header. So no reader keeps a copy, however slow it is. If a
// round was applied meanwhile, the stream ends, and the pool pulls the newer version.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/refusal.h"
#include "coordinator/fragments/stream_account.h"

namespace longhaul::coordinator {
namespace {

struct Pull {
  std::shared_ptr<JobFragments> job;
  std::shared_ptr<SharedStore> store;
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

// The requested blocks, chunk by chunk.
class Chunks {
 public:
  // `codec` outlives it.
  Chunks(std::vector<BlockRange> blocks, int64_t elements, const Codec* codec)
      : blocks_(std::move(blocks)), elements_(elements), codec_(codec) {}

  // The blocks of the next chunk, as large as it may be. Each range is a segment. Empty at the end.
  std::vector<BlockRange> Next() {
    std::vector<BlockRange> chunk;
    int64_t bytes = 0;
    while (range_ < blocks_.size() && chunk.size() < kChunkSegmentsMax) {
      const BlockRange& range = blocks_[range_];
      const int64_t first = range.first + done_;
      const int64_t tile_end = (first / kTileBlocks + 1) * kTileBlocks;
      const BlockRange segment = {first, std::min(range.end(), tile_end) - first};
      bytes += codec_->PayloadBytes(static_cast<int32_t>(ElementsOf(segment, elements_)));
      if (!chunk.empty() && bytes > kPayloadBytesMax) break;
      chunk.push_back(segment);
      done_ += segment.count;
      if (done_ < range.count) continue;
      ++range_;
      done_ = 0;
    }
    return chunk;
  }
  // Of all chunks that are left.
  int64_t payload_bytes() const {
    Chunks rest = *this;
    int64_t bytes = 0;
    for (auto chunk = rest.Next(); !chunk.empty(); chunk = rest.Next()) {
      for (const BlockRange& segment : chunk)
        bytes += codec_->PayloadBytes(static_cast<int32_t>(ElementsOf(segment, elements_)));
    }
    return bytes;
  }

 private:
  const std::vector<BlockRange> blocks_;
  const int64_t elements_;
  const Codec* const codec_;
  // The range that comes next, and how many of its blocks have come.
  size_t range_ = 0;
  int64_t done_ = 0;
};

// Why a chunk could not be read: the error, or that the fragment has a newer version.
absl::Status WhyNot(const Pull& pull, int64_t version, const absl::Status& error) {
  const absl::StatusOr<int64_t> have = (*pull.store)->Version(pull.fragment);
  if (!have.ok() || *have == version) return error;
  return pull.version < 0 ? CommittedMeanwhile(pull.fragment, version, *have)
                          : VersionMismatch(pull.fragment, version, *have);
}

absl::StatusOr<PullSource> Read(const Pull& pull, bool whole) {
  LH_ASSIGN_OR_RETURN(const int64_t newest, (*pull.store)->Version(pull.fragment));
  if (newest < 0) return NotSeeded(pull.fragment);
  LH_ASSIGN_OR_RETURN(const OuterDigest digest,
                      (*pull.store)->DigestOuter(pull.fragment, pull.blocks));
  const int64_t version = digest.version;
  if ((pull.version >= 0 || !whole) && pull.version != version)
    return VersionMismatch(pull.fragment, pull.version, version);
  if (!whole && !digest.has_downlink) {
    return absl::FailedPreconditionError(
        absl::StrCat("version ", version, " of fragment ", pull.fragment, " has no downlink"));
  }
  const Codec& codec = whole ? pull.job->exact() : pull.job->down();
  Chunks chunks(pull.blocks, pull.job->elements(pull.fragment), &codec);
  PullSource answer;
  answer.header.set_version(version);
  // CodecKind and v1::Codec have the same numbers.
  answer.header.set_codec(static_cast<v1::Codec>(codec.kind()));
  *answer.header.mutable_digest() = ToProto(digest.digest);
  answer.header.set_payload_bytes(chunks.payload_bytes());
  answer.next = [pull, whole, version, chunks]() mutable -> absl::StatusOr<CodedBlocks> {
    if (pull.store->closing()) return absl::UnavailableError("the job's store is closed");
    const std::vector<BlockRange> blocks = chunks.Next();
    absl::StatusOr<CodedBlocks> chunk =
        whole ? (*pull.store)->ReadOuter(pull.fragment, version, blocks)
              : (*pull.store)->ReadDownlink(pull.fragment, version, blocks);
    if (!chunk.ok()) chunk = WhyNot(pull, version, chunk.status());
    return chunk;
  };
  return answer;
}

// One stream. The functions of its handler share it.
class PullStream {
 public:
  explicit PullStream(Fragments* fragments) : fragments_(fragments) {}

  absl::StatusOr<PullSource> Begin(const v1::PullRequest& request) {
    LH_ASSIGN_OR_RETURN(const Pull pull, Check(*fragments_, request));
    absl::StatusOr<PullSource> answer = Read(pull, request.whole());
    fragments_->Note(*pull.job, answer.status());
    if (!answer.ok()) return answer;
    account_ = {pull.job, pull.fragment, CodecName(static_cast<CodecKind>(answer->header.codec()))};
    answer->next = [fragments = fragments_, job = pull.job, next = std::move(answer->next)] {
      absl::StatusOr<CodedBlocks> chunk = next();
      fragments->Note(*job, chunk.status());
      return chunk;
    };
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
  return {.on_request = [stream](const v1::PullRequest& request) { return stream->Begin(request); },
          .on_end = [stream](const absl::Status& status,
                             const WireBytes& bytes) { stream->End(status, bytes); }};
}

}  // namespace longhaul::coordinator
