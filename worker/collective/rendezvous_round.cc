#include "worker/collective/rendezvous_round.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {

absl::Status RendezvousRound::Join(Connection connection, RendezvousRequest request) {
  if (request.generation != generation_) {
    return absl::FailedPreconditionError(absl::StrCat("rendezvous: generation ", request.generation,
                                                      " came, the current one is ", generation_));
  }
  if (request.rank >= static_cast<uint32_t>(size_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: rank ", request.rank, " of ", size_));
  }
  if (complete()) {
    return absl::FailedPreconditionError(
        absl::StrCat("rendezvous: the exchange of generation ", generation_, " is over"));
  }
  const int rank = static_cast<int>(request.rank);
  if (!members_.try_emplace(rank, Member{connection, std::move(request.blob)}).second) {
    return absl::AlreadyExistsError(absl::StrCat("rendezvous: rank ", rank, " came twice"));
  }
  return absl::OkStatus();
}

void RendezvousRound::Leave(Connection connection) {
  if (complete()) return;
  absl::erase_if(members_,
                 [&](const auto& entry) { return entry.second.connection == connection; });
}

std::vector<std::string> RendezvousRound::Blobs() const {
  std::vector<std::string> blobs(size_);
  for (const auto& [rank, member] : members_) blobs[rank] = member.blob;
  return blobs;
}

}  // namespace longhaul
