#include "worker/rendezvous/rendezvous_server.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/rendezvous/rendezvous_limits.h"

namespace longhaul {
namespace {

// Time for the last answers to reach the ranks.
constexpr absl::Duration kGrace = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(const Options& options) {
  if (options.token.empty() ||
      options.token.size() > static_cast<size_t>(kRendezvousTokenBytesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: a token of ", options.token.size(), " bytes"));
  }
  auto result = absl::WrapUnique(new RendezvousServer(options));
  LH_ASSIGN_OR_RETURN(
      result->server_,
      Server::Start({.address = options.address,
                     .tls = options.tls,
                     .allow_plaintext_beyond_localhost = options.allow_plaintext_beyond_localhost,
                     .receive_bytes_max = kRendezvousRequestBytesMax,
                     .send_bytes_max = kRendezvousResponseBytesMax},
                    {&result->service_}));
  return result;
}

RendezvousServer::~RendezvousServer() {
  if (server_ == nullptr) return;
  service_.Close();
  server_->Shutdown(kGrace);
}

absl::Status RendezvousServer::StartGeneration(uint64_t generation, int size) {
  if (size < 1 || size > kRanksMax) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: ", size, " ranks"));
  }
  service_.StartGeneration(generation, size);
  return absl::OkStatus();
}

}  // namespace longhaul
