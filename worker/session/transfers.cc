#include "worker/session/transfers.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/checked_math.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/channel.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/fragment_pull.h"
#include "common/rpc/segment_limit.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "worker/session/error_reason.h"

namespace longhaul::session {
namespace {

constexpr int kAttemptsToTell = 4;
// The deadline of one attempt.
constexpr absl::Duration kAttempt = absl::Minutes(10);

}  // namespace

// Decides whether another attempt may succeed.
class Transfers::Failures {
 public:
  // More has arrived. So damage before it says nothing about what comes. Thread-safe.
  void Progress() {
    damaged_ = 0;
    stands_ = 0;
    progress_ = true;
  }
  // Since the last TakeProgress.
  bool progress() const { return progress_; }
  bool TakeProgress() { return progress_.exchange(false); }
  bool MayRetry(const absl::Status& failure) {
    switch (failure.code()) {
      case absl::StatusCode::kUnavailable:
      // The server cancels calls when it shuts down. Retry itself handles `stop`.
      case absl::StatusCode::kCancelled:
      // The deadline of this attempt only.
      case absl::StatusCode::kDeadlineExceeded:
        return true;
      case absl::StatusCode::kDataLoss:
      // A stream that broke within a message.
      case absl::StatusCode::kInternal:
      case absl::StatusCode::kUnknown:
        return std::max(++damaged_, mismatches_) < kDamagedMax;
      case absl::StatusCode::kResourceExhausted:
        return RetryDelayOf(failure).has_value();
      default:
        // A restarted coordinator does not know the pool until its agent has joined again.
        return ReasonOf(failure) == "POOL_UNKNOWN";
    }
  }
  // This attempt stood still. Returns how many did in a row.
  int AddStand() { return ++stands_; }
  // All blocks arrived, but their digest differs.
  void AddMismatch() { ++mismatches_; }

 private:
  // Attempts since something arrived.
  std::atomic<int> damaged_ = 0, stands_ = 0;
  std::atomic<bool> progress_ = false;
  int mismatches_ = 0;
};

namespace {

std::vector<Digest128> DigestsOf(const FragmentPull& pull) {
  std::vector<Digest128> digests;
  for (int i = 0; i < pull.parts(); ++i) {
    const v1::Digest& digest = pull.part(i).header.digest();
    digests.push_back(DigestFromProto(digest));
  }
  return digests;
}

}  // namespace

Transfers::Transfers(Options options)
    : options_(std::move(options)),
      up_(std::max(1, options_.channels)),
      down_(std::max(1, options_.channels)) {
  if (options_.push_bytes_per_second > 0) pacer_.emplace(options_.push_bytes_per_second);
  absl::MutexLock lock(&mutex_);
  channels_[options_.coordinator] = Dial(options_.coordinator);
}

void Transfers::SetEndpoint(int fragment, const std::string& endpoint) {
  absl::MutexLock lock(&mutex_);
  if (endpoint.empty()) {
    endpoints_.erase(fragment);
  } else {
    endpoints_[fragment] = endpoint;
  }
  // Drops the channels to endpoints that the plan no longer names.
  for (auto it = channels_.begin(); it != channels_.end();) {
    const bool used =
        it->first == options_.coordinator ||
        absl::c_any_of(endpoints_, [&](const auto& e) { return e.second == it->first; });
    it = used ? std::next(it) : channels_.erase(it);
  }
}

void Transfers::Redial() {
  absl::MutexLock lock(&mutex_);
  channels_.clear();
}

std::shared_ptr<const Transfers::Channels> Transfers::Dial(const std::string& endpoint) {
  auto channels = std::make_shared<Channels>();
  for (int i = 0; i < std::max(1, options_.channels); ++i) {
    channels->push_back(MakeChannel({.address = endpoint,
                                     .kind = ChannelKind::kBulk,
                                     .tls = options_.tls,
                                     .small_segments = small_segments_.contains(endpoint)}));
  }
  return channels;
}

Transfers::Route Transfers::RouteOf(int fragment) {
  absl::MutexLock lock(&mutex_);
  const auto named = endpoints_.find(fragment);
  const std::string& endpoint = named == endpoints_.end() ? options_.coordinator : named->second;
  std::shared_ptr<const Channels>& channels = channels_[endpoint];
  if (channels == nullptr) channels = Dial(endpoint);
  return {endpoint, channels};
}

void Transfers::Reroute(int stands, Route& route) {
  absl::MutexLock lock(&mutex_);
  if (stands >= kStandsMax && small_segments_.insert(route.endpoint).second) {
    options_.log.Warning(absl::StrCat(
        "bulk bytes to ", route.endpoint, " stalled ", stands,
        " times while small calls passed: large packets seem to be lost on the network (a tunnel "
        "or VPN with a smaller MTU?). From now on they are sent in segments of ",
        kSmallSegmentBytes, " bytes"));
    channels_.erase(route.endpoint);
  }
  if (!small_segments_.contains(route.endpoint)) return;
  std::shared_ptr<const Channels>& channels = channels_[route.endpoint];
  if (channels == nullptr) channels = Dial(route.endpoint);
  route.channels = channels;
}

template <typename Call>
absl::Status Transfers::WithRetries(Route route, const std::stop_token& stop, Failures& failures,
                                    StreamLimit& streams, Call&& call) {
  Random random(std::hash<std::string>()(options_.incarnation), calls_++);
  absl::Time begun;
  // By the server, after the last failure.
  absl::Duration asked;
  const RetryOptions options{
      .backoff = options_.backoff,
      .deadline = absl::InfiniteFuture(),
      .stop = stop,
      .clock = clock_.get(),
      .random = &random,
      .wait =
          [&](absl::Duration wait, const std::stop_token& stopped) {
            AwaitNextAttempt(*route.channels, failures.TakeProgress() ? asked : wait, stopped);
          },
      .retriable =
          [&](const absl::Status& failure) {
            const absl::Duration took = clock_->Now() - begun;
            asked = RetryDelayOf(failure).value_or(absl::ZeroDuration());
            // The server ends a stream on which no whole chunk passed for long, and what passed of
            // that chunk is lost. On a link that is too slow for all streams together, none would
            // ever bring one.
            const bool ended = absl::IsDeadlineExceeded(failure) || absl::IsCancelled(failure);
            if (ended && took >= options_.slow_attempt) streams.TooSlow();
            const bool stood = absl::IsUnavailable(failure) && took >= options_.stood_still &&
                               !failures.progress();
            if (!stop.stop_requested()) Reroute(stood ? failures.AddStand() : 0, route);
            const bool again = failures.MayRetry(failure);
            if (again && (absl::IsDataLoss(failure) || absl::IsInternal(failure)))
              options_.log.Warning(absl::StrCat(failure.message(), "; trying again"));
            return again;
          },
      .on_retry =
          [&](const absl::Status& failure, int attempt, absl::Duration) {
            // A path may carry control calls and no bulk. Told more and more seldom.
            const int attempts = attempt + 1;
            if (attempts < kAttemptsToTell || (attempts & attempt) != 0) return;
            options_.log.Warning(absl::StrCat("a transfer failed ", attempts, " times, at last by ",
                                              absl::StatusCodeToString(failure.code()), ": ",
                                              failure.message(), "; trying again"));
          }};
  return Retry(options, [&] {
    begun = clock_->Now();
    WireBytes wire;
    const absl::Status status =
        call(*route.channels, BulkCall{.deadline = SteadyTime() + kAttempt,
                                       .stop = stop,
                                       .wire = &wire,
                                       .pacer = pacer_ ? &*pacer_ : nullptr});
    if (status.ok()) streams.Passed(wire.payload, clock_->Now() - begun);
    return status;
  });
}

bool Transfers::Begun(int fragment, int64_t version) {
  absl::MutexLock lock(&mutex_);
  const auto [it, inserted] = begun_.try_emplace(fragment, version);
  return !inserted && std::exchange(it->second, version) == version;
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
  header.set_weight(static_cast<double>(contribution->weight));
  header.set_nmse(contribution->nmse);
  header.set_inner_step(inner_step);
  const CodedBlocks* blocks = &contribution->blocks;
  const CodedSource source =
      SourceOf(std::shared_ptr<const CodedBlocks>(std::move(contribution), blocks),
               [&codec](int32_t elements) { return codec.PayloadBytes(elements); });
  Failures failures;
  bool begun = Begun(fragment, version);
  int64_t missing_bytes = source.payload_bytes();
  ChunkSize chunk_size;
  // The last attempt sent chunks. Whether they have arrived is known when the server is asked.
  bool sent = false;
  const auto attempt = [&](const Channels& channels, BulkCall call) -> absl::Status {
    CodedSource missing = source;
    if (std::exchange(begun, true)) {
      LH_ASSIGN_OR_RETURN(const HeldBlocks held, GetContribution(channels.front(), header, call));
      missing = Missing(source, held.blocks);
      if (missing.segments.empty()) return absl::OkStatus();
      if (missing.payload_bytes() < std::exchange(missing_bytes, missing.payload_bytes())) {
        failures.Progress();
      } else if (sent) {
        chunk_size.Halve();
      }
    }
    call.chunk_size = chunk_size;
    const int streams = StreamCount(up_.most(), missing_bytes, options_.push_bytes_per_second);
    const absl::Status pushed =
        PushBlocks(BulkChannels(channels).first(streams), header, missing, call).status();
    sent = call.wire->payload > 0;
    return pushed;
  };
  return WithRetries(RouteOf(fragment), stop, failures, up_, attempt);
}

absl::StatusOr<int64_t> Transfers::Pull(const PullOptions& options, PulledParameters& into,
                                        const std::stop_token& stop) {
  const bool probe = options.map->blocks().empty();
  if (probe && !options.whole) {
    into.SetParts(0);
    LH_RETURN_IF_ERROR(into.Verify(options.version, {}));
    return options.version;
  }
  v1::PullRequest request;
  request.set_job_id(options_.job);
  request.set_pool(options_.pool);
  request.set_incarnation(options_.incarnation);
  request.set_fragment(options.fragment);
  request.set_version(options.version);
  request.set_whole(options.whole);
  // A rank that owns nothing of a small fragment asks for one block, to learn which version the
  // other ranks get.
  const std::vector<BlockRange> blocks =
      probe ? std::vector<BlockRange>{{0, 1}} : options.map->blocks();
  *request.mutable_blocks() = BlocksToProto(blocks);
  const int64_t elements = options.map->layout().elements;
  const Codec& codec = *options.codec;
  const int64_t payload = codec.FragmentBytesMax(ElementsOf(blocks, elements));
  const auto check = [&](const v1::PullHeader& header) -> absl::StatusOr<StreamLimits> {
    if ((!options.whole && header.version() != options.version) ||
        header.codec() != static_cast<v1::Codec>(codec.kind())) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "fragment %d: asked for version %d in %s, was sent version %d in codec %d",
          options.fragment, options.version, codec.name(), header.version(), header.codec()));
    }
    return StreamLimits{
        .fragment_elements = elements,
        .payload_bytes_max = payload,
        .segment_bytes = [&codec](int32_t size) { return codec.PayloadBytes(size); }};
  };
  Failures failures;
  const PullSink sink = {.on_begin =
                             [&](int part) {
                               if (!probe) into.Begin(part);
                             },
                         .on_chunk =
                             [&](int part, const CodedChunk& chunk) {
                               failures.Progress();
                               return probe ? absl::OkStatus() : into.Take(part, chunk);
                             }};
  std::optional<FragmentPull> pull;
  int64_t version = options.version;
  const auto attempt = [&](const Channels& all, const BulkCall& call) -> absl::Status {
    const BulkChannels channels =
        BulkChannels(all).first(StreamCount(down_.most(), payload, /*paced_bytes_per_second=*/0));
    if (!pull.has_value()) {
      pull.emplace(request, static_cast<int>(channels.size()), check, sink);
      into.SetParts(probe ? 0 : pull->parts());
    }
    LH_RETURN_IF_ERROR(pull->Attempt(channels, call));
    version = pull->part(0).header.version();
    const absl::Status verified =
        into.Verify(version, probe ? std::vector<Digest128>{} : DigestsOf(*pull));
    // Any of the blocks may be wrong, so all are requested again.
    if (!verified.ok()) {
      failures.AddMismatch();
      pull.reset();
    }
    return verified;
  };
  ChunkSize chunk_size;
  const auto sized = [&](const Channels& all, BulkCall call) {
    call.chunk_size = chunk_size;
    const absl::Status status = attempt(all, call);
    // The answer began, and its path may break before a chunk of this size has passed.
    if (!status.ok() && call.wire->total > 0 && !failures.progress()) chunk_size.Halve();
    if (absl::IsDataLoss(status) && options_.on_damaged_pull) options_.on_damaged_pull();
    return status;
  };
  LH_RETURN_IF_ERROR(WithRetries(RouteOf(options.fragment), stop, failures, down_, sized));
  return version;
}

}  // namespace longhaul::session
