// Pushes and pulls of one rank, which go on where a lost connection broke them. Blocking calls for
// background threads; thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
#include "common/rpc/fragment_client.h"
#include "common/rpc/pacer.h"
#include "common/rpc/retry.h"
#include "common/rpc/tls.h"
#include "common/schedule/round_kind.h"
#include "worker/session/outer_fragment.h"

namespace longhaul::session {

class Transfers {
 public:
  // Attempts whose bytes were damaged, until the transfer is given up.
  static constexpr int kDamagedMax = 4;
  struct Options {
    std::string coordinator, job, pool, incarnation;
    std::shared_ptr<const Tls> tls = nullptr;  // Null: plaintext.
    int channels = 1;                  // Bulk channels; a transfer uses one for each MiB, at most.
    double push_bytes_per_second = 0;  // All channels together. 0: no limit.
    absl::Duration attempt = absl::Minutes(10);  // Deadline of one attempt.
    Backoff backoff = {.max = absl::Seconds(2)};
  };
  explicit Transfers(Options options);

  // Who serves a fragment, as its plan says: HOST:PORT; empty: the coordinator. Transfers that are
  // under way keep to the earlier one.
  void SetEndpoint(int fragment, const std::string& endpoint);

  // Sends a contribution: all of it at first, after that what the coordinator lacks, also when
  // another call for the same version was stopped. Lost connections, a server that goes down or is
  // full are tried again until `stop`; damaged bytes and broken streams kDamagedMax times in a row. Other
  // errors are the coordinator's refusal. CANCELLED: stopped.
  absl::Status Push(int fragment, int64_t version, RoundKind kind, const Codec& codec,
                    std::shared_ptr<const CodedContribution> contribution, int64_t inner_step,
                    const std::stop_token& stop);

  struct PullOptions {
    const FragmentMap* map = nullptr;
    int fragment = 0;
    int64_t version = -1;
    bool whole = false;  // The newest outer parameters, else the downlink of `version`.
    const Codec* codec = nullptr;
  };
  // Decodes the rank's blocks into `into` and verifies them; returns their version. A block that
  // came is not asked for again, unless the digest of all of them differs: then all are pulled
  // again. A rank without blocks of this fragment pulls nothing, or with `whole` the fragment's
  // first block for its version. Errors as above; DATA_LOSS: the digest differed kDamagedMax times.
  absl::StatusOr<int64_t> Pull(const PullOptions& options, PulledParameters& into,
                               const std::stop_token& stop);

 private:
  class Failures;
  // The bulk channels to one endpoint.
  using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

  std::shared_ptr<const Channels> ChannelsTo(int fragment) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<const Channels> Dial(const std::string& endpoint) const;
  template <typename Call>
  absl::Status WithRetries(const Channels& channels, const std::stop_token& stop,
                           Failures& failures, Call&& call);
  static absl::Status PushMissing(const Channels& channels, const v1::PushHeader& header,
                                  const CodedSource& source, const BulkCall& call);
  // Whether a push of this version was begun before.
  bool Begun(int fragment, int64_t version);

  const Options options_;
  const std::unique_ptr<Clock> clock_ = MakeSystemClock();
  std::optional<Pacer> pacer_;
  std::atomic<uint64_t> calls_ = 0;  // Keys of the retries' jitter.
  absl::Mutex mutex_;
  std::map<int, int64_t> begun_ ABSL_GUARDED_BY(mutex_);          // Newest version, by fragment.
  std::map<int, std::string> endpoints_ ABSL_GUARDED_BY(mutex_);  // Not empty, by fragment.
  // By endpoint; shared with the transfers under way.
  std::map<std::string, std::shared_ptr<const Channels>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::session
