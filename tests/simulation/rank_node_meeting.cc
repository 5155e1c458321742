// How a simulated rank meets the others of its pool: what worker/rank/pool_communicator.cc and the
// rendezvous client do.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/rank_node.h"

namespace longhaul::simulation {
namespace {

// Shorter than what an agent gives a rank until its first steps, as the product's.
constexpr absl::Duration kMeetingTimeout = absl::Seconds(6);
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(100);

}  // namespace

void RankNode::Meet() {
  if (id_.ranks == 1) return MeetAt({address_});
  meet_until_ = world_->loop.now() + kMeetingTimeout;
  Later(kMeetingTimeout, [this] {
    if (meet_until_ == absl::InfiniteFuture()) return;
    MeetingFails(absl::DeadlineExceededError("not all ranks came"));
  });
  Exchange();
}

void RankNode::Exchange() {
  const auto again = [this] { Exchange(); };
  RendezvousNode* const server = site_->At(options_.meeting.rendezvous);
  if (server == nullptr) return Later(kBetweenCalls, again);
  rendezvous_ =
      server->Exchange(options_.machine, options_.meeting.token,
                       {options_.meeting.generation, id_.ranks, id_.rank, address_},
                       [this, self = shared_from_this()](const RendezvousNode::Blobs& blobs) {
                         process_->Run([this, self, blobs] { Exchanged(blobs); });
                       });
  if (rendezvous_ == nullptr) Later(kBetweenCalls, again);
}

void RankNode::Exchanged(const RendezvousNode::Blobs& blobs) {
  if (rendezvous_ != nullptr) world_->network.Break(std::exchange(rendezvous_, nullptr));
  if (blobs.ok()) return MeetAt(*blobs);
  if (!absl::IsNotFound(blobs.status())) return MeetingFails(blobs.status());
  Later(kBetweenCalls, [this] { Exchange(); });
}

void RankNode::MeetAt(const std::vector<std::string>& blobs) {
  communicator_ = site_->Connect(blobs);
  communicator_->Collective(id_.rank, "meet", {}, absl::Milliseconds(1),
                            [this, self = shared_from_this()](const auto& values) {
                              process_->Run([this, self, met = values.status()] {
                                if (!met.ok()) return MeetingFails(met);
                                meet_until_ = absl::InfiniteFuture();
                                Prepare();
                              });
                            });
}

void RankNode::MeetingFails(const absl::Status& status) {
  End(EndOf(FaultOrigin::kMeeting, v1::JobSpec(), status));
}

}  // namespace longhaul::simulation
