#include "worker/collective/subgroup_rendezvous.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/collective/parts.h"
#include "worker/collective/steady_deadline.h"

namespace longhaul {
namespace {

constexpr int64_t kBlobBytesMax = 64 << 10;
// A timeout must be above zero.
constexpr absl::Duration kLeast = absl::Milliseconds(1);

absl::Span<std::byte> AsBytes(void* data, int64_t bytes) {
  return {static_cast<std::byte*>(data), static_cast<size_t>(bytes)};
}

}  // namespace

SubgroupRendezvous::SubgroupRendezvous(Communicator& parent, std::vector<int> members)
    : parent_(parent), members_(std::move(members)) {}

absl::StatusOr<std::vector<std::string>> SubgroupRendezvous::Exchange(int rank, std::string blob,
                                                                      absl::Duration timeout) {
  if (rank < 0 || rank >= static_cast<int>(members_.size()) || members_[rank] != parent_.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", parent_.rank(), " is not rank ", rank, " of its group"));
  }
  for (const int member : members_) {
    if (member < 0 || member >= parent_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("member ", member, " of ", parent_.size(), " ranks"));
    }
  }
  const SteadyDeadline deadline = SteadyDeadlineIn(timeout);
  std::vector<int64_t> sizes(parent_.size());
  int64_t own_size = blob.size();
  LH_RETURN_IF_ERROR(parent_.AllGather(AsBytes(&own_size, sizeof(own_size)),
                                       EvenParts(sizes.size() * sizeof(int64_t), parent_.size()),
                                       AsBytes(sizes.data(), sizes.size() * sizeof(int64_t)),
                                       {.timeout = timeout}));
  for (int r = 0; r < parent_.size(); ++r) {
    if (sizes[r] < 0 || sizes[r] > kBlobBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("rendezvous: rank ", r, " brings ", sizes[r], " bytes"));
    }
  }
  std::vector<Part> parts;
  LH_RETURN_IF_ERROR(ContiguousParts(sizes, &parts));
  std::string all(parts.back().offset + parts.back().size, '\0');
  const absl::Duration left = absl::FromChrono(deadline - std::chrono::steady_clock::now());
  LH_RETURN_IF_ERROR(parent_.AllGather(AsBytes(blob.data(), blob.size()), parts,
                                       AsBytes(all.data(), all.size()),
                                       {.timeout = std::max(left, kLeast)}));
  std::vector<std::string> blobs;
  for (const int member : members_)
    blobs.push_back(all.substr(parts[member].offset, parts[member].size));
  return blobs;
}

}  // namespace longhaul
