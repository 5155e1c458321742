#include "tests/simulation/site.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"

namespace longhaul::simulation {
namespace {

int MachineOf(const std::string& blob) {
  int machine = 0;
  const std::pair<std::string, std::string> parts = absl::StrSplit(blob, absl::MaxSplits(':', 1));
  LH_CHECK(absl::SimpleAtoi(parts.first, &machine), "Listen made it");
  return machine;
}

}  // namespace

std::string Site::Serve(int machine, RendezvousNode* rendezvous) {
  const std::string address = absl::StrCat(machine, ":", ++addresses_);
  served_[address] = rendezvous;
  return address;
}

RendezvousNode* Site::At(const std::string& address) const {
  const auto found = served_.find(address);
  return found == served_.end() ? nullptr : found->second;
}

std::string Site::Listen(int machine) {
  const std::string blob = absl::StrCat(machine, ":", ++addresses_);
  listening_[blob];
  return blob;
}

void Site::Close(const std::string& blob, bool silently) {
  const auto node = listening_.extract(blob);
  if (node.empty()) return;
  for (const Member& member : node.mapped()) {
    if (const auto communicator = member.communicator.lock())
      communicator->Leave(member.rank, silently);
  }
}

std::shared_ptr<Communicator> Site::Connect(const std::vector<std::string>& blobs) {
  std::weak_ptr<Communicator>& known = communicators_[blobs];
  if (auto communicator = known.lock()) return communicator;
  std::vector<int> machines;
  for (const std::string& blob : blobs) machines.push_back(MachineOf(blob));
  const auto made = std::make_shared<Communicator>(
      world_, absl::StrCat("pool ", pool_, " at ", absl::StrJoin(blobs, " ")), machines);
  known = made;
  made->Connect();
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    const auto listens = listening_.find(blobs[rank]);
    if (listens == listening_.end()) {
      made->Leave(static_cast<int>(rank), false);
    } else {
      listens->second.push_back({made, static_cast<int>(rank)});
    }
  }
  return made;
}

}  // namespace longhaul::simulation
