#include "common/rpc/reset_watch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "common/base/clock.h"
#include "common/rpc/allocator.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"
#include "grpc/support/log.h"
#include "nlohmann/json.hpp"

namespace longhaul {
namespace {

using Json = nlohmann::json;

// Between two looks; and a look takes at most so small a part of the time.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(100);
constexpr int kLookShare = 50;
// There is nothing to find before so many calls have come.
constexpr int64_t kCallsBetweenLooks = 500;
// gRPC needs some time to end the calls of a connection that was closed.
constexpr absl::Duration kUntilFreed = absl::Seconds(1);

// gRPC writes whole numbers as texts, and leaves out zeros.
int64_t NumberIn(const Json& object, const char* key) {
  int64_t number = 0;
  const auto found = object.find(key);
  if (found != object.end() && found->is_string())
    (void)absl::SimpleAtoi(found->get_ref<const std::string&>(), &number);
  return number;
}

Json Taken(char* text) {
  if (text == nullptr) return Json::object();
  Json json = Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  gpr_free(text);
  return json.is_object() ? json : Json::object();
}

// An empty array where there is none.
Json ListIn(const Json& object, const char* key) { return object.value(key, Json::array()); }

void AddConnection(const Json& socket, std::vector<ConnectionCounts>& all) {
  const Json none = Json::object();
  const Json remote = socket.value("remote", none).value("tcpip_address", none);
  ConnectionCounts found;
  const std::string address = remote.value("ip_address", "");
  if (!absl::Base64Unescape(address, &found.peer.address)) return;
  const auto port = remote.find("port");
  if (port == remote.end() || !port->is_number_integer()) return;
  found.peer.port = port->get<int>();
  const Json data = socket.value("data", none);
  found.calls = {.begun = NumberIn(data, "streamsStarted"),
                 .answered = NumberIn(data, "streamsSucceeded"),
                 .reset = NumberIn(data, "streamsFailed")};
  all.push_back(std::move(found));
}

}  // namespace

bool ResetLimit::IsExceeded(const CallCounts& counts, absl::Time now) {
  const absl::Duration passed = at_ == absl::InfinitePast() ? absl::ZeroDuration() : now - at_;
  at_ = now;
  room_ = std::min(kResetsAtOnce, room_ + kResetsPerSecond * absl::ToDoubleSeconds(passed));
  room_ -= static_cast<double>(counts.reset - std::exchange(resets_, counts.reset));
  return room_ < 0 || counts.begun - counts.answered - counts.reset > kUnansweredMax;
}

std::vector<ConnectionCounts> CountCalls() {
  std::vector<ConnectionCounts> all;
  for (const Json& server : ListIn(Taken(grpc_channelz_get_servers(0)), "server")) {
    const int64_t id = NumberIn(server.value("ref", Json::object()), "serverId");
    for (int64_t next = 0;;) {
      const Json page = Taken(grpc_channelz_get_server_sockets(id, next, /*max_results=*/0));
      const int64_t before = next;
      for (const Json& socket : ListIn(page, "socketRef")) {
        const int64_t of_socket = NumberIn(socket, "socketId");
        next = std::max(next, of_socket + 1);
        const Json found = Taken(grpc_channelz_get_socket(of_socket));
        if (found.contains("socket")) AddConnection(found["socket"], all);
      }
      if (page.value("end", true) || next == before) break;
    }
  }
  return all;
}

ResetWatch::ResetWatch(const CallLimit* calls, Close close)
    : calls_(calls), close_(std::move(close)), thread_([this] { Run(); }) {}

ResetWatch::~ResetWatch() {
  stop_.Notify();
  thread_.join();
}

void ResetWatch::Run() {
  int64_t seen = 0;
  absl::Duration pause = kBetweenLooks;
  while (!stop_.WaitForNotificationWithTimeout(pause)) {
    const absl::Time now = SteadyTime();
    pause = kBetweenLooks;
    if (now > closed_at_ + kUntilFreed && calls_->held() < kConnectionStreamsMax) {
      closed_at_ = absl::InfiniteFuture();
      ReturnFreeMemory(0);
    }
    const int64_t came = calls_->came();
    if (came - seen < kCallsBetweenLooks && calls_->held() < kConnectionStreamsMax) continue;
    seen = came;
    Look(now);
    pause = std::max(kBetweenLooks, kLookShare * (SteadyTime() - now));
  }
}

void ResetWatch::Look(absl::Time now) {
  std::map<Peer, ResetLimit> open;
  for (const auto& [peer, calls] : CountCalls()) {
    const auto known = limits_.find(peer);
    ResetLimit& limit =
        open.emplace(peer, known == limits_.end() ? ResetLimit() : known->second).first->second;
    if (!limit.IsExceeded(calls, now) || !close_(peer)) continue;
    closed_at_ = now;
    gpr_log(GPR_ERROR,
            "a connection is closed, since its client resets calls: of %lld it took back %lld, and "
            "%lld were answered",
            static_cast<long long>(calls.begun), static_cast<long long>(calls.reset),
            static_cast<long long>(calls.answered));
  }
  limits_ = std::move(open);
}

}  // namespace longhaul
