#include "worker/session/plan_watcher.h"

#include <utility>

#include "common/base/random.h"
#include "common/rpc/channel.h"
#include "common/rpc/retry.h"
#include "common/rpc/status_conversion.h"
#include "worker/session/error_reason.h"

namespace longhaul::session {
namespace {

// Whether a later call may succeed. A restarted coordinator does not know the pool until its agent
// has joined again.
bool MayReturn(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kOk:
      return true;
    default:
      return ReasonOf(status) == "POOL_UNKNOWN";
  }
}

}  // namespace

PlanWatcher::PlanWatcher(Options options, Handler handler)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      thread_([this](std::stop_token stop) { Watch(stop); }) {}

PlanWatcher::~PlanWatcher() = default;

void PlanWatcher::Watch(const std::stop_token& stop) {
  const auto channel = MakeChannel({.address = options_.coordinator,
                                    .tls = options_.tls,
                                    .keepalive = kPromptKeepalive,
                                    .small_segments = true});
  const auto stub = v1::SyncService::NewStub(channel);
  Random random(std::hash<std::string>()(options_.incarnation), options_.rank);
  const Backoff backoff{.max = absl::Seconds(2)};
  for (int attempt = 0; !stop.stop_requested(); ++attempt) {
    bool connected = false;
    const absl::Status status = ReadStream(*stub, stop, &connected);
    if (stop.stop_requested()) return;
    if (connected) {
      attempt = 0;
      handler_.on_disconnected(status);
    }
    if (!MayReturn(status)) {
      handler_.on_refused(status);
      return;
    }
    AwaitNextAttempt({&channel, 1}, FullJitter(backoff, attempt, random), stop);
  }
}

absl::Status PlanWatcher::ReadStream(v1::SyncService::Stub& stub, const std::stop_token& stop,
                                     bool* connected) {
  // Without a deadline: the channel's keepalive notices when the coordinator has vanished.
  grpc::ClientContext context;
  const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  v1::WatchPlanRequest request;
  request.set_job_id(options_.job);
  request.set_pool(options_.pool);
  request.set_incarnation(options_.incarnation);
  request.set_rank(options_.rank);
  request.set_ranks(options_.ranks);
  *request.mutable_data() = options_.data;
  const auto reader = stub.WatchPlan(&context, request);
  v1::PlanEvent event;
  while (reader->Read(&event)) {
    *connected = true;
    handler_.on_event(event);
  }
  return FromGrpcStatus(reader->Finish());
}

}  // namespace longhaul::session
