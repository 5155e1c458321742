// Limits how often an address connects in vain, that is, without a call. A client without a
// certificate that the server accepts is gone after the handshake of TLS, which costs the server
// more than anything else that a stranger can do. Connections that carry a call never count, so
// that all programs of a large site may come back at once.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace longhaul {

// Not thread-safe. `now` does not go back.
class VisitLimit {
 public:
  // Visits of one address: after a pause at once, and then each second.
  static constexpr double kAtOnce = 128, kPerSecond = 25;
  // A connection that ended sooner was a visit.
  static constexpr absl::Duration kShort = absl::Seconds(1);
  static constexpr size_t kAddressesMax = 4096;

  // A connection of this address, which began at `since`, has ended by now, and carried no call.
  void Ended(const std::string& address, absl::Time since, absl::Time now);
  // Whether another connection of this address is to be refused.
  bool IsExceeded(const std::string& address, absl::Time now);

 private:
  struct Bucket {
    double room = kAtOnce;
    absl::Time at;
  };
  // With what has come since.
  static double RoomOf(const Bucket& bucket, absl::Time now);

  std::map<std::string, Bucket> buckets_;
};

}  // namespace longhaul
