// The collectives of ranks that met, as messages between their machines: a rank goes on when the
// values of all ranks have reached it, so one may go on where another fails. A rank whose process
// ended, or that cannot be reached, is gone: no later collective of those who heard of it succeeds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/simulation/world.h"

namespace longhaul::simulation {

// Shared by the ranks and the messages under way.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  using Gathered = std::vector<std::vector<int64_t>>;  // By rank.
  using Met = std::function<void(const absl::StatusOr<Gathered>&)>;

  // `machines`: of each rank, on the network.
  Communicator(World* world, std::string name, const std::vector<int>& machines);
  // Ranks of machines that cannot reach each other are gone for each other.
  void Connect();

  // Every rank calls this with the same names in the same order. `met` runs `takes` after the last
  // rank's values have come. UNAVAILABLE: one of them is gone. When all ranks have called, returns
  // when the first did.
  std::optional<absl::Time> Collective(int rank, const std::string& name,
                                       std::vector<int64_t> values, absl::Duration takes, Met met);
  // The process of that rank is gone. The others hear of it, unless `silently`: its machine lost
  // its power.
  void Leave(int rank, bool silently);

 private:
  struct Meeting {
    std::string name;
    int arrived = 0;
    Gathered values;
    absl::Duration takes;
    Met met;  // Null: the rank itself did not call yet.
  };
  struct Rank {
    int machine = 0;
    bool here = true;
    bool broken = false;  // It heard that another is gone.
    int64_t next = 0;
    std::map<int64_t, Meeting> meetings;  // By their order.
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  // Runs `deliver` for each rank of the other machines when a message reaches it, and at once for
  // those of the same.
  void Tell(int from, const std::function<void(int to)>& deliver);
  void Arrive(int to, int64_t order, int from, const std::string& name,
              const std::vector<int64_t>& values);
  void Break(int rank);
  void Fail(Meeting& meeting);
  void Disconnect();

  World* const world_;
  const std::string name_;
  std::vector<Rank> ranks_;
  std::set<int> machines_;
  // Of two machines, the lower first. Null: they cannot reach each other.
  std::map<std::pair<int, int>, sim::ConnectionPtr> links_;
  struct Called {
    int ranks = 0;
    absl::Time first;
  };
  std::map<int64_t, Called> called_;  // By order.
};

}  // namespace longhaul::simulation
