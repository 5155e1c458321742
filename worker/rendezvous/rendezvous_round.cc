#include "worker/rendezvous/rendezvous_round.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {

absl::Status RendezvousRound::Join(Caller caller, Request request) {
  if (request.generation != generation_) {
    return absl::NotFoundError(absl::StrCat("rendezvous: generation ", request.generation,
                                            " came, the current one is ", generation_));
  }
  if (request.size != size_) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous: a rank of ", request.size,
                                                   " ranks came, generation ", generation_, " has ",
                                                   size_));
  }
  if (request.rank < 0 || request.rank >= size_) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: rank ", request.rank, " of ", size_));
  }
  if (complete()) {
    return absl::AbortedError(
        absl::StrCat("rendezvous: the exchange of generation ", generation_, " is over"));
  }
  if (!members_.try_emplace(request.rank, Member{caller, std::move(request.blob)}).second) {
    return absl::AlreadyExistsError(absl::StrCat("rendezvous: rank ", request.rank, " came twice"));
  }
  return absl::OkStatus();
}

void RendezvousRound::Leave(Caller caller) {
  if (complete()) return;
  absl::erase_if(members_, [&](const auto& entry) { return entry.second.caller == caller; });
}

std::vector<std::string> RendezvousRound::Blobs() const {
  std::vector<std::string> blobs(size_);
  for (const auto& [rank, member] : members_) blobs[rank] = member.blob;
  return blobs;
}

}  // namespace longhaul
