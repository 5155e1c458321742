// Calls any method of a server by its name, for tests of what all methods do.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/channel.h"

namespace longhaul {

// Sends one message, receives at most one, and returns how the call ends. `method` is
// "/package.Service/Method". `response`, if not null, receives the message.
absl::Status CallAny(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, const std::string& token,
                     std::string* response = nullptr);

// Calls each method with an empty request, and returns those that do not answer that the caller may
// not call them (UNAUTHENTICATED, PERMISSION_DENIED).
std::vector<std::string> NotRefused(const std::shared_ptr<grpc::Channel>& channel,
                                    const std::vector<std::string>& methods,
                                    const std::string& token);

// The services that the server's reflection names.
absl::StatusOr<std::vector<std::string>> ListServices(const std::shared_ptr<grpc::Channel>& channel,
                                                      const std::string& token);

}  // namespace longhaul
