// The interface with which the ranks of a group learn each other's addresses before a communicator
// exists: every rank brings one blob and gets those of all ranks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // Blocks until all ranks have called it, and returns their blobs by rank: the same on every rank.
  // The blobs come from outside, so the caller must check them. DEADLINE_EXCEEDED: a rank did not
  // come in time. UNAVAILABLE: the rendezvous is gone. ALREADY_EXISTS: another caller came as this
  // rank. INVALID_ARGUMENT: the rank is out of range or the blob too large. ABORTED: this
  // exchange is over (a later generation has begun).
  virtual absl::StatusOr<std::vector<std::string>> Exchange(int rank, std::string blob,
                                                            absl::Duration timeout) = 0;
};

}  // namespace longhaul
