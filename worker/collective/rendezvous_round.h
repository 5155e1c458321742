// The decisions of the rendezvous server: who takes part in the exchange of a generation, and when
// it is complete. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "worker/collective/rendezvous_wire.h"

namespace longhaul {

// Externally synchronised. Connections are known by numbers that the caller never uses twice.
class RendezvousRound {
 public:
  using Connection = uint64_t;

  RendezvousRound(uint64_t generation, int size) : generation_(generation), size_(size) {}

  // OK: the connection takes part and waits. FAILED_PRECONDITION: its generation is not the current
  // one, or the exchange of this generation is over. INVALID_ARGUMENT: the rank is out of range.
  // ALREADY_EXISTS: another has come as it.
  absl::Status Join(Connection connection, RendezvousRequest request);

  // The connection is gone. Its rank may come again, unless the exchange was complete.
  void Leave(Connection connection);

  bool complete() const { return static_cast<int>(members_.size()) == size_; }
  // When complete: the blobs by rank.
  std::vector<std::string> Blobs() const;

 private:
  struct Member {
    Connection connection;
    std::string blob;
  };
  uint64_t generation_;
  int size_;
  absl::flat_hash_map<int, Member> members_;  // by rank
};

}  // namespace longhaul
