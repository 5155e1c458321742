// The decisions of the rendezvous service: which ranks take part in the exchange of a generation,
// and when it is complete. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace longhaul {

// Externally synchronised. A caller is a number that is never used twice.
class RendezvousRound {
 public:
  using Caller = uint64_t;
  // As it came: `size` and `rank` may be any numbers.
  struct Request {
    uint64_t generation = 0;
    int size = 0;
    int rank = 0;
    std::string blob;
  };

  RendezvousRound(uint64_t generation, int size) : generation_(generation), size_(size) {}

  // OK: the caller takes part and waits. NOT_FOUND: its generation is not the current one.
  // ABORTED: the exchange of this generation is over. INVALID_ARGUMENT: the size is another one, or
  // the rank is out of range. ALREADY_EXISTS: another caller came as this rank.
  absl::Status Join(Caller caller, Request request);

  // The caller is gone. Its rank may come again, unless the exchange was complete.
  void Leave(Caller caller);

  bool complete() const { return static_cast<int>(members_.size()) == size_; }
  // The blobs by rank, when the exchange is complete.
  std::vector<std::string> Blobs() const;

 private:
  struct Member {
    Caller caller;
    std::string blob;
  };
  uint64_t generation_;
  int size_;
  // By rank.
  absl::flat_hash_map<int, Member> members_;
};

}  // namespace longhaul
