// Answers a call that the door refuses (access/door.h), before the handler looks at the request. It
// is the first line of every handler.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "common/rpc/status_conversion.h"
#include "coordinator/access/door.h"
#include "grpcpp/support/server_callback.h"

// `door`: null without TLS, where callers are not identified. `context`: the handler's argument.
#define LH_RETURN_IF_REFUSED(door, context)                                                        \
  if (absl::Status refusal = (door) == nullptr ? absl::OkStatus() : (door)->RefusalOf(*(context)); \
      !refusal.ok())                                                                               \
  return ::longhaul::coordinator::RefusedCall(std::move(refusal))

namespace longhaul::coordinator {

// Converts to the type of reactor that the handler returns. The reactor ends the call and frees
// itself.
class RefusedCall {
 public:
  explicit RefusedCall(absl::Status why) : why_(std::move(why)) {}

  template <typename Reactor>
  operator Reactor*() const {  // NOLINT: implicit, so that a handler returns it.
    class Ended final : public Reactor {
     public:
      explicit Ended(const absl::Status& why) { this->Finish(ToGrpcStatus(why)); }
      void OnDone() override { delete this; }
    };
    return new Ended(why_);
  }

 private:
  const absl::Status why_;
};

}  // namespace longhaul::coordinator
