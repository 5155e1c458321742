#include "worker/session/fragment_exchange.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/codec_proto.h"
#include "worker/session/error_reason.h"
#include "worker/session/noise_key.h"
#include "worker/session/plan_conversion.h"

namespace longhaul::session {
namespace {

// Of each direction.
constexpr Executor::Options kTransferThreads = {.threads = 2, .queue_max = 1 << 16};

absl::Status Begin(Executor& executor, Executor::Task task) {
  if (executor.Submit(std::move(task))) return absl::OkStatus();
  return absl::ResourceExhaustedError("too many transfers wait in the background");
}

}  // namespace

FragmentExchange::FragmentExchange(Options options, Handler handler)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      transfers_(options_.transfers),
      pushes_(kTransferThreads),
      pulls_(kTransferThreads) {}

absl::Status FragmentExchange::TakePlan(const v1::Plan& plan, const Replica& replica) {
  if (fragments_.empty()) {
    LH_ASSIGN_OR_RETURN(const std::vector<FragmentLayout> layouts,
                        LayoutsFromProto(plan, replica.layout()));
    LH_ASSIGN_OR_RETURN(up_, MakeCodec(CodecOptionsOf(plan.up())));
    LH_ASSIGN_OR_RETURN(down_, MakeCodec(CodecOptionsOf(plan.down())));
    LH_ASSIGN_OR_RETURN(exact_, MakeCodec({.kind = CodecKind::kFp32}));
    for (const FragmentLayout& layout : layouts) {
      fragments_.push_back(std::make_unique<OuterFragment>(
          FragmentMap(layout,
                      OwnedBlocks(layout, [&](int unit) { return replica.OwnedBlocks(unit); })),
          OuterFragment::Options{.up = up_.get(),
                                 .down = down_.get(),
                                 .exact = exact_.get(),
                                 .error_feedback = plan.up().error_feedback() && !up_->exact(),
                                 .device = options_.device_codec,
                                 .log = options_.log,
                                 .spare = spare_,
                                 .team = options_.team}));
    }
  } else if (plan.fragments_size() != static_cast<int>(fragments_.size())) {
    return absl::InvalidArgumentError("the coordinator's plan changed its fragments");
  }
  for (const v1::FragmentPlan& fragment : plan.fragments()) {
    transfers_.SetEndpoint(fragment.fragment(), fragment.endpoint());
  }
  return absl::OkStatus();
}

absl::Status FragmentExchange::TakeSnapshot(Replica& replica, int fragment, int64_t version,
                                            RoundKind kind, int64_t weight) {
  return fragments_[fragment]->TakeSnapshot(
      replica,
      {.version = version,
       .kind = kind,
       .weight = weight,
       .noise_key = NoiseKeyOf(options_.noise_seed, options_.transfers.pool, fragment, version)});
}

absl::Status FragmentExchange::Push(const Connection& connection,
                                    const Contribution& contribution) {
  return Begin(pushes_, [=, this] { SendNow(connection, contribution); });
}

absl::Status FragmentExchange::PullWhole(const Connection& connection, int fragment) {
  return Begin(pulls_, [=, this] { PullWholeNow(connection, fragment); });
}

absl::Status FragmentExchange::Pull(const Connection& connection, int fragment, int64_t version) {
  return Begin(pulls_, [=, this] {
    const absl::Status status = PullNow(connection, fragment, version);
    if (status.ok()) return handler_.on_event(connection, Pulled{fragment, version});
    handler_.on_event(connection, PullRefused{fragment, status, ReasonOf(status)});
  });
}

FragmentExchange::UplinkQuality FragmentExchange::uplink_quality() const {
  absl::MutexLock lock(&mutex_);
  return uplink_quality_;
}

void FragmentExchange::SendNow(const Connection& connection, const Contribution& contribution) {
  const auto [fragment, version, step] = contribution;
  OuterFragment& outer = *fragments_[fragment];
  // Also when the connection is lost: the next plan asks for the bytes.
  auto coded = outer.Encode(version);
  if (!coded.ok()) return handler_.on_fault(coded.status());
  if (*coded == nullptr) return;
  const RoundKind kind = (*coded)->kind;
  if (kind != RoundKind::kSeed) {
    absl::MutexLock lock(&mutex_);
    uplink_quality_ = {(*coded)->nmse, (*coded)->feedback_norm};
  }
  absl::Status status;
  if (!outer.map().blocks().empty()) {
    const Codec& codec = kind == RoundKind::kSeed ? *exact_ : *up_;
    status = transfers_.Push(fragment, version, kind, codec, *std::move(coded), step,
                             connection.stop.get_token());
  }
  if (status.ok()) return handler_.on_event(connection, PushDone{fragment, version});
  if (connection.stop.stop_requested()) return;
  const std::string reason = ReasonOf(status);
  // A job may end at any time, by a user's wish, too.
  options_.log.Log(reason == "JOB_ENDED" ? LogLevel::kInfo : LogLevel::kWarning,
                   absl::StrFormat("push of fragment %d version %d was refused: %s", fragment,
                                   version, status.message()));
  handler_.on_event(connection,
                    PushRefused{fragment, version, status, reason, HaveVersion(status)});
}

void FragmentExchange::PullWholeNow(const Connection& connection, int fragment) {
  OuterFragment& outer = *fragments_[fragment];
  PulledParameters pulled = outer.BeginWhole();
  const absl::StatusOr<int64_t> version = transfers_.Pull(
      {.map = &outer.map(), .fragment = fragment, .whole = true, .codec = exact_.get()}, pulled,
      connection.stop.get_token());
  if (!version.ok()) {
    return handler_.on_event(connection,
                             PullRefused{fragment, version.status(), ReasonOf(version.status())});
  }
  // The next connection may have pulled a newer version already.
  if (connection.stop.stop_requested()) return;
  outer.LoadWhole(*version, std::move(pulled));
  handler_.on_event(connection, PulledWhole{fragment, *version});
}

absl::Status FragmentExchange::PullNow(const Connection& connection, int fragment,
                                       int64_t version) {
  OuterFragment& outer = *fragments_[fragment];
  LH_ASSIGN_OR_RETURN(std::optional<PulledParameters> pulled, outer.BeginDownlink(version));
  if (!pulled.has_value()) return absl::OkStatus();
  LH_RETURN_IF_ERROR(
      transfers_
          .Pull(
              {.map = &outer.map(), .fragment = fragment, .version = version, .codec = down_.get()},
              *pulled, connection.stop.get_token())
          .status());
  if (connection.stop.stop_requested()) return absl::CancelledError("the connection is gone");
  return outer.StageDownlink(version, *std::move(pulled));
}

}  // namespace longhaul::session
