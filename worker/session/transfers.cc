#include "worker/session/transfers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/checked_math.h"
#include "common/base/random.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/channel.h"
#include "common/rpc/retry.h"
#include "common/rpc/round_kind_proto.h"
#include "worker/session/error_reason.h"

namespace longhaul::session {
namespace {

// A restarted coordinator does not know the pool until its agent joined again: as good as away.
absl::Status PoolUnknownIsUnavailable(absl::Status status) {
  return ReasonOf(status) == "POOL_UNKNOWN" ? absl::UnavailableError(status.message()) : status;
}

}  // namespace

Transfers::Transfers(Options options) : options_(std::move(options)) {
  for (int i = 0; i < std::max(1, options_.channels); ++i) {
    channels_.push_back(MakeChannel({.address = options_.coordinator, .kind = ChannelKind::kBulk}));
  }
}

BulkChannels Transfers::ChannelsFor(int64_t bytes) const {
  const int64_t useful = std::max<int64_t>(1, CeilDiv(bytes, 1 << 20));
  return BulkChannels(channels_).first(std::min<size_t>(channels_.size(), useful));
}

template <typename Call>
auto Transfers::WithRetries(const std::stop_token& stop, Call&& call)
    -> decltype(call(absl::Time())) {
  Random random(std::hash<std::string>()(options_.incarnation), calls_++);
  const RetryOptions options{.backoff = {.max = absl::Seconds(2)},
                             .deadline = absl::InfiniteFuture(),
                             .stop = stop,
                             .clock = clock_.get(),
                             .random = &random};
  return Retry(options, [&] { return call(clock_->Now() + options_.attempt); });
}

absl::Status Transfers::Push(int fragment, int64_t version, RoundKind kind, const Codec& codec,
                             std::shared_ptr<const CodedContribution> contribution,
                             int64_t inner_step, const std::stop_token& stop) {
  v1::PushHeader header;
  header.set_job_id(options_.job);
  header.set_pool(options_.pool);
  header.set_incarnation(options_.incarnation);
  header.set_fragment(fragment);
  header.set_version(version);
  header.set_kind(ToProto(kind));
  header.set_codec(static_cast<v1::Codec>(codec.kind()));
  header.set_weight(1);
  header.set_nmse(contribution->nmse);
  header.set_inner_step(inner_step);
  const CodedSource source = SourceOf(std::move(contribution));
  return WithRetries(stop, [&](absl::Time deadline) {
    const BulkCall call{.deadline = deadline, .stop = stop};
    return PoolUnknownIsUnavailable(
        PushBlocks(ChannelsFor(source.payload_bytes()), header, source, call).status());
  });
}

absl::StatusOr<std::vector<PulledBlocks>> Transfers::Pull(const FragmentMap& map, int fragment,
                                                          int64_t version, bool whole,
                                                          const Codec& codec,
                                                          const std::stop_token& stop) {
  v1::PullRequest request;
  request.set_job_id(options_.job);
  request.set_pool(options_.pool);
  request.set_incarnation(options_.incarnation);
  request.set_fragment(fragment);
  request.set_version(version);
  request.set_whole(whole);
  // A rank that owns nothing of a small fragment asks for one block, to learn the version that the
  // others get.
  const FragmentLayout& layout = map.layout();
  const bool probe = map.blocks().empty();
  const std::vector<BlockRange> blocks = probe ? std::vector<BlockRange>{{0, 1}} : map.blocks();
  *request.mutable_blocks() = BlocksToProto(blocks);
  const int64_t payload = codec.PayloadBytes(ElementsOf(blocks, layout.elements));
  const auto check = [&](const v1::PullHeader& header) -> absl::StatusOr<StreamLimits> {
    if ((!whole && header.version() != version) ||
        header.codec() != static_cast<v1::Codec>(codec.kind())) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "fragment %d: asked for version %d in %s, was sent version %d in codec %d", fragment,
          version, codec.name(), header.version(), header.codec()));
    }
    return StreamLimits{
        .fragment_elements = layout.elements,
        .payload_bytes_max = payload,
        .segment_bytes = [&codec](int32_t elements) { return codec.PayloadBytes(elements); }};
  };
  return WithRetries(stop, [&](absl::Time deadline) -> absl::StatusOr<std::vector<PulledBlocks>> {
    auto parts =
        PullBlocks(ChannelsFor(payload), request, check, {.deadline = deadline, .stop = stop});
    if (!parts.ok()) return PoolUnknownIsUnavailable(parts.status());
    for (const PulledBlocks& part : *parts) {
      if (part.header.version() != parts->front().header.version()) {
        return absl::UnavailableError("a commit came between the parts of a fragment");
      }
    }
    return parts;
  });
}

}  // namespace longhaul::session
