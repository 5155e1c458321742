#include "coordinator/service/pool_messages.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/escaped_text.h"
#include "common/base/host_port.h"
#include "common/base/random_hex.h"
#include "common/base/status_macros.h"
#include "common/config/capabilities.h"
#include "common/plan/job/measured_rates.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/submission.h"

namespace longhaul::coordinator {
namespace {

// Limits of one heartbeat.
constexpr int kEvaluationsMax = 1024, kMetricsMax = 32;
// Of those, how many are taken at once: the owner thread looks at each.
constexpr int kEvaluationsTaken = 64;
constexpr size_t kMetricNameMax = 64;
// Limits of what pools tell about themselves.
constexpr int kCapabilitiesMax = 256;
constexpr size_t kCapabilityBytesMax = 64;
constexpr int kKeptJobsMax = 256;

// A text that people are shown.
absl::Status CheckText(const std::string& field, const std::string& text) {
  if (text.size() > kPoolTextBytesMax) {
    return BadRequestError(
        {{field, absl::StrCat("has ", text.size(), " bytes, more than ", kPoolTextBytesMax)}});
  }
  // Quotes and \ stay as they are.
  if (EscapedLine(text) != text) {
    return BadRequestError({{field, "has control characters, or is not UTF-8"}});
  }
  return absl::OkStatus();
}

// The core checks the numbers.
absl::Status CheckNode(const v1::JoinRequest& request) {
  if (request.address().size() > kPoolTextBytesMax ||
      !ParseHostPort(HostPortText(request.address(), 1)).ok()) {
    return BadRequestError({{"address", "is neither a host name nor a numeric address"}});
  }
  if (request.rendezvous_port() < 1 || request.rendezvous_port() > 65535)
    return BadRequestError({{"rendezvous_port", "is not within 1 to 65535"}});
  const auto token = static_cast<int64_t>(request.rendezvous_token().size());
  if (token < kRendezvousTokenBytesMin || token > kRendezvousTokenBytesMax) {
    return BadRequestError(
        {{"rendezvous_token", absl::StrCat("has ", token, " bytes, not ", kRendezvousTokenBytesMin,
                                           " to ", kRendezvousTokenBytesMax)}});
  }
  if (!request.running().empty()) return CheckPool(request.pool(), request.running());
  return absl::OkStatus();
}

// `Request`: JoinRequest or HeartbeatRequest.
template <typename Request>
absl::Status CheckKeptJobs(const Request& request) {
  if (request.kept_jobs_size() > kKeptJobsMax)
    return BadRequestError({{"kept_jobs", absl::StrCat("has more than ", kKeptJobsMax)}});
  for (const std::string& job : request.kept_jobs()) {
    if (job.size() <= kPoolTextBytesMax) continue;
    return BadRequestError(
        {{"kept_jobs", absl::StrCat("one has more than ", kPoolTextBytesMax, " bytes")}});
  }
  return absl::OkStatus();
}

absl::Status CheckMetrics(const v1::Evaluation& evaluation) {
  std::set<absl::string_view> names;
  if (evaluation.metrics_size() > kMetricsMax)
    return BadRequestError(
        {{"evaluations", absl::StrCat("one has more than ", kMetricsMax, " metrics")}});
  for (const v1::Metric& metric : evaluation.metrics()) {
    const absl::string_view name = metric.name();
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
    });
    if (name.empty() || name.size() > kMetricNameMax || !plain || !names.insert(name).second) {
      return BadRequestError(
          {{"evaluations", absl::StrCat("a metric's name is given twice, or is not 1 to ",
                                        kMetricNameMax, " of [a-z0-9_]")}});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckJoin(const PoolCaller& caller, const v1::JoinRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(caller, request.pool(), request.incarnation()));
  LH_RETURN_IF_ERROR(CheckRanks(request.ranks()));
  if (request.capabilities_size() > kCapabilitiesMax) {
    return BadRequestError({{"capabilities", absl::StrCat("has more than ", kCapabilitiesMax)}});
  }
  for (const std::string& capability : request.capabilities()) {
    if (capability.size() <= kCapabilityBytesMax) continue;
    return BadRequestError(
        {{"capabilities", absl::StrCat("one has more than ", kCapabilityBytesMax, " bytes")}});
  }
  LH_RETURN_IF_ERROR(CheckKeptJobs(request));
  if (!request.replaces().empty() && !IsIncarnation(request.replaces()))
    return BadRequestError({{"replaces", absl::StrCat("is not ", kIncarnationForm)}});
  LH_RETURN_IF_ERROR(CheckText("host", request.host()));
  LH_RETURN_IF_ERROR(CheckText("version", request.version()));
  if (const std::vector<SpecViolation> faults = plan::FaultsOf(request.figures(), "figures");
      request.has_figures() && !faults.empty())
    return BadRequestError(ToFieldViolations(faults));
  return request.nodes() > 1 ? CheckNode(request) : absl::OkStatus();
}

absl::Status CheckHeartbeat(const PoolCaller& caller, const v1::HeartbeatRequest& request) {
  LH_RETURN_IF_ERROR(CheckPool(caller, request.pool(), request.incarnation()));
  if (request.evaluations_size() > kEvaluationsMax) {
    return BadRequestError({{"evaluations", absl::StrCat("has more than ", kEvaluationsMax)}});
  }
  for (const v1::Evaluation& evaluation : request.evaluations()) {
    if (evaluation.version() < 0 || evaluation.tokens() < 0)
      return BadRequestError({{"evaluations", "a version or a number of tokens is negative"}});
    LH_RETURN_IF_ERROR(CheckMetrics(evaluation));
  }
  return CheckKeptJobs(request);
}

absl::Status CheckEvaluations(const v1::HeartbeatRequest& request, int64_t steps) {
  const int taken = EvaluationsTaken(request);
  for (int i = 0; i < taken; ++i) {
    const v1::Evaluation& evaluation = request.evaluations(i);
    if (evaluation.step() < 0 || evaluation.step() > steps) {
      return BadRequestError({{"evaluations", absl::StrCat("step ", evaluation.step(),
                                                           " is not within 0 to ", steps)}});
    }
  }
  return absl::OkStatus();
}

JoinPool CommandOf(const v1::JoinRequest& request) {
  JoinPool event{.pool = request.pool(),
                 .incarnation = request.incarnation(),
                 .ranks = request.ranks(),
                 .cuda = request.device() == v1::CUDA,
                 .capabilities = {request.capabilities().begin(), request.capabilities().end()},
                 .replaces = request.replaces()};
  if (request.nodes() <= 1) return event;
  event.nodes = request.nodes();
  if (request.has_node()) event.node = request.node();
  event.node_given = request.node_given();
  event.host = request.address();
  event.rendezvous = HostPortText(event.host, request.rendezvous_port());
  event.token = request.rendezvous_token();
  event.version = request.version();
  event.running = request.running();
  event.fresh = RandomHex();
  event.machine = request.host();
  return event;
}

// They are acknowledged by their step, so those of one step are taken together.
int EvaluationsTaken(const v1::HeartbeatRequest& request) {
  const int all = request.evaluations_size();
  if (all <= kEvaluationsTaken) return all;
  int taken = kEvaluationsTaken;
  while (taken > 0 && request.evaluations(taken).step() <= request.evaluations(taken - 1).step())
    --taken;
  return taken > 0 ? taken : kEvaluationsTaken;
}

Heartbeat CommandOf(const v1::HeartbeatRequest& request) {
  Heartbeat event{.pool = request.pool(),
                  .incarnation = request.incarnation(),
                  .job = request.job_id(),
                  .inner_step = request.progress().inner_step(),
                  .draining = request.draining(),
                  .finished = request.finished(),
                  .merged = request.merged(),
                  .stopping = request.stopping(),
                  .stopped = request.stopped(),
                  .running = request.running()};
  const int taken = EvaluationsTaken(request);
  for (int i = 0; i < taken; ++i) {
    const v1::Evaluation& e = request.evaluations(i);
    event.evaluations.push_back({e.step(), e.version(), e.loss(), e.tokens(), e.final(),
                                 e.of_pool(), MetricsFromProto(e.metrics())});
  }
  if (request.has_failure()) event.fault = FromProto(request.failure());
  return event;
}

LeavePool CommandOf(const v1::LeaveRequest& request) {
  return {request.pool(), request.incarnation(), DurationFromProto(request.return_within())};
}

void Fill(const NodePlace& place, absl::Time now, v1::NodePlace* message) {
  message->set_node(place.node);
  message->set_nodes(place.nodes);
  message->set_incarnation(place.incarnation);
  message->set_first_rank(place.first_rank);
  message->set_ranks(place.ranks);
  message->mutable_ranks_of_node()->Add(place.ranks_of_node.begin(), place.ranks_of_node.end());
  message->set_rendezvous(place.rendezvous);
  message->set_rendezvous_token(place.token);
  if (place.missing.empty()) return;
  message->set_missing(place.missing);
  *message->mutable_missing_for() = ToProto(now - place.since);
}

}  // namespace longhaul::coordinator
