#include "tests/simulation/communicator.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/status_marks.h"

namespace longhaul::simulation {
namespace {

// Until a process notices that another has ended.
constexpr absl::Duration kNoticed = absl::Milliseconds(300);
constexpr int64_t kValuesBytes = 200;

std::pair<int, int> Pair(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

}  // namespace

Communicator::Communicator(World* world, std::string name, const std::vector<int>& machines)
    : world_(world), name_(std::move(name)) {
  for (int machine : machines) ranks_.push_back({.machine = machine});
  machines_.insert(machines.begin(), machines.end());
}

void Communicator::Connect() {
  for (int a : machines_) {
    for (int b : machines_) {
      if (a >= b) continue;
      const auto lost = [weak = weak_from_this(), a, b] {
        const auto self = weak.lock();
        if (!self) return;
        for (int r = 0; r < self->size(); ++r) {
          if (self->ranks_[r].machine == a || self->ranks_[r].machine == b) self->Break(r);
        }
      };
      links_[{a, b}] = world_->network.Connect(a, b, lost, nullptr);
      if (links_[{a, b}] == nullptr) lost();
    }
  }
}

std::optional<absl::Time> Communicator::Collective(int rank, const std::string& name,
                                                   std::vector<int64_t> values,
                                                   absl::Duration takes, Met met) {
  const int64_t order = ranks_[rank].next++;
  Meeting& own = ranks_[rank].meetings[order];
  own.takes = takes;
  own.met = std::move(met);
  Called& called = called_.try_emplace(order, Called{.first = world_->loop.now()}).first->second;
  std::optional<absl::Time> all;
  if (++called.ranks == size()) {
    all = called.first;
    called_.erase(order);
  }
  Tell(rank, [this, order, rank, name, values = std::move(values)](int to) {
    Arrive(to, order, rank, name, values);
  });
  return all;
}

void Communicator::Tell(int from, const std::function<void(int to)>& deliver) {
  for (int machine : machines_) {
    const auto arrive = [self = shared_from_this(), machine, deliver] {
      for (int to = 0; to < self->size(); ++to) {
        if (self->ranks_[to].machine == machine) deliver(to);
      }
    };
    const int own = ranks_[from].machine;
    if (machine == own) {
      arrive();
    } else if (const auto& link = links_[Pair(own, machine)]; link != nullptr) {
      world_->network.Send(link, own, kValuesBytes, arrive);
    }
  }
}

void Communicator::Arrive(int to, int64_t order, int from, const std::string& name,
                          const std::vector<int64_t>& values) {
  Rank& rank = ranks_[to];
  if (!rank.here) return;
  Meeting& meeting = rank.meetings[order];
  if (meeting.arrived++ == 0) {
    meeting.name = name;
    meeting.values.resize(size());
  }
  if (meeting.name != name) {
    return world_->checker.Violation(
        absl::StrFormat("ranks of %s disagree: '%s' and '%s'", name_, meeting.name, name));
  }
  meeting.values[from] = values;
  if (!meeting.met) return;
  if (meeting.arrived < size()) {
    if (rank.broken) Fail(meeting);
    return;
  }
  world_->loop.After(meeting.takes, [met = std::move(meeting.met),
                                     values = std::move(meeting.values)] { met(values); });
  rank.meetings.erase(order);
}

void Communicator::Break(int rank) {
  ranks_[rank].broken = true;
  for (auto& [order, meeting] : ranks_[rank].meetings) {
    // Where all came, it has what it needs of the others.
    if (meeting.met && meeting.arrived < size()) Fail(meeting);
  }
}

void Communicator::Fail(Meeting& meeting) {
  if (!meeting.met) return;
  world_->loop.After(world_->Between(absl::ZeroDuration(), kNoticed),
                     [met = std::exchange(meeting.met, nullptr)] {
                       met(MarkPeerFault(absl::UnavailableError("another rank is gone")));
                     });
}

void Communicator::Leave(int rank, bool silently) {
  const auto self = shared_from_this();
  ranks_[rank].here = false;
  ranks_[rank].meetings.clear();
  if (!silently) {
    Tell(rank, [this, rank](int to) {
      if (to != rank && ranks_[to].here) Break(to);
    });
  }
  if (std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.here; }))
    Disconnect();
}

void Communicator::Disconnect() {
  for (const auto& [machines, link] : std::exchange(links_, {})) {
    if (link != nullptr) world_->network.Break(link);
  }
}

}  // namespace longhaul::simulation
