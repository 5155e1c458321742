// Pushes and pulls of one rank, with retries. Blocking calls for background threads; thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/codec/codec.h"
#include "common/rpc/fragment_client.h"
#include "common/schedule/round_kind.h"
#include "worker/session/outer_fragment.h"

namespace longhaul::session {

class Transfers {
 public:
  struct Options {
    std::string coordinator, job, pool, incarnation;
    int channels = 1;  // Bulk channels; a transfer uses one for each MiB, at most.
    absl::Duration attempt = absl::Minutes(10);  // Deadline of one attempt.
  };
  explicit Transfers(Options options);

  // Sends a contribution. Lost connections, damaged bytes and a full server are tried again until
  // `stop`; other errors are the coordinator's refusal. CANCELLED: stopped.
  absl::Status Push(int fragment, int64_t version, RoundKind kind, const Codec& codec,
                    std::shared_ptr<const CodedContribution> contribution, int64_t inner_step,
                    const std::stop_token& stop);

  // The downlink of `version`, or with `whole` the newest outer parameters, of the rank's blocks;
  // all parts are of one version. A rank without blocks of this fragment gets its first one, for
  // its version. Errors as above.
  absl::StatusOr<std::vector<PulledBlocks>> Pull(const FragmentMap& map, int fragment,
                                                 int64_t version, bool whole, const Codec& codec,
                                                 const std::stop_token& stop);

 private:
  template <typename Call>
  auto WithRetries(const std::stop_token& stop, Call&& call) -> decltype(call(absl::Time()));
  BulkChannels ChannelsFor(int64_t bytes) const;

  const Options options_;
  const std::unique_ptr<Clock> clock_ = MakeSystemClock();
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  std::atomic<uint64_t> calls_ = 0;  // Keys of the retries' jitter.
};

}  // namespace longhaul::session
