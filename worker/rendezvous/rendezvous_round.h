// The decisions of the rendezvous service: who takes part in the exchange of a generation, and when
// it is complete. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace longhaul {

// Externally synchronised. Callers are known by numbers that are never used twice.
class RendezvousRound {
 public:
  using Caller = uint64_t;
  // As it came: `size` and `rank` are any numbers.
  struct Request {
    uint64_t generation = 0;
    int size = 0;
    int rank = 0;
    std::string blob;
  };

  RendezvousRound(uint64_t generation, int size) : generation_(generation), size_(size) {}

  // OK: the caller takes part and waits. NOT_FOUND: its generation is not the current one.
  // FAILED_PRECONDITION: the exchange of this generation is over. INVALID_ARGUMENT: the size is
  // another one, or the rank out of range. ALREADY_EXISTS: another has come as it.
  absl::Status Join(Caller caller, Request request);

  // The caller is gone. Its rank may come again, unless the exchange was complete.
  void Leave(Caller caller);

  bool complete() const { return static_cast<int>(members_.size()) == size_; }
  // When complete: the blobs by rank.
  std::vector<std::string> Blobs() const;

 private:
  struct Member {
    Caller caller;
    std::string blob;
  };
  uint64_t generation_;
  int size_;
  absl::flat_hash_map<int, Member> members_;  // by rank
};

}  // namespace longhaul
