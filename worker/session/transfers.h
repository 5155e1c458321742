// Pushes and pulls of one rank. A transfer that a lost connection interrupted goes on where it
// stopped. Calls block, so they belong on background threads. Thread-safe. Owns the bulk channels.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/codec/codec.h"
#include "common/logging/logging.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/pacer.h"
#include "common/rpc/retry.h"
#include "common/rpc/stall_watch.h"
#include "common/rpc/tls.h"
#include "common/schedule/round_kind.h"
#include "worker/session/outer_fragment.h"

namespace longhaul::session {

class Transfers {
 public:
  // A transfer fails after so many attempts in a row in which bytes were damaged and none arrived.
  static constexpr int kDamagedMax = 4;
  struct Options {
    std::string coordinator, job, pool, incarnation;
    // Null: plaintext.
    std::shared_ptr<const Tls> tls = nullptr;
    // Bulk channels to each endpoint, of which a transfer uses StreamCount (channel_count.h).
    int channels = 1;
    // A limit for all pushes together. 0: none.
    double push_bytes_per_second = 0;
    // An attempt that the server, or its deadline, ends after so long was too slow.
    absl::Duration slow_attempt = StallLimits().pause_max;
    // An attempt that brought nothing and was broken off after so long stood still. (What is sent
    // and not acknowledged ends a connection after 10 s.)
    absl::Duration stood_still = absl::Seconds(5);
    Backoff backoff = {.max = absl::Seconds(2)};
    // Damage is told there, and transfers that fail again and again.
    Logger log = Logger({});
    // Bytes of a pull were damaged. Called on the threads of pulls. May be empty.
    std::function<void()> on_damaged_pull;
  };
  explicit Transfers(Options options);

  // Sets who serves a fragment: HOST:PORT of its plan, or empty for the coordinator. Transfers that
  // have begun keep their endpoint.
  void SetEndpoint(int fragment, const std::string& endpoint);

  // After so many attempts in a row that stood still, connections to that endpoint have small
  // segments (segment_limit.h), for as long as the object lives. What broke is not the path: then
  // the connection of the plan would break, too, and `stop` would be requested.
  static constexpr int kStandsMax = 2;

  // Later transfers use new connections: those of now may be as silent as one that was lost. New
  // ones need the host's name to be found; the old ones would know the address.
  void Redial() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends a contribution. The first attempt sends all of it; later attempts, and later calls for
  // the same version, send what the coordinator lacks. Retries until `stop` when the connection is
  // lost, or the server shuts down or is full; and after damaged bytes or broken streams, unless
  // kDamagedMax attempts in a row brought nothing. Any other error is a refusal by the coordinator.
  // CANCELLED: stopped.
  absl::Status Push(int fragment, int64_t version, RoundKind kind, const Codec& codec,
                    std::shared_ptr<const CodedContribution> contribution, int64_t inner_step,
                    const std::stop_token& stop);

  struct PullOptions {
    const FragmentMap* map = nullptr;
    int fragment = 0;
    int64_t version = -1;
    // Pull the newest outer parameters. False: the downlink of `version`.
    bool whole = false;
    const Codec* codec = nullptr;
  };
  // Decodes the rank's blocks into `into`, verifies them, and returns their version. Blocks that
  // have arrived are not requested again, unless the digest over all of them differs: then all are
  // pulled again. A rank that owns no block of the fragment pulls nothing; with `whole` it pulls
  // the fragment's first block, to learn the version. Errors as above; DATA_LOSS: the digest
  // differed kDamagedMax times.
  absl::StatusOr<int64_t> Pull(const PullOptions& options, PulledParameters& into,
                               const std::stop_token& stop);

 private:
  class Failures;
  // The bulk channels to one endpoint.
  using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

  // Where a transfer goes.
  struct Route {
    std::string endpoint;
    std::shared_ptr<const Channels> channels;
  };
  Route RouteOf(int fragment) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const Channels> Dial(const std::string& endpoint)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An attempt of the transfer failed. `stands`: how many in a row stood still. Its next attempts
  // use connections with small segments if it stands still on large ones, or another one did.
  void Reroute(int stands, Route& route) ABSL_LOCKS_EXCLUDED(mutex_);
  // Gives `call` the channels of each attempt, and its deadline.
  template <typename Call>
  absl::Status WithRetries(Route route, const std::stop_token& stop, Failures& failures,
                           StreamLimit& streams, Call&& call);
  // Notes that a push of this version begins. Returns whether one was begun before.
  bool Begun(int fragment, int64_t version);

  const Options options_;
  const std::unique_ptr<Clock> clock_ = MakeSystemClock();
  std::optional<Pacer> pacer_;
  // Seeds the jitter of each call's retries.
  std::atomic<uint64_t> calls_ = 0;
  // A link may be slow in one direction only.
  StreamLimit up_, down_;
  absl::Mutex mutex_;
  // The newest version whose push was begun, by fragment.
  std::map<int, int64_t> begun_ ABSL_GUARDED_BY(mutex_);
  // By fragment, without those that the coordinator serves.
  std::map<int, std::string> endpoints_ ABSL_GUARDED_BY(mutex_);
  // By endpoint. Shared with the transfers that use them.
  std::map<std::string, std::shared_ptr<const Channels>> channels_ ABSL_GUARDED_BY(mutex_);
  // Endpoints on whose path large packets vanish.
  std::set<std::string> small_segments_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::session
