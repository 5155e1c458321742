// Collectives of ranks, as messages between their machines. A rank goes on when the values of all
// ranks have reached it. So in the same collective one rank may succeed and another fail. A rank is
// lost when its process ends or cannot be reached. A rank that knows of a lost one fails in every
// later collective.
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

// Shared by the ranks and by messages that have not arrived yet.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  using Gathered = std::vector<std::vector<int64_t>>;  // One entry for each rank.
  using Met = std::function<void(const absl::StatusOr<Gathered>&)>;

  // `machines`: each rank's place on the network.
  Communicator(World* world, std::string name, const std::vector<int>& machines);
  // Ranks whose machines cannot reach each other are lost for each other.
  void Connect();

  // Every rank calls this with the same names in the same order. `met` runs `takes` after the
  // values of the last rank have arrived, or gets UNAVAILABLE if a rank is lost. If this is the
  // last rank to call, returns the time of the first call.
  std::optional<absl::Time> Collective(int rank, const std::string& name,
                                       std::vector<int64_t> values, absl::Duration takes, Met met);
  // The process of that rank has ended. The others are told, except with `silently`: then its
  // machine lost power.
  void Leave(int rank, bool silently);

 private:
  struct Meeting {
    std::string name;
    int arrived = 0;
    Gathered values;
    absl::Duration takes;
    Met met;  // Null: this rank has not called yet.
  };
  struct Rank {
    int machine = 0;
    bool here = true;
    bool broken = false;  // It knows that another rank is lost.
    int64_t next = 0;
    std::map<int64_t, Meeting> meetings;  // By the number of the call.
  };

  int size() const { return static_cast<int>(ranks_.size()); }
  // Runs `deliver` for each rank: at once on the same machine, and on others when the message
  // arrives.
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
  // The link of two machines, the lower number first. Null: they cannot reach each other.
  std::map<std::pair<int, int>, sim::ConnectionPtr> links_;
  struct Called {
    int ranks = 0;
    absl::Time first;
  };
  std::map<int64_t, Called> called_;  // By the number of the call.
};

}  // namespace longhaul::simulation
